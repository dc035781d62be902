#include "kernels/warp/tide_encode.h"

#include "base/float_environment.h"
#include "tests/conformance/tide_by_hand_test.h"

namespace sluice::warp {
namespace {

constexpr std::uint32_t kBlocks[] = {64, 128, 256, 512, 1024};

// All tails: whole blocks, then every power of two and the padded one.
std::vector<TideSetup> setups() {
  std::vector<TideSetup> all;
  unsigned seed = 0;
  for (const std::uint32_t block : kBlocks) {
    for (const std::uint32_t tail : {0u, 1u, 15u, 16u, 17u, 63u, 1023u}) {
      TideSetup setup;
      setup.block = block;
      setup.count = 5 * block + tail % block;
      setup.seed = ++seed;
      setup.format = kFormats[seed % 3];
      setup.feedback = seed % 2 != 0;
      setup.misaligned = seed / 2 % 2 != 0;
      setup.workers = 1 + seed * 7 % 64;
      setup.rank = setup.workers / 2;
      all.push_back(setup);
    }
  }
  for (const std::uint32_t count : {1u, 2u, 15u, 16u, 31u, 47u, 100u * 256u}) {
    all.push_back({.count = count, .feedback = true, .misaligned = true, .seed = ++seed});
    all.push_back({.count = count, .seed = ++seed});
  }
  return all;
}

TEST(WarpTide, MeasuredCodesAreTheSpecifications) {
  const FloatEnvironment environment;
  for (const TideSetup& setup : setups()) {
    TideByHand hand(setup);
    hand.launch_over(device::Kernel::measure);
    for (std::uint32_t b = 0; b < hand.layout().blocks(); ++b) {
      ASSERT_EQ(hand.codes()[b], hand.my_code(b)) << setup.seed << ", block " << b;
    }
  }
}

TEST(WarpTide, OneLeastFloatAloneHasTheFaintestCode) {
  const FloatEnvironment environment;
  for (const std::uint32_t count : {16u, 64u, 256u, 1024u}) {
    TideByHand hand({.count = count, .block = std::max(64u, count)});
    auto* const values = static_cast<float*>(const_cast<void*>(hand.device().values));
    std::fill_n(values, count, 0.0f);
    values[count / 2] = -0x1p-149f;
    std::copy_n(values, count, const_cast<float*>(hand.host().gradient.data()));
    hand.launch_over(device::Kernel::measure);
    EXPECT_EQ(hand.codes()[0], 1);
    EXPECT_EQ(hand.my_code(0), 1);
  }
}

// Everything in the memory of the rounds, what lies in front of them and behind included.
void expect_encoded(TideByHand& hand, const TideSetup& setup,
                    const std::vector<std::uint32_t>& codes, const std::vector<bool>& zeros) {
  std::vector<Bytes> got;
  for (std::size_t i = 0; i < kTideRounds; ++i) {
    got.push_back(hand.up(0, i));
    std::fill(hand.up(0, i).begin(), hand.up(0, i).end(), std::byte{0xa5});
  }
  for (std::uint32_t b = 0; b < hand.layout().blocks(); ++b) {
    if (hand.blocks()[b].width == 0) continue;
    const Bytes wanted = hand.encoded(b, codes[b], zeros[b]);
    std::copy(wanted.begin(), wanted.end(), hand.own(b).begin());
  }
  for (std::size_t i = 0; i < kTideRounds; ++i) {
    ASSERT_EQ(got[i], hand.up(0, i)) << setup.seed << ", round " << i;
  }
}

TEST(WarpTide, CodesOfAgreedScalesAreTheSpecifications) {
  const FloatEnvironment environment;
  for (const TideSetup& setup : setups()) {
    TideByHand hand(setup);
    hand.draw_widths();
    hand.launch_over(device::Kernel::encode);
    std::vector<std::uint32_t> codes;
    std::vector<bool> zeros;
    for (const TideBlock& block : hand.blocks()) {
      codes.push_back(block.code);
      zeros.push_back((block.flags & kTideZeros) != 0);
    }
    expect_encoded(hand, setup, codes, zeros);
    EXPECT_EQ(hand.codes(), std::vector<std::uint16_t>(codes.size(), 0xffff)) << "not measured";
  }
}

TEST(WarpTide, EncodingWithScalesOfTheStepBeforeMeasuresAndDamps) {
  const FloatEnvironment environment;
  for (const TideSetup& setup : setups()) {
    TideByHand hand(setup);
    hand.draw_widths();
    std::vector<std::uint32_t> used;
    std::vector<bool> zeros;
    for (std::uint32_t b = 0; b < hand.layout().blocks(); ++b) {
      TideBlock& block = hand.blocks()[b];
      const std::uint32_t mine = hand.my_code(b);
      if (block.width == kTideExact) block.width = 3;
      block.flags = 0;
      // Anything from far below my code to far above it.
      const auto around =
          static_cast<std::int32_t>(mine % 4095) - 40 + static_cast<int>(hand.below(80));
      block.code = static_cast<std::uint16_t>(std::clamp<std::int32_t>(around, 1, tide::kCodeMost));
      zeros.push_back(mine == tide::kCodeNotFinite ||
                      (mine == 0 && block.code < tide::kCodeAboveFaint));
      used.push_back(zeros.back() ? block.code
                                  : std::max<std::uint32_t>(block.code, mine < 4 ? 0 : mine - 4));
    }
    hand.place_lanes();
    hand.device().measures = 1;
    hand.launch_over(device::Kernel::encode);
    expect_encoded(hand, setup, used, zeros);
    for (std::uint32_t b = 0; b < hand.layout().blocks(); ++b) {
      ASSERT_EQ(hand.codes()[b], hand.my_code(b)) << setup.seed << ", block " << b;
    }
  }
}

// A block whose rotation is all in one place: the rotated integer wraps, as on the host.
TEST(WarpTide, RotatedIntegersWrapModuloTwoToTheSixteenth) {
  const FloatEnvironment environment;
  for (const std::uint32_t block : kBlocks) {
    TideSetup setup{.count = block, .block = block};
    TideByHand hand(setup);
    auto* const values = static_cast<float*>(const_cast<void*>(hand.device().values));
    for (std::uint32_t i = 0; i < block; ++i) {
      values[i] = (hand.device().signs[i / 32] >> (i % 32) & 1) != 0 ? -1.0f : 1.0f;
    }
    std::copy_n(values, block, const_cast<float*>(hand.host().gradient.data()));
    ASSERT_EQ(hand.my_code(0), 1200);
    hand.blocks()[0] = {.code = 1200, .width = 8};
    hand.place_lanes();
    hand.launch_over(device::Kernel::encode);
    expect_encoded(hand, setup, {1200}, {false});
  }
}

}  // namespace
}  // namespace sluice::warp
