#include "kernels/floats/floats.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/random.h"
#include "kernels/level.h"
#include "tests/support/guarded_bytes.h"

namespace sluice::floats {
namespace {

constexpr std::array kFormats{Format::f32, Format::bf16, Format::f16};
constexpr std::array kNarrow{Format::bf16, Format::f16};
constexpr std::uint32_t kQuietNan = 0x7fc00000;
using support::Guarded;
using support::kGuard;
constexpr float kInf = std::numeric_limits<float>::infinity();

std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }
float from_bits(std::uint32_t bits) { return std::bit_cast<float>(bits); }

std::string label(Level level, Format format) {
  const char* name = format == Format::f32 ? "f32" : format == Format::bf16 ? "bf16" : "f16";
  return std::string(name_of(level)) + " " + name;
}

// A 16-bit format by its field widths, in float64, so that nothing here rounds.
struct Layout {
  int fraction_bits;
  int bias;
  std::uint16_t infinity;
  std::uint16_t nan;
};
constexpr Layout layout_of(Format format) {
  return format == Format::bf16 ? Layout{7, 127, 0x7f80, 0x7fc0} : Layout{10, 15, 0x7c00, 0x7e00};
}

bool is_nan_code(Format format, std::uint32_t code) {
  return (code & 0x7fff) > layout_of(format).infinity;
}

// The magnitude of a code without sign; infinity counts as the next power of two, which is where
// rounding to nearest puts its border.
double magnitude_of(Format format, std::uint32_t code) {
  const Layout layout = layout_of(format);
  const int exponent = static_cast<int>(code) >> layout.fraction_bits;
  const int one = 1 << layout.fraction_bits;
  const int fraction = static_cast<int>(code) & (one - 1);
  const int significand = exponent == 0 ? fraction : one + fraction;
  const int power = (exponent == 0 ? 1 : exponent) - layout.bias - layout.fraction_bits;
  return std::ldexp(significand, power);
}

float reference_decode(Format format, std::uint32_t code) {
  if (is_nan_code(format, code)) return from_bits(kQuietNan);
  const std::uint32_t positive = code & 0x7fff;
  const bool infinite = positive == layout_of(format).infinity;
  const float magnitude = infinite ? kInf : static_cast<float>(magnitude_of(format, positive));
  return (code & 0x8000) != 0 ? -magnitude : magnitude;
}

// Bisects for the two neighbours of the value and takes the nearer one, the even one in a tie.
std::uint16_t reference_encode(Format format, float value) {
  const Layout layout = layout_of(format);
  if (std::isnan(value)) return layout.nan;
  const std::uint32_t sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::fabs(static_cast<double>(value));
  std::uint32_t low = 0;
  std::uint32_t high = layout.infinity;
  if (magnitude >= magnitude_of(format, high)) return static_cast<std::uint16_t>(sign | high);
  while (high - low > 1) {
    const std::uint32_t middle = (low + high) / 2;
    (magnitude_of(format, middle) <= magnitude ? low : high) = middle;
  }
  const double below = magnitude - magnitude_of(format, low);
  const double above = magnitude_of(format, high) - magnitude;
  const bool up = below > above || (below == above && low % 2 == 1);
  return static_cast<std::uint16_t>(sign | (up ? high : low));
}

// Bit patterns that have gone wrong somewhere: zeros, ends of ranges, borders of float16, NaNs
// quiet and signalling, with payload and sign.
constexpr std::array<std::uint32_t, 36> kAwkward{
    0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007fffff, 0x807fffff, 0x00800000, 0x80800000,
    0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000, 0x7fc00000, 0xffc00000, 0x7f800001, 0xff800001,
    0x7fffffff, 0xffffffff, 0x7fa5a5a5, 0xffe00001, 0x3f800000, 0xbf800000, 0x477fe000, 0x477fefff,
    0x477ff000, 0xc77ff000, 0x38800000, 0x387fffff, 0x387fe000, 0x33800000, 0x33000000, 0x33000001,
    0x32ffffff, 0xb3000000, 0x7f7f8000, 0x7f7f7fff,
};

// Awkward patterns between random ones, a third of which are of moderate size so that sums and
// quotients are ordinary.
std::vector<float> mixed_values(std::size_t count, std::uint32_t seed) {
  const RandomStream stream(seed, Purpose::data, 0);
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t word = stream.word(i);
    const std::uint32_t moderate = (word & 0x87ffffff) + 0x3c000000;
    const std::size_t pick = word % 3;
    values[i] = from_bits(pick == 0   ? kAwkward[(word >> 8) % kAwkward.size()]
                          : pick == 1 ? moderate
                                      : stream.word(i + count));
  }
  return values;
}

