#include "kernels/warp/warp_dense.h"

#include <cmath>

#include "base/float_environment.h"
#include "feedback/feedback.h"
#include "kernels/warp/copy.h"
#include "tests/conformance/launch_test.h"

namespace sluice::warp {
namespace {

// Ordinary values, and all kinds of others.
Floats drawn_oddly(std::mt19937& random, std::size_t count) {
  Floats values = drawn(random, count, 3.0f);
  constexpr std::uint32_t kOdd[] = {0x7f800000, 0xff800000, 0x7fc12345, 0xffc00001,
                                    0x7f812345, 0x00000001, 0x80000000, 0x7f7fffff,
                                    0xff7fffff, 0x33000001, 0x477ff000, 0x00012345};
  for (float& value : values) {
    if (random() % 6 == 0) value = std::bit_cast<float>(kOdd[random() % std::size(kOdd)]);
  }
  return values;
}

struct DenseCase {
  std::size_t count = 0;
  floats::Format values = floats::Format::f32;
  floats::Format wire = floats::Format::f32;
  floats::Format mean = floats::Format::f32;
  bool feedback = false;
  bool counted = true;
  bool misaligned = false;
  unsigned seed = 0;
};

std::vector<DenseCase> cases() {
  std::vector<DenseCase> all;
  unsigned seed = 0;
  for (const floats::Format wire : kFormats) {
    for (const std::size_t count : {1u, 3u, 255u, 256u, 257u, 8192u + 300u}) {
      for (const bool feedback : {false, true}) {
        for (const bool misaligned : {false, true}) {
          ++seed;
          all.push_back({count, kFormats[seed % 3], wire, kFormats[seed / 3 % 3], feedback,
                         seed % 5 != 0, misaligned, seed});
        }
      }
    }
  }
  return all;
}

// What codec/dense and feedback/ef do on the host.
void expect_host(const DenseCase& one) {
  std::mt19937 random(one.seed);
  Stored values(one.values, drawn_oddly(random, one.count), one.misaligned);
  Stored rest(floats::Format::f32, drawn(random, one.count, 0.1f), one.misaligned);
  Stored mean(one.mean, Floats(one.count), one.misaligned);
  const std::size_t start = one.misaligned ? 1 : 0;
  const std::size_t wire_size = floats::size_of(one.wire) * one.count;
  AlignedVector<std::byte> up(wire_size + start);
  AlignedVector<std::byte> down(wire_size + start);
  for (std::byte& byte : down) byte = static_cast<std::byte>(random());
  Finding finding;
  Dense item{.values = values.data(),
             .values_format = one.values,
             .wire_format = one.wire,
             .mean_format = one.mean,
             .counted = static_cast<std::uint8_t>(one.counted ? 1 : 0),
             .residual = one.feedback ? static_cast<float*>(rest.data()) : nullptr,
             .count = one.count,
             .scale = one.wire == floats::Format::f16 ? 0.25f : 1.0f,
             .divisor = 3.0f,
             .up = up.data() + start,
             .down = down.data() + start,
             .mean = mean.data(),
             .finding = &finding};
  Floats input = values.floats();
  Floats kept = rest.floats();
  if (one.feedback) floats::scalar::add(input, kept, input);
  Bytes wire(wire_size);
  floats::scalar::encode(one.wire, input, item.scale, wire);
  launch(device::Kernel::dense_encode, item, one.count, kDenseTile);
  ASSERT_EQ(Bytes(up.begin() + static_cast<std::ptrdiff_t>(start), up.end()), wire) << one.seed;

  if (one.feedback && one.counted) {
    Floats own(one.count);
    floats::scalar::decode(one.wire, wire, own);
    std::vector<double> sent;
    for (const float value : own) sent.push_back(double{value / item.scale});
    floats::scalar::residual(input, sent, kept);
  } else if (one.feedback) {
    for (std::size_t i = 0; i < one.count; ++i) {
      if (std::isfinite(input[i])) kept[i] = input[i];
    }
  }
  Floats means(one.count);
  floats::scalar::decode_mean(one.wire, std::span(down).subspan(start), 1.0f / item.scale, 3.0f,
                              means);
  Stored wanted(one.mean, means, false);
  const Floats delivered = wanted.floats();
  if (one.feedback && one.mean != floats::Format::f32) keep_lost(means, delivered, kept);
  launch(device::Kernel::dense_decode, item, one.count, kDenseTile);
  ASSERT_EQ(Bytes(mean.bytes().begin(), mean.bytes().end()),
            Bytes(wanted.bytes().begin(), wanted.bytes().end()))
      << one.seed;
  ASSERT_EQ(bits_of(rest.floats()), bits_of(kept)) << one.seed;
  const auto infinite = std::count_if(delivered.begin(), delivered.end(),
                                      [](float value) { return !std::isfinite(value); });
  ASSERT_EQ(finding.infinite, infinite) << one.seed;
}

TEST(WarpDense, BytesUpMeansAndResidualsAreTheHosts) {
  const FloatEnvironment environment;
  for (const DenseCase& one : cases()) {
    expect_host(one);
    if (HasFatalFailure()) return;
  }
}

TEST(WarpDense, NothingIsDecodedAfterABadVerdict) {
  Finding finding{.bad = kBadMismatch};
  Floats mean(300, 5.0f);
  const Bytes down(1200);
  const Dense item{.count = 300, .down = down.data(), .mean = mean.data(), .finding = &finding};
  launch(device::Kernel::dense_decode, item, 300, kDenseTile);
  EXPECT_EQ(mean, Floats(300, 5.0f));
}

TEST(WarpCopy, EveryAlignmentAndSizeIsCopiedAndNothingElse) {
  std::mt19937 random(3);
  for (std::size_t from = 0; from < 17; from += 3) {
    for (std::size_t to = 0; to < 17; to += 5) {
      for (const std::size_t size : {0u, 1u, 15u, 33u, 511u, 2049u, 16384u, 40000u}) {
        Bytes source(size + from);
        for (std::byte& byte : source) byte = static_cast<std::byte>(random());
        Bytes target(size + to + 16, std::byte{0xa5});
        Bytes wanted = target;
        std::copy(source.begin() + static_cast<std::ptrdiff_t>(from), source.end(),
                  wanted.begin() + static_cast<std::ptrdiff_t>(to));
        const Copy item{source.data() + from, target.data() + to, size};
        launch(device::Kernel::copy, item, size, kCopyTile);
        ASSERT_EQ(target, wanted) << from << ' ' << to << ' ' << size;
      }
    }
  }
}

TEST(WarpCompare, EveryWordIsLookedAtAndNoByteBetweenThem) {
  constexpr std::uint64_t kExpected = 0x123456789abcdef0;
  for (const std::uint64_t stride : {8u, 11u, 640u}) {
    for (const std::uint32_t count : {1u, 31u, 32u, 33u, 100u}) {
      Bytes bytes(1 + (count - 1) * stride + 8, std::byte{0x11});
      for (std::uint32_t i = 0; i < count; ++i)
        store_le(std::span(bytes), 1 + i * stride, kExpected);
      Finding finding;
      const Compare item{bytes.data() + 1, stride, count, kExpected, &finding};
      launch(device::Kernel::compare, item, count, kCompareTile);
      ASSERT_EQ(finding.bad, 0u);
      for (std::uint32_t i = 0; i < count; ++i) {
        bytes[1 + i * stride + i % 8] ^= std::byte{0x40};
        finding = {};
        launch(device::Kernel::compare, item, count, kCompareTile);
        ASSERT_EQ(finding.bad, kBadMismatch) << i;
        bytes[1 + i * stride + i % 8] ^= std::byte{0x40};
      }
    }
  }
}

}  // namespace
}  // namespace sluice::warp
