#include "kernels/warp/tide_decode.h"

#include "base/float_environment.h"
#include "kernels/lanes/lanes.h"
#include "tests/conformance/tide_by_hand_test.h"

namespace sluice::warp {
namespace {

std::vector<TideSetup> setups() {
  std::vector<TideSetup> all;
  unsigned seed = 100;
  const std::uint32_t teams[] = {1, 2, 3, 4, 64, 4096};
  for (const std::uint32_t block : {64u, 128u, 256u, 512u, 1024u}) {
    for (const std::uint32_t tail : {0u, 15u, 17u, 63u, 1023u}) {
      for (const Down down : {Down::full, Down::round}) {
        ++seed;
        TideSetup setup;
        setup.block = block;
        setup.count = 9 * block + tail % block;
        setup.seed = seed;
        setup.workers = teams[seed % 6];
        setup.rank = setup.workers - 1;
        if (seed % 4 == 0 && setup.workers > 2) {
          setup.rank = 1;
          setup.missing = {0, 2};
        }
        setup.format = kFormats[seed % 3];
        setup.mean_format = kFormats[seed / 2 % 3];
        setup.down = down;
        setup.extra = static_cast<std::uint8_t>(down == Down::round ? seed % 5 : 0);
        setup.feedback = seed % 5 < 3;
        setup.misaligned = seed / 3 % 2 != 0;
        setup.again = seed % 3 == 0;
        all.push_back(setup);
      }
    }
  }
  for (const std::uint32_t count : {1u, 2u, 15u, 16u, 31u, 80u * 256u}) {
    for (const floats::Format format : kFormats) {
      all.push_back({.count = count,
                     .format = format,
                     .mean_format = format,
                     .feedback = true,
                     .in_place = true,
                     .seed = ++seed});
    }
  }
  return all;
}

void expect_decoded(TideByHand& hand, const TideSetup& setup, bool counted) {
  hand.draw_widths();
  for (std::uint32_t b = 0; b < hand.layout().blocks(); ++b) {
    const TideBlock& block = hand.blocks()[b];
    if (block.width == 0) continue;
    const Bytes own = hand.encoded(b, block.code, (block.flags & kTideZeros) != 0);
    std::copy(own.begin(), own.end(), hand.own(b).begin());
  }
  hand.draw_sums();
  hand.launch_over(device::Kernel::check);
  ASSERT_EQ(hand.finding().bad, 0u) << setup.seed;
  auto wanted = hand.decoded(counted);
  Bytes stored(floats::size_of(setup.mean_format) * setup.count);
  Floats delivered(setup.count);
  floats::scalar::encode(setup.mean_format, wanted.mean, 1.0f, stored);
  floats::scalar::decode(setup.mean_format, stored, delivered);
  if (setup.mean_format != floats::Format::f32 && setup.feedback) {
    keep_lost(wanted.mean, delivered, wanted.residual);
  }
  hand.device().counted = counted ? 1 : 0;
  hand.launch_decode();
  ASSERT_EQ(Bytes(hand.mean().begin(), hand.mean().end()), stored) << setup.seed;
  ASSERT_EQ(bits_of(hand.residual()), bits_of(wanted.residual)) << setup.seed;
  const auto infinite = std::count_if(delivered.begin(), delivered.end(),
                                      [](float value) { return !std::isfinite(value); });
  ASSERT_EQ(hand.finding().infinite, infinite) << setup.seed;
}

TEST(WarpTide, MeansAndResidualsAreTheSpecifications) {
  const FloatEnvironment environment;
  for (const TideSetup& setup : setups()) {
    TideByHand hand(setup);
    expect_decoded(hand, setup, true);
    if (HasFatalFailure()) return;
  }
}

TEST(WarpTide, AWorkerThatWasNotCountedKeepsEverything) {
  const FloatEnvironment environment;
  for (TideSetup setup : setups()) {
    if (setup.workers < 3) continue;
    setup.feedback = true;
    setup.missing = {setup.rank};
    TideByHand hand(setup);
    expect_decoded(hand, setup, false);
    if (HasFatalFailure()) return;
  }
}

TEST(WarpTide, ASumBeyondReachIsFoundInEveryLaneAndNothingIsDecoded) {
  const FloatEnvironment environment;
  for (const unsigned width : {1u, 3u, 8u}) {
    TideSetup setup{.count = 300, .workers = 5};
    for (std::uint32_t lane = 0; lane < 304; lane += 7) {
      TideByHand hand(setup);
      for (TideBlock& block : hand.blocks()) {
        block = {.code = 1200, .width = static_cast<std::uint8_t>(width)};
      }
      hand.place_lanes();
      hand.draw_sums();
      const std::uint32_t top = 5 * ((1u << width) - 1);
      const unsigned bits = hand.device().full_bits[width - 1];
      lanes::put(hand.down(0, width - 1), lane, bits, top);
      hand.launch_over(device::Kernel::check);
      ASSERT_EQ(hand.finding().bad, 0u);
      lanes::put(hand.down(0, width - 1), lane, bits, top + 1);
      hand.launch_over(device::Kernel::check);
      ASSERT_EQ(hand.finding().bad, kBadSum) << lane;
      const Bytes before(hand.mean().begin(), hand.mean().end());
      hand.launch_decode();
      ASSERT_EQ(Bytes(hand.mean().begin(), hand.mean().end()), before);
    }
  }
}

TEST(WarpTide, AShiftThatCannotBeIsFoundInEveryGrain) {
  const FloatEnvironment environment;
  TideSetup setup{.count = 1000, .workers = 64, .down = Down::round, .extra = 1};
  for (std::size_t grain = 0; grain < 4; ++grain) {
    TideByHand hand(setup);
    for (TideBlock& block : hand.blocks()) block = {.code = 1200, .width = 4};
    hand.place_lanes();
    hand.draw_sums();
    // 64·15 = 960 needs 10 bits, of which lanes have 5.
    std::byte& shift = hand.down(0, 3)[grain * (1 + 32 * 5)];
    shift = std::byte{5};
    hand.launch_over(device::Kernel::check);
    ASSERT_EQ(hand.finding().bad, 0u);
    for (const unsigned wrong : {6u, 26u, 27u, 32u, 250u, 255u}) {
      hand.finding() = {};
      shift = static_cast<std::byte>(wrong);
      hand.launch_over(device::Kernel::check);
      ASSERT_EQ(hand.finding().bad, kBadShift) << grain << ", " << wrong;
    }
  }
}

}  // namespace
}  // namespace sluice::warp