// Wire bytes of any pattern, awkward ones in the upper half of bf16 and in f16 by chance.
std::vector<std::byte> mixed_wire(Format format, std::size_t count, std::uint32_t seed) {
  const std::vector<float> values = mixed_values(count, seed);
  std::vector<std::byte> wire(count * size_of(format));
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t bits = bits_of(values[i]);
    if (format == Format::f32) {
      store_le(wire, i * 4, bits);
    } else {
      const std::uint16_t code = format == Format::bf16 || i % 2 == 0
                                     ? static_cast<std::uint16_t>(bits >> 16)
                                     : reference_encode(Format::f16, values[i]);
      store_le(wire, i * 2, code);
    }
  }
  return wire;
}

std::vector<std::uint16_t> encode_at(Level level, Format format, std::span<const float> values,
                                     float scale = 1) {
  const ScopedLevel scoped(level);
  std::vector<std::uint16_t> codes(values.size());
  encode(format, values, scale, std::as_writable_bytes(std::span(codes)));
  return codes;
}

// The same for floats, which are always aligned to their size.
class GuardedFloats {
 public:
  explicit GuardedFloats(std::span<const float> values) : storage_(values.size() + 2 * kGuard, -7) {
    std::copy(values.begin(), values.end(), storage_.begin() + kGuard);
  }
  std::span<float> floats() { return std::span(storage_).subspan(kGuard, size()); }
  std::size_t size() const { return storage_.size() - 2 * kGuard; }
  bool intact() const {
    for (std::size_t i = 0; i < kGuard; ++i) {
      if (storage_[i] != -7 || storage_[storage_.size() - 1 - i] != -7) return false;
    }
    return true;
  }

 private:
  std::vector<float> storage_;
};

::testing::AssertionResult same_bits(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) return ::testing::AssertionFailure() << "sizes differ";
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (bits_of(a[i]) != bits_of(b[i])) {
      return ::testing::AssertionFailure()
             << "element " << i << std::hex << ": " << bits_of(a[i]) << " and " << bits_of(b[i]);
    }
  }
  return ::testing::AssertionSuccess();
}

// Calls `test` under each level.
template <class Test>
void at_each_level(const Test& test) {
  for (const Level level : available_levels()) {
    const ScopedLevel scoped(level);
    test(level);
  }
}

template <class Test>
void at_each_level_and_format(std::span<const Format> formats, const Test& test) {
  at_each_level([&](Level level) {
    for (const Format format : formats) {
      SCOPED_TRACE(label(level, format));
      test(level, format);
    }
  });
}

TEST(Floats, EveryPatternDecodesToItsValue) {
  std::vector<std::uint16_t> codes(65536);
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::uint16_t>(i);
  at_each_level_and_format(kNarrow, [&](Level, Format format) {
    std::vector<float> expected(codes.size());
    for (const std::uint16_t code : codes) expected[code] = reference_decode(format, code);
    std::vector<float> values(codes.size());
    decode(format, std::as_bytes(std::span(codes)), values);
    EXPECT_TRUE(same_bits(values, expected));
  });
}

