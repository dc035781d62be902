// How far the mean is off: computed bounds, the statistics of the dither, and the figures of the
// README on real gradients.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <string>

#include "codec/tide/summed_dithers.h"
#include "codec/tide/tide_rounds_test.h"

namespace sluice::tide {
namespace {

// ---- Coordinate by coordinate, in the rotated basis.

// One block of one run, in rotated coordinates and scales: what came out, what should have.
struct Rotated {
  std::uint32_t size = 0;
  unsigned width = 0;
  std::vector<double> mean;
  std::vector<double> wanted;
  std::vector<double> largest;  // over the counted workers
};

std::vector<Rotated> rotated_blocks(const TideByHand& group, const Legs& legs,
                                    const TideOptions& told, const std::vector<Floats>& inputs,
                                    const std::vector<std::uint32_t>& missing) {
  const TideLayout layout(static_cast<std::uint32_t>(inputs[0].size()), told.block);
  const auto codes = codes_of(legs[0][0].down, layout);
  const auto widths = widths_by_chunk(codes, layout, told.bits);
  const std::vector<double> wanted = true_mean(inputs, missing);
  std::vector<Rotated> blocks;
  for (std::uint32_t b = 0; b < layout.blocks(); ++b) {
    const TideLayout::Block at = layout[b];
    Rotated block{at.size, widths[b], {}, {}, std::vector<double>(at.size)};
    // What padding decodes to is not known, so only whole blocks are looked at.
    if (at.count != at.size || widths[b] == 0) continue;
    const auto rotate = [&]<class T>(const std::vector<T>& from) {
      auto y = rotated(std::span<const T>(from).subspan(at.first, at.size), group.key, at.size);
      for (double& one : y) one /= scale_of(codes[b]);
      return y;
    };
    block.mean = rotate(group.means[0]);
    block.wanted = rotate(wanted);
    for (std::uint32_t rank = 0; rank < inputs.size(); ++rank) {
      if (std::find(missing.begin(), missing.end(), rank) != missing.end()) continue;
      const auto y = rotate(inputs[rank]);
      for (std::uint32_t i = 0; i < at.size; ++i) {
        block.largest[i] = std::max(block.largest[i], std::fabs(y[i]));
      }
    }
    blocks.push_back(std::move(block));
  }
  return blocks;
}

// Codes are not cut where every worker's value, whatever its dither, lies within the clamp.
bool is_inside(const Rotated& block, std::size_t i) {
  const double reach = reach_of(block.width) - 0.5 * step_of(block.width);
  return block.largest[i] + input_error(block.size) <= reach;
}

void expect_within_half_a_step(std::uint32_t n, std::uint32_t count, const TideOptions& told,
                               const std::vector<std::uint32_t>& missing) {
  std::vector<Floats> gradients = gradients_of(n, count, n + count);
  TideByHand group(told, n, count);
  for (std::uint32_t rank = 0; rank < n; ++rank) {
    group.residuals[rank] = normals(count, 77 + rank, 0.25f);
  }
  std::vector<Floats> inputs = gradients;
  for (std::uint32_t rank = 0; rank < n; ++rank) {
    for (std::size_t i = 0; i < count; ++i) inputs[rank][i] += group.residuals[rank][i];
  }
  const Legs legs = group.step(gradients, missing);
  std::size_t inside = 0;
  std::size_t all = 0;
  for (const Rotated& block : rotated_blocks(group, legs, told, inputs, missing)) {
    const double bound =
        step_of(block.width) / 2 + input_error(block.size) + float_error(block.width, block.size);
    for (std::size_t i = 0; i < block.size; ++i) {
      ++all;
      if (!is_inside(block, i)) continue;
      ++inside;
      ASSERT_LE(std::fabs(block.mean[i] - block.wanted[i]), bound)
          << block.size << ", " << block.width << " bits, place " << i;
    }
  }
  EXPECT_GT(inside, all / 4) << "the bound was put to the test";
}

TEST(TideAccuracy, TheMeanIsWithinHalfAStepInsideTheClamp) {
  for (const std::uint32_t block : {64u, 256u, 1024u}) {
    for (const double bits : {2.0, 3.0, 4.0, 5.0, 8.0}) {
      const TideOptions told{.bits = bits, .block = block};
      SCOPED_TRACE(::testing::Message() << bits << " bits, blocks of " << block);
      expect_within_half_a_step(3, 3000, told, {});
      expect_within_half_a_step(7, 3000, told, {0, 4});
      expect_within_half_a_step(1, 1008, told, {});
    }
  }
}

// The squared error inside the clamp, in scales, over that of a uniform step: what is left of
// step²/12 when m workers bring the same.
double variance_left(std::uint32_t n, double bits) {
  const TideOptions told{.bits = bits, .block = 64};
  const Floats same = normals(1u << 14, 3);
  const std::vector<Floats> gradients(n, same);
  TideByHand group(told, n, same.size());
  const Legs legs = group.step(gradients);
  double sum = 0;
  double count = 0;
  for (const Rotated& block : rotated_blocks(group, legs, told, gradients, {})) {
    const double step = step_of(block.width);
    for (std::size_t i = 0; i < block.size; ++i) {
      if (!is_inside(block, i)) continue;
      const double error = block.mean[i] - block.wanted[i];
      // Rounding the input to integers is alike on all workers: size/12 units² on its own.
      sum += (error * error - block.size / 12.0 / (3392.0 * 3392.0)) * 12 / (step * step);
      ++count;
    }
  }
  return sum / count;
}

TEST(TideAccuracy, OfWorkersThatAgreeTheErrorFallsWithTheSquareOfTheirNumber) {
  // Twelve thousand squares of a uniform error: their mean is within 5·√(4/5)/√12000 = 4 %.
  for (const double bits : {3.0, 4.0}) {
    EXPECT_NEAR(variance_left(1, bits), 1, 0.04);
    for (const std::uint32_t n : {2u, 4u, 8u, 16u}) {
      EXPECT_NEAR(variance_left(n, bits) * n * n, 1, 0.04) << n;
    }
  }
}

TEST(TideAccuracy, OfIndependentWorkersTheErrorFallsWithTheirNumber) {
  const TideOptions told{.bits = 4, .block = 64};
  for (const std::uint32_t n : {2u, 8u}) {
    const auto gradients = gradients_of(n, 1u << 14, 5, 0);
    TideByHand group(told, n, 1u << 14);
    const Legs legs = group.step(gradients);
    double sum = 0;
    double count = 0;
    for (const Rotated& block : rotated_blocks(group, legs, told, gradients, {})) {
      for (std::size_t i = 0; i < block.size; ++i) {
        if (!is_inside(block, i)) continue;
        const double error = (block.mean[i] - block.wanted[i]) / step_of(block.width);
        sum += error * error * 12;
        ++count;
      }
    }
    EXPECT_NEAR(sum / count * n, 1, 0.05);
  }
}

// The rotation stays and only the dither is drawn anew: signs and dithers are two streams of one
// chunk key, so this goes through the kernels' specification, which takes them apart, with the
// codec's own scales, shifts and summed dithers. Wanted is the exact transform of the rounded
// inputs, so that input rounding, which no dither averages away, is not in it.
struct Redrawn {
  static constexpr std::uint32_t kSize = 64;
  static constexpr std::uint32_t kWorkers = 3;
  static constexpr std::uint64_t kSigns = 42;  // the key of the signs
  static constexpr Code12 kCode = 1207;

