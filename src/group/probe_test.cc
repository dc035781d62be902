#include "group/probe.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "feedback/ef.h"

namespace sluice {
namespace {

using Floats = std::vector<float>;

Floats numbered(std::size_t count) {
  Floats values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i + 1);
  return values;
}

// How often each coordinate of a tensor is looked at in probes 1 to kProbeTurns, times its weight;
// the tensor is cut into chunks.
std::vector<std::uint64_t> weights(std::size_t count, std::size_t chunk) {
  const Floats values = numbered(count);
  std::vector<std::uint64_t> weights(count);
  for (std::uint32_t number = 1; number <= kProbeTurns; ++number) {
    Probe probe;
    for (std::size_t at = 0; at < count; at += chunk) {
      const auto part = std::span(values).subspan(at, std::min(chunk, count - at));
      probe.look_at({.index = 3,
                     .tensor = {77, 1, count},
                     .offset = at,
                     .gradient = part,
                     .kept = {},
                     .mean = part},
                    number);
    }
    std::copy(probe.input().begin(), probe.input().end(), probe.mean().begin());
    const auto found = probe.compare();
    EXPECT_EQ(found.size(), 1u) << "every probe looks at every tensor: " << count;
    if (found.size() != 1) continue;
    EXPECT_EQ(found[0].tensor, 3u);
    EXPECT_EQ(found[0].error_energy, 0.0);
    EXPECT_EQ(found[0].live % found[0].blocks, 0u);
    const std::uint64_t turns = found[0].live / found[0].blocks;
    for (const float value : probe.input()) weights[static_cast<std::size_t>(value) - 1] += turns;
  }
  return weights;
}

TEST(Probe, AfterAllTurnsEveryCoordinateHasHadTheSameWeight) {
  for (const std::size_t count : {1u, 255u, 256u, 257u, 4096u, 4257u, 10'000u, 100'000u}) {
    for (const std::size_t chunk : {1u << 20, 4096u, 1000u}) {
      EXPECT_EQ(weights(count, chunk), std::vector<std::uint64_t>(count, kProbeTurns))
          << count << " in chunks of " << chunk;
    }
  }
}

TEST(Probe, CostsAThirtySecondOfALargeTensor) {
  const Floats values(1 << 20);
  for (std::uint32_t number = 1; number <= 2 * kProbeTurns; ++number) {
    Probe probe;
    probe.look_at({.index = 0,
                   .tensor = {5, 1, values.size()},
                   .offset = 0,
                   .gradient = values,
                   .kept = {},
                   .mean = values},
                  number);
    EXPECT_EQ(probe.input().size(), values.size() / kProbeTurns);
  }
}

TEST(Probe, LooksAtGradientAndResidualAndComparesWithTheMean) {
  const Floats gradient{1, 2, 3};
  Floats residual{0.5f, 0, -1};
  const auto error_feedback = ef::make({});
  Floats mean{1, 1, 1};
  Probe probe;
  probe.look_at({.index = 0,
                 .tensor = {5, 1, 3},
                 .offset = 0,
                 .gradient = gradient,
                 .kept = {error_feedback.get(), true, {residual}},
                 .mean = mean},
                1);
  EXPECT_EQ(Floats(probe.input().begin(), probe.input().end()), (Floats{1.5f, 2, 2}));
  const Floats exact{2, 0, -1};
  std::copy(exact.begin(), exact.end(), probe.mean().begin());
  mean = {1, 0, 1};  // What the codec writes later is what counts.
  const auto found = probe.compare();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].error_energy, 1 + 0 + 4);
  EXPECT_EQ(found[0].exact_energy, 5);
  EXPECT_EQ(found[0].silent, 0u);
  probe.clear();
  EXPECT_TRUE(probe.input().empty());
  EXPECT_TRUE(probe.compare().empty());
}

TEST(Probe, TellsLiveAndSilentBlocksOfEveryTensor) {
  const Floats gradient(64 * kProbeBlock, 1.0f);
  Floats mean(gradient.size());
  Probe probe;
  for (std::uint32_t index = 0; index < 3; ++index) {
    probe.look_at({.index = index,
                   .tensor = {9u + index, 64, kProbeBlock},
                   .offset = 0,
                   .gradient = gradient,
                   .kept = {},
                   .mean = mean},
                  4);
  }
  // Two blocks each: of tensor 0 dead, of tensor 1 live, of tensor 2 one of each.
  ASSERT_EQ(probe.mean().size(), 6 * kProbeBlock);
  probe.mean()[2 * kProbeBlock] = 1;
  probe.mean()[4 * kProbeBlock - 1] = -1e-30f;
  probe.mean()[4 * kProbeBlock] = 1;
  const auto found = probe.compare();
  ASSERT_EQ(found.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(found[i].blocks, 2u);
    EXPECT_EQ(found[i].live, std::vector<std::uint64_t>({0, 64, 32})[i]);
    EXPECT_EQ(found[i].silent, found[i].live) << "the mean is zero everywhere";
  }
}

}  // namespace
}  // namespace sluice