TEST(Floats, EveryPatternSurvivesDecodingAndEncoding) {
  std::vector<std::uint16_t> codes(65536);
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::uint16_t>(i);
  at_each_level_and_format(kNarrow, [&](Level level, Format format) {
    std::vector<float> values(codes.size());
    decode(format, std::as_bytes(std::span(codes)), values);
    const std::vector<std::uint16_t> again = encode_at(level, format, values);
    for (const std::uint16_t code : codes) {
      ASSERT_EQ(again[code], is_nan_code(format, code) ? layout_of(format).nan : code);
    }
  });
}

TEST(Floats, HalfwayCasesRoundToEvenAndTheirNeighboursToTheNearer) {
  at_each_level_and_format(kNarrow, [&](Level level, Format format) {
    std::vector<float> values;
    for (std::uint32_t code = 0; code < layout_of(format).infinity; ++code) {
      const double sum = magnitude_of(format, code) + magnitude_of(format, code + 1);
      const auto halfway = static_cast<float>(sum / 2);
      ASSERT_EQ(static_cast<double>(halfway), sum / 2) << "a halfway case is exact in float32";
      for (const float value :
           {halfway, std::nextafter(halfway, 0.0f), std::nextafter(halfway, kInf), -halfway}) {
        values.push_back(value);
      }
    }
    const std::vector<std::uint16_t> codes = encode_at(level, format, values);
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(codes[i], reference_encode(format, values[i])) << values[i];
    }
  });
}

TEST(Floats, RandomAndAwkwardPatternsEncodeAsTheReference) {
  const std::vector<float> values = mixed_values(100'000, 1);
  for (const Format format : kNarrow) {
    std::vector<std::uint16_t> expected(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      expected[i] = reference_encode(format, values[i]);
    }
    for (const Level level : available_levels()) {
      SCOPED_TRACE(label(level, format));
      EXPECT_EQ(encode_at(level, format, values), expected);
    }
  }
}

TEST(Floats, KnownValuesHaveTheirTextbookPatterns) {
  const std::vector<float> values{1, -2, 65504, 65520, 0x1p-24f, 0x1p-25f, 0x1.8p-25f, 0x1p-14f};
  const std::vector<std::uint16_t> expected{0x3c00, 0xc000, 0x7bff, 0x7c00, 1, 0, 1, 0x0400};
  EXPECT_EQ(encode_at(Level::scalar, Format::f16, values), expected);
  const std::vector<float> wide{1, -2, 3.140625f, from_bits(0x3f808000), from_bits(0x3f818000)};
  const std::vector<std::uint16_t> wide_expected{0x3f80, 0xc000, 0x4049, 0x3f80, 0x3f82};
  EXPECT_EQ(encode_at(Level::scalar, Format::bf16, wide), wide_expected);
}

TEST(Floats, EncodeScalesByPowersOfTwoBeforeRounding) {
  const std::vector<float> values = mixed_values(5'000, 2);
  for (const float scale : {0x1p-20f, 0.5f, 4.0f, 0x1p14f, 0x1p126f}) {
    at_each_level_and_format(kNarrow, [&](Level level, Format format) {
      const std::vector<std::uint16_t> codes = encode_at(level, format, values, scale);
      for (std::size_t i = 0; i < values.size(); ++i) {
        ASSERT_EQ(codes[i], reference_encode(format, values[i] * scale)) << values[i];
      }
    });
  }
}

TEST(Floats, Float32TravelsUnchangedExceptForNan) {
  const std::vector<float> values = mixed_values(10'000, 3);
  at_each_level([&](Level) {
    std::vector<std::byte> wire(values.size() * 4);
    encode(Format::f32, values, 1, wire);
    std::vector<float> back(values.size());
    decode(Format::f32, wire, back);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::uint32_t expected = std::isnan(values[i]) ? kQuietNan : bits_of(values[i]);
      ASSERT_EQ(load_le<std::uint32_t>(wire, i * 4), expected);
      ASSERT_EQ(bits_of(back[i]), expected);
    }
  });
}

// Every function once with this length and wire offset, against the specification.
void check_against_specification(Format format, std::size_t count, std::size_t offset) {
  const std::vector<float> values = mixed_values(count, 4);
  const std::vector<float> before = mixed_values(count, 5);
  const std::vector<std::byte> source = mixed_wire(format, count, 6);
  Guarded wire(source, offset);

  Guarded written(source.size(), offset);
  std::vector<std::byte> bytes(source.size());
  encode(format, values, 0.25f, written.bytes());
  scalar::encode(format, values, 0.25f, bytes);
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), written.bytes().begin()));
  EXPECT_TRUE(written.intact());

  const auto compare = [&](const auto& ours, const auto& specification) {
    GuardedFloats result(before);
    std::vector<float> expected(before);
    ours(result.floats());
    specification(std::span<float>(expected));
    EXPECT_TRUE(same_bits(result.floats(), expected));
    EXPECT_TRUE(result.intact());
  };
  const auto in = wire.bytes();
  compare([&](auto out) { decode(format, in, out); },
          [&](auto out) { scalar::decode(format, source, out); });
  for (const bool first : {false, true}) {
    compare([&](auto out) { accumulate(format, in, first, out); },
            [&](auto out) { scalar::accumulate(format, source, first, out); });
  }
  compare([&](auto out) { decode_mean(format, in, 4, 3, out); },
          [&](auto out) { scalar::decode_mean(format, source, 4, 3, out); });
  compare([&](auto out) { add(values, before, out); },
          [&](auto out) { scalar::add(values, before, out); });
  compare([&](auto out) { residual(format, values, in, 0.25f, out); },
          [&](auto out) { scalar::residual(format, values, source, 0.25f, out); });
  std::vector<double> sent(count);
  for (std::size_t i = 0; i < count; ++i) sent[i] = double{before[i]} * (1 + 0x1p-30);
  compare([&](auto out) { residual(values, sent, out); },
          [&](auto out) { scalar::residual(values, sent, out); });
  EXPECT_TRUE(wire.intact());
}