  Redrawn(unsigned bits, const WorkerSet& counted) : width(bits), from(counted) {
    draw_signs(RandomStream(kSigns, Purpose::sign, kShared), kSize, signs);
    taken.set(from.view(), kWorkers);
    for (std::uint32_t k = 0; k < kWorkers; ++k) {
      inputs.push_back(normals(kSize, 50 + k, static_cast<float>(scale_of(kCode))));
      if (!from.view().has(k)) continue;
      std::vector<double> units(kSize);
      for (std::uint32_t i = 0; i < kSize; ++i) units[i] = std::rint(inputs[k][i] * factor);
      const auto y = rotated<double>(units, kSigns, kSize);
      for (std::uint32_t i = 0; i < kSize; ++i) {
        wanted[i] += y[i] * 8 / 3392 / taken.contributors();
        largest[i] = std::max(largest[i], std::fabs(y[i] * 8 / 3392));
      }
    }
  }
  // What the counted workers' mean is off, in rotated coordinates and scales.
  [[nodiscard]] std::vector<double> errors(std::uint64_t draw) const {
    const dither::Shared shared{signs, RandomStream(draw, Purpose::dither, kShared)};
    const dither::Block block{kSize * 5, kSize, width};
    std::vector<std::int32_t> twice(kSize);
    for (std::uint32_t k = 0; k < kWorkers; ++k) {
      if (!from.view().has(k)) continue;
      Bytes packed(kSize / 8 * width);
      dither::scalar::encode(shared, shift_of(k, kWorkers), {block, factor, inputs[k], {}, packed});
      for (std::uint32_t i = 0; i < kSize; ++i) {
        twice[i] += static_cast<std::int32_t>(2 * lanes::get(packed, i, width));
      }
    }
    const dither::Affine affine =
        decode_affine(kCode, 6, unit_step(width, taken.contributors()), taken.constant(width));
    Floats mean(kSize);
    dither::scalar::decode(shared, taken.dithers(), {block, affine, twice, mean});
    std::vector<double> y = rotated<float>(mean, kSigns, kSize);
    for (std::uint32_t i = 0; i < kSize; ++i) y[i] = y[i] / scale_of(kCode) - wanted[i];
    return y;
  }

