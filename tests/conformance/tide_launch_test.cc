// Chunks with blocks of different sizes in one launch, whose kernel is made for the largest.
#include "base/float_environment.h"
#include "tests/conformance/tide_by_hand_test.h"

namespace sluice::warp {
namespace {

using Hands = std::vector<std::unique_ptr<TideByHand>>;

Hands hands_of(std::span<const std::uint32_t> blocks, bool feedback) {
  Hands hands;
  for (const std::uint32_t block : blocks) {
    hands.push_back(std::make_unique<TideByHand>(
        TideSetup{.count = 9 * block + 300, .block = block, .feedback = feedback, .seed = block}));
    hands.back()->draw_widths();
  }
  return hands;
}

void launch_together(device::Kernel kernel, Hands& hands) {
  std::vector<TideChunk> items;
  std::vector<std::uint64_t> units;
  for (const auto& hand : hands) {
    items.push_back(hand->device());
    units.push_back(hand->layout().blocks());
  }
  launch(kernel, std::span<const TideChunk>(items), std::span<const std::uint64_t>(units),
         kTideTile);
}

void expect_alike(TideByHand& one, TideByHand& other) {
  EXPECT_EQ(one.codes(), other.codes());
  for (std::size_t i = 0; i < kTideRounds; ++i) EXPECT_EQ(one.up(0, i), other.up(0, i)) << i;
  EXPECT_TRUE(std::ranges::equal(one.mean(), other.mean()));
  EXPECT_EQ(bits_of(one.residual()), bits_of(other.residual()));
  EXPECT_EQ(one.finding().bad, other.finding().bad);
  EXPECT_EQ(one.finding().infinite, other.finding().infinite);
}

void expect_as_alone(std::span<const std::uint32_t> blocks, bool feedback) {
  using device::Kernel;
  Hands together = hands_of(blocks, feedback);
  Hands alone = hands_of(blocks, feedback);
  for (const Kernel kernel : {Kernel::measure, Kernel::encode}) {
    launch_together(kernel, together);
    for (const auto& hand : alone) hand->launch_over(kernel);
  }
  for (Hands* const hands : {&together, &alone}) {
    for (const auto& hand : *hands) hand->draw_sums();
  }
  for (const Kernel kernel : {Kernel::check, feedback ? Kernel::keep : Kernel::decode}) {
    launch_together(kernel, together);
    for (const auto& hand : alone) hand->launch_over(kernel);
  }
  for (std::size_t i = 0; i < blocks.size(); ++i) expect_alike(*together[i], *alone[i]);
}

TEST(WarpTide, ALaunchMayHaveChunksWithBlocksOfDifferentSizes) {
  const FloatEnvironment environment;
  const std::vector<std::uint32_t> mixes[] = {
      {64, 256, 128}, {256, 64}, {1024, 64, 512}, {128, 64}};
  for (const auto& blocks : mixes) {
    for (const bool feedback : {false, true}) {
      expect_as_alone(blocks, feedback);
      ASSERT_FALSE(HasFailure()) << blocks[0];
    }
  }
}

}  // namespace
}  // namespace sluice::warp
