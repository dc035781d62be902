// How far the mean is off: the figures of the paper's table and of the study behind it.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

#include "base/random.h"
#include "codec/thc/rounding.h"
#include "codec/thc/thc_rounds_test.h"
#include "codec/thc/thc_scales.h"
#include "kernels/hadamard/hadamard.h"
#include "kernels/lanes/lanes.h"
#include "kernels/quantiser/quantiser.h"

namespace sluice::thc {
namespace {

constexpr std::size_t kCount = 1 << 17;
const Given kPublished{{kTable, 1}};  // 4 bits, g = 30, p = 1/32, the symmetric table

Given with(Given given, Option option, double value) {
  given.emplace_back(option, value);
  return given;
}

TEST(ThcAccuracy, NormalInputsLoseWhatTheTableSays) {
  struct Row {
    std::uint32_t n;
    double independent;
    double identical;
  };
  for (const Row& row :
       {Row{1, 0.020342, 0.020342}, {4, 0.005085, 0.010536}, {10, 0.002034, 0.008575}}) {
    const auto codec = codec_of(kPublished);
    const double apart = error_of(*codec, normal_gradients(row.n, kCount, 11));
    EXPECT_NEAR(apart / row.independent, 1, 0.06) << row.n;
    const double alike = error_of(*codec, normal_gradients(row.n, kCount, 12, true));
    EXPECT_NEAR(alike / row.identical, 1, 0.06) << row.n;
  }
}

TEST(ThcAccuracy, EveryGroupingLosesTheSameOfNormalInputs) {
  const auto gradients = normal_gradients(1, kCount, 13);
  for (const Given& given :
       {with(kPublished, kRotation, 4096), with(kPublished, kRotation, 1 << 17),
        with(kPublished, kGrouping, 1), with(kPublished, kGrouping, 2)}) {
    EXPECT_NEAR(error_of(*codec_of(given), gradients) / 0.020342, 1, 0.06);
  }
}

TEST(ThcAccuracy, StratifiedRoundingLosesLessAmongWorkers) {
  const auto codec = codec_of(with(kPublished, kRounding, 1));
  EXPECT_NEAR(error_of(*codec, normal_gradients(1, kCount, 14)) / 0.0203, 1, 0.06);
  EXPECT_NEAR(error_of(*codec, normal_gradients(8, kCount, 14)) / 0.00180, 1, 0.06);
  EXPECT_NEAR(error_of(*codec, normal_gradients(8, kCount, 15, true)) / 0.00737, 1, 0.06);
}

// Half the variance of rounding by chance, but equal inputs err alike.
TEST(ThcAccuracy, NearestRoundingLosesLessUnlessInputsAreEqual) {
  const auto codec = codec_of(with(kPublished, kRounding, 2));
  const double alone = error_of(*codec, normal_gradients(1, kCount, 16));
  EXPECT_LT(alone, 0.0145);
  EXPECT_NEAR(error_of(*codec, normal_gradients(8, kCount, 16)) * 8 / alone, 1, 0.1);
  EXPECT_NEAR(error_of(*codec, normal_gradients(8, kCount, 16, true)) / alone, 1, 0.06);
}

TEST(ThcAccuracy, OtherTablesLoseWhatTheySay) {
  for (const Given& given : {Given{{kGrid, 36}, {kMass, 1.0 / 64}},
                             {{kGrid, 15}},
                             {{kBits, 3}},
                             {{kBits, 2}, {kGrid, 26}, {kMass, 0.2}},
                             {{kBits, 6}, {kMass, 0.001}},
                             {{kBits, 8}, {kGrid, 1000}, {kMass, 1e-5}}}) {
    const OptionValues options = options_of(given);
    const std::uint32_t g = options.integer(kGrid);
    const Table table =
        make_table({options.integer(kBits), g != 0 ? g : grid_min(options.integer(kBits)),
                    options.real(kMass), Shape::optimal});
    const double expected = expected_error(table, 2, Inputs::independent);
    EXPECT_NEAR(error_of(*codec_of(given), normal_gradients(2, kCount, 17)) / expected, 1, 0.06);
  }
}

// Bounds in place of a norm: error is step²/6 of the range, which grows with the block.
TEST(ThcAccuracy, BoundsLoseASixthOfTheSquaredStep) {
  const Floats values = normal_values(kCount, 18);
  double expected = 0;
  for (std::size_t first = 0; first < kCount; first += 1024) {
    const auto [low, high] =
        std::minmax_element(values.begin() + static_cast<std::ptrdiff_t>(first),
                            values.begin() + static_cast<std::ptrdiff_t>(first) + 1024);
    const double step = (static_cast<double>(*high) - *low) / 15;
    expected += step * step / 6 / (kCount / 1024);
  }
  EXPECT_NEAR(error_of(*codec_of({{kRange, 1}}), {values}) / expected, 1, 0.03);
}

// ---- Where the energy is unevenly spread.

Floats scaled(std::size_t count, const auto& scale_at) {
  Floats values = normal_values(count, 19);
  for (std::size_t i = 0; i < count; ++i) values[i] *= static_cast<float>(scale_at(i));
  return values;
}

TEST(ThcAccuracy, LayersOfUnequalScaleLoseNoMore) {
  const std::size_t count = 1 << 20;
  const Floats layers = scaled(count, [&](std::size_t i) {
    return std::pow(10.0, -3.0 * static_cast<double>(i / (count / 64)) / 63);
  });
  EXPECT_NEAR(error_of(*codec_of(kPublished), {layers}) / 0.0203, 1, 0.15);
  EXPECT_NEAR(error_of(*codec_of(with(kPublished, kGrouping, 1)), {layers}) / 0.0203, 1, 0.15);
  EXPECT_NEAR(error_of(*codec_of(with(kPublished, kGrouping, 2)), {layers}) / 0.0203, 1, 0.15);
}

TEST(ThcAccuracy, UnequalGroupsAndOutliers) {
  const std::size_t count = 1 << 20;
  const Floats draws = normal_values(count, 20);
  const Floats groups = scaled(count, [&](std::size_t i) { return std::exp(draws[i / 256]); });
  EXPECT_NEAR(error_of(*codec_of(kPublished), {groups}) / 0.0203, 1, 0.15);
  EXPECT_LT(error_of(*codec_of(with(kPublished, kGrouping, 1)), {groups}), 0.024);
  EXPECT_NEAR(error_of(*codec_of(with(kPublished, kGrouping, 2)), {groups}) / 0.0203, 1, 0.15);
  // A few huge coordinates: their blocks hold most of the energy and little else.
  Floats outliers(count);
  for (std::size_t i = 0; i < count; ++i) {
    outliers[i] = std::copysign(std::exp(2 * draws[i]), draws[(i + 7) % count]);
  }
  EXPECT_LT(error_of(*codec_of(kPublished), {outliers}), 0.0203);
  EXPECT_GT(error_of(*codec_of(with(kPublished, kGrouping, 1)), {outliers}), 0.04);
  EXPECT_NEAR(error_of(*codec_of(with(kPublished, kGrouping, 2)), {outliers}) / 0.0203, 1, 0.15);
}

// ---- Bias, and the vector that another program computed.

ThcSettings published_settings() {
  ThcSettings settings;
  settings.table = make_table({4, 30, 1.0 / 32, Shape::symmetric});
  settings.quantiser = quantiser::make_quantiser(settings.table.values);
  return settings;
}

std::array<std::uint8_t, 256> codes_of(const ThcSettings& settings, const quantiser::Draws& draws,
                                       std::uint64_t element, std::span<const float> rotated,
                                       float factor = 1) {
  std::array<std::byte, 128> packed{};
  const quantiser::Encoding one{element, rotated, factor, 0};
  quantiser::encode(settings.quantiser, draws, {&one, 1}, packed);
  std::array<std::uint8_t, 256> codes{};
  lanes::unpack(packed, 4, std::span(codes).first(rotated.size()));
  return codes;
}

// One rotated vector, only the rounding drawn anew: inside the clamp every coordinate's average is
// its own within five standard errors.
TEST(ThcAccuracy, RoundingIsUnbiasedInsideTheClamp) {
  constexpr int kTrials = 4096;
  const ThcSettings settings = published_settings();
  const Floats normal = normal_values(256, 21);
  Floats steps(256);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    steps[i] = normal[i] * 30 / static_cast<float>(2 * settings.table.clamp_point);
  }
  for (const ThcRounding rounding : {ThcRounding::stochastic, ThcRounding::stratified}) {
    for (const std::uint32_t rank : {0u, 5u}) {
      std::vector<double> sums(steps.size());
      std::vector<double> squares(steps.size());
      for (int trial = 0; trial < kTrials; ++trial) {
        Chunk chunk;
        chunk.extent.rank = rank;
        chunk.extent.workers = 8;
        chunk.key = chunk_key(1, static_cast<std::uint64_t>(trial), 2);
        const std::array codes = codes_of(settings, rounding_draws(rounding, chunk), 1024, steps);
        for (std::size_t i = 0; i < steps.size(); ++i) {
          const double level = settings.table.values[codes[i]] - 15.0;
          sums[i] += level;
          squares[i] += level * level;
        }
      }
      for (std::size_t i = 0; i < steps.size(); ++i) {
        if (std::fabs(steps[i]) > 15) continue;
        const double mean = sums[i] / kTrials;
        const double variance = squares[i] / kTrials - mean * mean;
        ASSERT_NEAR(mean, steps[i], 5 * std::sqrt((variance + 1e-4) / kTrials)) << i;
      }
    }
  }
}

// §6 of the study: its own generator, 3 workers, 8 coordinates.
TEST(ThcAccuracy, TheDeterministicVector) {
  const auto output = [](std::uint64_t seed, std::uint64_t index) { return mix(seed, index); };
  const std::array<std::array<float, 8>, 3> inputs{{{1, -2, 0.5f, 4, -1.5f, 0.25f, 3, -0.75f},
                                                    {0.5f, 1, -1, 2, 2.5f, -3, 0, 1.25f},
                                                    {-1, 0, 2, -2.5f, 1, 1.5f, -0.5f, 3.5f}}};
  const std::array<std::array<int, 8>, 3> indices{
      {{10, 6, 0, 8, 7, 5, 6, 13}, {12, 5, 12, 7, 5, 4, 3, 10}, {4, 15, 11, 4, 11, 7, 6, 5}}};
  const std::array<int, 8> expected_sums{51, 54, 44, 39, 46, 34, 33, 55};
  const std::array<double, 8> expected_mean{0.137739, -0.275477, 0.482085, 0.895301,
                                            0.688693, -0.413216, 1.033040, 1.446256};
  EXPECT_EQ(output(0, 0), 0xe220a8397b1dcdafu);
  std::array<std::uint32_t, 1> signs{};
  for (unsigned i = 0; i < 8; ++i) signs[0] |= static_cast<std::uint32_t>(output(42, i) >> 63) << i;
  EXPECT_EQ(signs[0], 0b10100001u);
  const ThcSettings settings = published_settings();
  const std::array<std::uint32_t, 1> key{std::bit_cast<std::uint32_t>(5.755432216610669f)};
  const Scale scale = scale_of(settings, key, 8);
  std::array<std::int32_t, 8> twice{};
  for (std::uint64_t worker = 0; worker < 3; ++worker) {
    std::array<float, 8> rotated;
    hadamard::rotate(inputs[worker], signs, 0, 1.0f, rotated);
    for (std::size_t i = 0; i < 8; ++i) {
      // Its uniform number u rounds up where u is below a share, ours where U is at least the rest.
      const auto wanted = static_cast<std::uint16_t>(~output(1000 + worker, i) >> 48);
      quantiser::Draws draws{RandomStream(1, Purpose::rounding, 0)};
      draws.shift = static_cast<std::uint16_t>(wanted - draws.stream.word(0));
      const auto code = codes_of(settings, draws, 0, std::span(rotated).subspan(i, 1), scale.up)[0];
      EXPECT_EQ(code, indices[worker][i]);
      twice[i] += 2 * settings.table.values[code];
    }
  }
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(twice[i], 2 * expected_sums[i]);
  std::array<float, 8> mean;
  quantiser::means(twice, 3 * 30, static_cast<float>(scale.step / (2 * 3 * 8)), mean);
  hadamard::unrotate(mean, signs, 0, mean);
  for (std::size_t i = 0; i < 8; ++i) EXPECT_NEAR(mean[i], expected_mean[i], 1e-6);
}

}  // namespace
}  // namespace sluice::thc