  unsigned width;
  WorkerSet from;
  float factor = encode_factor(kCode, 6);
  dither::Signs signs;
  SummedDithers taken;
  std::vector<Floats> inputs;
  std::vector<double> wanted = std::vector<double>(kSize);
  std::vector<double> largest = std::vector<double>(kSize);
};

void expect_unbiased(const Redrawn& test) {
  constexpr int kTrials = 4096;
  std::vector<double> sums(Redrawn::kSize);
  std::vector<double> squares(Redrawn::kSize);
  for (int trial = 0; trial < kTrials; ++trial) {
    const auto errors = test.errors(static_cast<std::uint64_t>(trial));
    for (std::size_t i = 0; i < errors.size(); ++i) {
      sums[i] += errors[i];
      squares[i] += errors[i] * errors[i];
    }
  }
  int inside = 0;
  const double step = step_of(test.width);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    if (test.largest[i] > reach_of(test.width) - 0.5 * step) continue;
    ++inside;
    const double mean = sums[i] / kTrials;
    const double variance = squares[i] / kTrials - mean * mean;
    // A dither of 256 values leaves at most half of one as bias.
    const double bias = step / 512 + float_error(test.width, Redrawn::kSize);
    EXPECT_NEAR(mean, 0, 5 * std::sqrt(variance / kTrials) + bias) << test.width << ' ' << i;
  }
  EXPECT_GT(inside, test.width == 1 ? 5 : 40);
}

TEST(TideAccuracy, OverTheDitherEveryCoordinateInsideTheClampIsUnbiased) {
  for (const unsigned width : {1u, 3u, 5u}) {
    expect_unbiased(Redrawn(width, WorkerSet::all(Redrawn::kWorkers)));
    expect_unbiased(Redrawn(width, set_of(Redrawn::kWorkers, {0, 2})));
  }
}

// ---- Feedback.

// Nothing is lost and nothing counted twice: what was counted, step by step, and what everybody
// still holds is what everybody brought, up to float32.
TEST(TideAccuracy, MeansAndLastResidualsAreAllThatWasBrought) {
  for (const Scales scales : {Scales::now, Scales::previous}) {
    const std::uint32_t n = 5;
    const std::uint32_t count = 1000;
    TideByHand group({.bits = 3, .scales = scales}, n, count);
    std::vector<double> brought(count);
    std::vector<double> counted(count);
    double bound = 0;
    for (unsigned step = 0; step < 20; ++step) {
      group.key = chunk_key(1, step, 1);
      const auto gradients = gradients_of(n, count, 100 * step, 1);
      std::vector<std::uint32_t> missing;
      for (std::uint32_t k = 1; k < n; ++k) {
        if (mix(step, k) % 5 == 0) missing.push_back(k);
      }
      const Legs legs = group.step(gradients, missing);
      const double m = n - static_cast<double>(missing.size());
      Code12 most = 0;
      for (std::uint32_t b = 0; b < TideLayout(count, 256).blocks(); ++b) {
        most = std::max(most, code_at(legs[0][0].down, b));
      }
      // A decoder's float32 once in the mean, m times, and once in each residual.
      bound += 2 * m * float_error(8, 256) * scale_of(most);
      for (std::size_t i = 0; i < count; ++i) {
        for (const Floats& gradient : gradients) brought[i] += gradient[i];
        counted[i] += m * group.means[0][i];
      }
    }
    EXPECT_LT(bound, 0.1) << "small beside values of about 20";
    for (std::size_t i = 0; i < count; ++i) {
      double held = 0;
      for (const Floats& residual : group.residuals) held += residual[i];
      ASSERT_NEAR(counted[i] + held, brought[i], bound) << i;
    }
  }
}

// ---- Real gradients.

const std::vector<Floats>& gpt() {
  static const std::vector<Floats> kGradients = [] {
    std::vector<Floats> gradients;
    for (int worker = 0; worker < 4; ++worker) {
      const std::string path = fmt::format("{}/gpt-step300/w{}.npy", SLUICE_TEST_DATA, worker);
      std::ifstream file(path, std::ios::binary);
      std::vector<char> bytes(128 + 4 * 393216);  // a header of 128 bytes, float32 in order
      file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
      EXPECT_TRUE(file.good() && file.peek() == EOF) << path;
      gradients.emplace_back(393216);
      std::memcpy(gradients.back().data(), bytes.data() + 128, bytes.size() - 128);
    }
    return gradients;
  }();
  return kGradients;
}

double error_of(const TideOptions& told, const std::vector<Floats>& gradients) {
  TideByHand group(told, 4, gradients[0].size(), false);
  group.key = chunk_key(0, 0, 0);
  group.step(gradients);
  return vnmse(true_mean(gradients), group.means[0]);
}

double gpt_error(const TideOptions& told) { return error_of(told, gpt()); }

TEST(TideAccuracy, RealGradientsLoseNoMoreThanTheReadmeSays) {
  const std::array<double, 5> full{0.145, 0.0252, 0.0054, 0.00124, 0.00034};
  const std::array<double, 5> rounded{0.166, 0.0301, 0.0067, 0.00147, 0.00037};
  for (std::size_t i = 0; i < 5; ++i) {
    const double bits = static_cast<double>(i) + 1;
    EXPECT_LE(gpt_error({.bits = bits}), full[i]) << bits;
    EXPECT_LE(gpt_error({.bits = bits, .down = Down::round, .extra = 1}), rounded[i]) << bits;
  }
  EXPECT_LE(gpt_error({.bits = 1, .floor = false}), 0.115);
}

// Down to 10^-42, where values are subnormal; all blocks are faint, so bits do not follow energies.
TEST(TideAccuracy, FaintRealGradientsLoseNoMoreThanTheReadmeSays) {
  for (const float scale : {1e-20f, 1e-34f, 1e-38f}) {  // of an rms of 1.1e-4
    auto gradients = gpt();
    for (Floats& gradient : gradients) {
      for (float& value : gradient) value *= scale;
    }
    EXPECT_LE(error_of({.bits = 4, .down = Down::round, .extra = 1}, gradients), 0.0072) << scale;
    EXPECT_LE(error_of({.bits = 8, .down = Down::round, .extra = 1}, gradients), 0.00019) << scale;
  }
}

TEST(TideAccuracy, FeedbackMakesTheRunningAverageConvergeOnRealGradients) {
  const std::vector<Floats>& gradients = gpt();
  const std::vector<double> wanted = true_mean(gradients);
  double first = 0;
  const auto average_error = [&](bool feedback) {
    TideByHand group({.bits = 4}, 4, gradients[0].size(), feedback);
    std::vector<double> sum(wanted.size());
    for (unsigned step = 0; step < 50; ++step) {
      group.key = chunk_key(0, step, 0);
      group.step(gradients);
      if (step == 0) first = vnmse(wanted, group.means[0]);
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += group.means[0][i];
    }
    Floats average(sum.begin(), sum.end());
    for (float& one : average) one /= 50;
    return vnmse(wanted, average);
  };
  const double without = average_error(false);
  const double with = average_error(true);
  EXPECT_LT(with * 1000, first);
  EXPECT_LT(with * 20, without);
}

}  // namespace
}  // namespace sluice::tide