TEST(Floats, EveryLengthAndAlignmentEqualsTheSpecificationWithinItsBounds) {
  at_each_level_and_format(kFormats, [](Level, Format format) {
    for (std::size_t count = 0; count <= 70; ++count) {
      SCOPED_TRACE(count);
      for (std::size_t offset = 0; offset < 4; ++offset) {
        check_against_specification(format, count, offset);
        if (::testing::Test::HasFailure()) return;
      }
    }
  });
}

TEST(Floats, LargeCountsEqualTheSpecification) {
  at_each_level_and_format(kFormats, [](Level, Format format) {
    check_against_specification(format, 100'003, 1);
    check_against_specification(format, 65'536, 0);
  });
}

TEST(Floats, HostileScalesAndDivisorsEqualTheSpecification) {
  const std::vector<float> values = mixed_values(200, 7);
  at_each_level_and_format(kFormats, [&](Level, Format format) {
    const std::vector<std::byte> wire = mixed_wire(format, values.size(), 8);
    for (const float hostile : {0.0f, -0.0f, kInf, from_bits(0xffc12345), 0x1p-149f, 0x1p127f}) {
      std::vector<float> ours(values.size());
      std::vector<float> expected(values.size());
      decode_mean(format, wire, 1, hostile, ours);
      scalar::decode_mean(format, wire, 1, hostile, expected);
      EXPECT_TRUE(same_bits(ours, expected));
      decode_mean(format, wire, hostile, 5, ours);
      scalar::decode_mean(format, wire, hostile, 5, expected);
      EXPECT_TRUE(same_bits(ours, expected));
      std::fill(ours.begin(), ours.end(), 0.5f);
      expected = ours;
      residual(format, values, wire, hostile, ours);
      scalar::residual(format, values, wire, hostile, expected);
      EXPECT_TRUE(same_bits(ours, expected));
      for (const float rest : ours) EXPECT_TRUE(std::isfinite(rest));
    }
  });
}

TEST(Floats, NanOfAnySignAndPayloadIsWrittenCanonical) {
  const std::vector<float> nans(40, from_bits(0xffa12345));
  const std::vector<float> ones(40, 1);
  at_each_level_and_format(kFormats, [&](Level, Format format) {
    std::vector<std::byte> wire(40 * size_of(format), std::byte{0xff});
    const std::vector<float> canonical(40, from_bits(kQuietNan));
    std::vector<float> out(40);
    decode(format, wire, out);
    EXPECT_TRUE(same_bits(out, canonical));
    decode_mean(format, wire, 2, 3, out);
    EXPECT_TRUE(same_bits(out, canonical));
    accumulate(format, wire, true, out);
    EXPECT_TRUE(same_bits(out, canonical));
    out = nans;
    accumulate(format, wire, false, out);
    EXPECT_TRUE(same_bits(out, canonical));
    add(nans, ones, out);
    EXPECT_TRUE(same_bits(out, canonical));
    add(ones, nans, out);
    EXPECT_TRUE(same_bits(out, canonical));
    encode(format, nans, 1, wire);
    for (std::size_t i = 0; i < 40; ++i) {
      if (format == Format::f32) {
        EXPECT_EQ(load_le<std::uint32_t>(wire, i * 4), kQuietNan);
      } else {
        EXPECT_EQ(load_le<std::uint16_t>(wire, i * 2), layout_of(format).nan);
      }
    }
  });
}

TEST(Floats, InfinitiesOfBothSignsAddToTheCanonicalNan) {
  const std::vector<float> up(40, kInf);
  const std::vector<float> down(40, -kInf);
  at_each_level([&](Level) {
    std::vector<float> sum(40);
    add(up, down, sum);
    for (const float value : sum) EXPECT_EQ(bits_of(value), kQuietNan);
  });
}

TEST(Floats, FirstContributionKeepsNegativeZero) {
  const std::vector<float> zeros(40, -0.0f);
  at_each_level_and_format(kFormats, [&](Level, Format format) {
    std::vector<std::byte> wire(40 * size_of(format));
    encode(format, zeros, 1, wire);
    std::vector<float> sums(40, 9);
    accumulate(format, wire, true, sums);
    EXPECT_TRUE(same_bits(sums, zeros));
    accumulate(format, wire, false, sums);
    EXPECT_TRUE(same_bits(sums, zeros));
    sums.assign(40, 0.0f);
    accumulate(format, wire, false, sums);
    EXPECT_TRUE(same_bits(sums, std::vector<float>(40, 0.0f)));
  });
}

TEST(Floats, AccumulateAddsInFloat32) {
  at_each_level_and_format(kFormats, [](Level, Format format) {
    const std::vector<float> ones(40, 1);
    std::vector<std::byte> wire(40 * size_of(format));
    encode(format, ones, 1, wire);
    std::vector<float> sums(40, 0x1p-23f);
    accumulate(format, wire, false, sums);
    EXPECT_TRUE(same_bits(sums, std::vector<float>(40, 1 + 0x1p-23f)));
  });
}

TEST(Floats, DecodeMeanIsExactScalingAndOneDivision) {
  at_each_level_and_format(kFormats, [](Level, Format format) {
    std::vector<float> values(1000);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) - 500;
    std::vector<std::byte> wire(values.size() * size_of(format));
    encode(format, values, 0.125f, wire);
    std::vector<float> coded(values.size());
    decode(format, wire, coded);
    for (const float divisor : {1.0f, 2.0f, 3.0f, 7.0f, 255.0f}) {
      std::vector<float> mean(values.size());
      decode_mean(format, wire, 8, divisor, mean);
      for (std::size_t i = 0; i < values.size(); ++i) {
        // Of normal numbers: a float64 quotient rounded again is the correctly rounded one.
        const double quotient = static_cast<double>(coded[i]) * 8 / static_cast<double>(divisor);
        ASSERT_EQ(bits_of(mean[i]), bits_of(static_cast<float>(quotient))) << i;
      }
    }
  });
}

TEST(Floats, CodeAndResidualTogetherGiveTheValueBack) {
  const RandomStream stream(9, Purpose::data, 0);
  std::vector<float> values(3000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = stream.uniform(i) * 16 - 8;
  at_each_level_and_format(kFormats, [&](Level, Format format) {
    for (const float scale : {0.125f, 1.0f, 1024.0f}) {
      std::vector<std::byte> wire(values.size() * size_of(format));
      std::vector<float> rest(values.size());
      std::vector<float> coded(values.size());
      encode(format, values, scale, wire);
      residual(format, values, wire, scale, rest);
      decode(format, wire, coded);
      for (std::size_t i = 0; i < values.size(); ++i) {
        ASSERT_EQ(coded[i] / scale + rest[i], values[i]) << i;
      }
    }
  });
}

TEST(Floats, ResidualStaysWhereValueOrCodeIsNotFinite) {
  at_each_level_and_format(kFormats, [](Level, Format format) {
    const std::vector<float> pattern{kInf, -kInf, from_bits(0xff812345), 3e38f, -3e38f};
    std::vector<float> values;
    for (std::size_t i = 0; i < 100; ++i) values.push_back(pattern[i % pattern.size()]);
    std::vector<std::byte> wire(values.size() * size_of(format));
    encode(format, values, 2, wire);  // the finite ones overflow
    std::vector<float> rest(values.size(), 1);
    residual(format, values, wire, 2, rest);
    EXPECT_TRUE(same_bits(rest, std::vector<float>(values.size(), 1.0f)));
  });
}

// Twice the digits and two more: so rounding a difference of floats by way of float64 is rounding
// it once.
TEST(Floats, ResidualsOfFloatsAreTheSameByWayOfFloat64) {
  at_each_level([](Level) {
    const std::vector<float> values = mixed_values(20'000, 20);
    const std::vector<float> sent = mixed_values(20'000, 21);
    const std::vector<double> wide(sent.begin(), sent.end());
    std::vector<float> once(values.size(), 1);
    std::vector<float> twice(values.size(), 1);
    residual(Format::f32, values, std::as_bytes(std::span(sent)), 1, once);
    residual(values, wide, twice);
    EXPECT_TRUE(same_bits(once, twice));
  });
}

TEST(Floats, ResidualStaysWhereTheDifferenceOverflows) {
  at_each_level([](Level) {
    const std::vector<float> values(40, 3e38f);
    const std::vector<float> opposite(40, -3e38f);
    std::vector<float> rest(40, 1);
    residual(Format::f32, values, std::as_bytes(std::span(opposite)), 1, rest);
    EXPECT_TRUE(same_bits(rest, std::vector<float>(40, 1.0f)));
  });
}

TEST(Floats, OutputsMayBeTheirOwnInputs) {
  at_each_level([](Level level) {
    SCOPED_TRACE(name_of(level));
    for (const std::size_t count : {1u, 15u, 33u, 64u, 1001u}) {
      const std::vector<float> a = mixed_values(count, 10);
      const std::vector<float> b = mixed_values(count, 11);
      const auto a_bytes = std::as_bytes(std::span(a));
      const auto check = [&](const auto& work) {
        std::vector<float> apart(count);
        work(std::span<const float>(a), a_bytes, std::span<float>(apart));
        std::vector<float> same(a);
        work(std::span<const float>(same), std::as_bytes(std::span(same)), std::span<float>(same));
        EXPECT_TRUE(same_bits(same, apart));
      };
      check([](auto in, auto, auto out) {
        encode(Format::f32, in, 0.5f, std::as_writable_bytes(out));
      });
      check([](auto, auto wire, auto out) { decode(Format::f32, wire, out); });
      check([](auto, auto wire, auto out) { decode_mean(Format::f32, wire, 2, 3, out); });
      check([&](auto in, auto, auto out) { add(in, b, out); });
      check([&](auto in, auto, auto out) { add(b, in, out); });
      check([](auto in, auto, auto out) { add(in, in, out); });
    }
  });
}

TEST(FloatsDeathTest, ShortWireIsOurBug) {
  const std::vector<float> values(8);
  std::vector<std::byte> wire(15);
  EXPECT_DEATH(encode(Format::bf16, values, 1, wire), "wire");
}

}  // namespace
}  // namespace sluice::floats
