// Which lines of memory kernels of tide ask for ahead of time: those of their blocks and no others.
#include <set>

#include "base/float_environment.h"
#include "kernels/warp/tiles.h"
#include "kernels/warp/warp_host.h"
#include "tests/conformance/tide_by_hand_test.h"

namespace sluice::warp {
namespace {

using Lines = std::set<std::uintptr_t>;

// A host's warp that says what it was asked for.
struct AskingWarp : HostWarp {
  static constexpr bool kPrefetches = true;
  static inline Lines lines;
  static void fetch_lines(const Wide& line, const M& mask) {
    for (std::uint32_t i = 0; i < kLanes; ++i) {
      if (mask.v[i]) lines.insert(line.v[i]);
    }
  }
};

void add_lines(Lines& lines, const void* from, std::size_t size) {
  const auto first = reinterpret_cast<std::uintptr_t>(from);
  for (std::uintptr_t at = first / 128 * 128; at < first + size; at += 128) lines.insert(at);
}

// Where a block's sums lie, as round/reduction.h says.
void add_sums(Lines& lines, TideByHand& hand, std::uint32_t number) {
  const TideChunk& chunk = hand.device();
  const TideBlock& block = hand.blocks()[number];
  if (block.width == 0 || block.width == kTideExact) return;
  const bool rounded = chunk.rounded[block.width - 1u] != 0;
  const std::size_t bits =
      rounded ? block.width + std::size_t{chunk.extra} : chunk.full_bits[block.width - 1u];
  const std::size_t grain = block.lane / chunk.block;
  const std::size_t within = block.lane % chunk.block;
  const std::byte* const round =
      chunk.sendings[(block.flags & kTideAgain) != 0 ? 1 : 0].down[block.width - 1u];
  const std::byte* const from = round + grain * ((rounded ? 1 : 0) + chunk.block / 8 * bits) +
                                (rounded ? 1 : 0) + within / 8 * bits;
  add_lines(lines, from, hand.layout()[number].size / 8 * bits);
}

constexpr std::uint32_t kStep = 8;

template <class Body>
void for_parts(TideByHand& hand, Body body) {
  AskingWarp w;
  AskingWarp::lines.clear();
  for (std::uint32_t tile = 0; tile < hand.layout().blocks(); tile += kTideTile) {
    for (std::uint32_t offset = 0; offset < kStep; ++offset) body(w, tile, offset);
  }
}

TEST(WarpTide, SumsAreAskedForLineByLineAndNothingElseIs) {
  const FloatEnvironment environment;
  unsigned seed = 0;
  for (const Down down : {Down::full, Down::round}) {
    for (const bool misaligned : {false, true}) {
      for (const std::uint32_t block : {64u, 256u}) {
        TideByHand hand({.count = 70 * block + 63,
                         .block = block,
                         .workers = 33,
                         .down = down,
                         .extra = static_cast<std::uint8_t>(down == Down::round ? 2 : 0),
                         .misaligned = misaligned,
                         .again = true,
                         .seed = ++seed});
        hand.draw_widths();
        hand.draw_sums();
        Lines wanted;
        for (std::uint32_t b = 0; b < hand.layout().blocks(); ++b) add_sums(wanted, hand, b);
        for_parts(hand, [&](AskingWarp& w, std::uint32_t tile, std::uint32_t offset) {
          check<8>(w, hand.device(), tile, offset, kStep);
        });
        ASSERT_EQ(AskingWarp::lines, wanted) << seed;
      }
    }
  }
}

// But for the first block of every warp, and what is left over: those are wanted at once.
TEST(WarpTide, ValuesAreAskedForOnlyWhereTheyAre) {
  const FloatEnvironment environment;
  for (const floats::Format format : kFormats) {
    for (const bool misaligned : {false, true}) {
      TideByHand hand(
          {.count = 30 * 256 + 17, .format = format, .feedback = true, .misaligned = misaligned});
      hand.draw_widths();
      const TideChunk& chunk = hand.device();
      const std::size_t size = floats::size_of(format);
      const std::size_t first = std::size_t{kStep} * 256;
      const std::size_t count = std::size_t{30 - kStep} * 256;
      Lines wanted;
      add_lines(wanted, static_cast<const std::byte*>(chunk.values) + first * size, count * size);
      add_lines(wanted, chunk.residual + first, count * sizeof(float));
      for_parts(hand, [&](AskingWarp& w, std::uint32_t tile, std::uint32_t offset) {
        encode<8>(w, chunk, tile, offset, kStep);
      });
      EXPECT_EQ(AskingWarp::lines, wanted);
    }
  }
}

}  // namespace
}  // namespace sluice::warp
