// Sums that kernels make of a segment are those of the rounds: on the emulated device always, on a
// GPU where there is one.
#include <cmath>
#include <cstring>

#include "base/float_environment.h"
#include "device/cuda_library.h"
#include "device/device_memory.h"
#include "kernels/lanes/lanes.h"
#include "kernels/warp/warp_host.h"
#include "kernels/warp/warp_sums.h"
#include "round/combine.h"
#include "tests/conformance/launch_test.h"

namespace sluice::warp {
namespace {

// A segment of a round: bytes of every rank, those that are counted, and how it is reduced.
struct Segment {
  Reduction what;
  std::uint32_t workers = 1;
  std::vector<std::uint32_t> ranks;
  std::size_t start = 0;  // misaligns everything
};

Bytes reduced_by_host(const Segment& segment, const Bytes& source, std::size_t stride) {
  std::vector<Contribution> contributions;
  for (const std::uint32_t rank : segment.ranks) {
    contributions.push_back(
        {rank, std::span(source).subspan(segment.start + rank * stride, up_size(segment.what))});
  }
  AlignedBuffer scratch(scratch_size(segment.what));
  Bytes down(down_size_max(segment.what, segment.workers));
  const std::size_t size = combine(segment.what, segment.workers, 0, segment.what.count,
                                   contributions, scratch.bytes(), down);
  EXPECT_EQ(size, down.size());
  return down;
}

Sum item_of(const Segment& segment, const Bytes& source, std::size_t stride) {
  const Reduction& what = segment.what;
  Sum item;
  item.source = source.data() + segment.start;
  item.stride = stride;
  item.ranks = segment.ranks.data();
  item.contributors = static_cast<std::uint32_t>(segment.ranks.size());
  item.count = what.count;
  item.grain = grain_of(what);
  item.bits = what.bits;
  switch (what.op) {
    case Op::lane_sum: item.op = SumOp::lane_sum; break;
    case Op::max: item.op = SumOp::max; break;
    case Op::f32_sum: item.op = SumOp::f32_sum; break;
    case Op::bf16_sum: item.op = SumOp::bf16_sum; break;
    default: item.op = SumOp::f16_sum; break;
  }
  if (what.op == Op::lane_sum) {
    const bool rounded = is_rounded(what, segment.workers);
    item.form = rounded ? SumForm::round : SumForm::full;
    item.down_bits = static_cast<std::uint8_t>(rounded ? what.bits + what.extra
                                                       : sum_bits(what, segment.workers));
  }
  return item;
}

// Copies of values, where both the host and the device reach them.
template <class T>
device::SharedMemory shared(const device::Accelerator& on, std::span<const T> values) {
  device::SharedMemory memory(on, values.size_bytes() + 1);
  std::memcpy(memory.bytes().data(), values.data(), values.size_bytes());
  return memory;
}

class WarpSums : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (!GetParam()) return;
    const auto found = device::cuda();
    if (!found) GTEST_SKIP() << found.error().message;
    on_.table = *found;
    ASSERT_EQ(on_.table->open(0), 0);
  }

  // Reduces `item`, whose pointers are of the host, into `down`, from byte `start` of it on.
  void reduce(const Segment& segment, const Bytes& source, Sum item, Bytes& down) const;
  void expect_reduced(const Segment& segment, const Bytes& source, std::size_t stride) const;
  void expect_lane_sums(std::uint32_t workers, std::uint32_t count, std::uint32_t grain,
                        unsigned seed) const;

  device::Accelerator on_{&device::emulated(), 0};
};

void WarpSums::reduce(const Segment& segment, const Bytes& source, Sum item, Bytes& down) const {
  const auto sources = shared<std::byte>(on_, source);
  const auto ranks = shared<std::uint32_t>(on_, segment.ranks);
  const auto downs = shared<std::byte>(on_, down);
  item.source = sources.as<std::byte>() + segment.start;
  item.ranks = ranks.as<std::uint32_t>();
  item.down = downs.as<std::byte>() + segment.start;
  const std::uint32_t unit = item.op == SumOp::lane_sum ? item.grain : kSumUnit;
  const std::uint64_t units = (item.count + unit - 1) / unit;
  const auto tiles = tiles_of({&units, 1}, kSumTile);
  const auto tile_list = shared<Tile>(on_, tiles);
  const auto items = shared<Sum>(on_, {&item, 1});
  const device::Launch launch{device::Kernel::sum, 0, items.as<Sum>(), tile_list.as<Tile>(),
                              static_cast<std::uint32_t>(tiles.size())};
  device::Event done = nullptr;
  ASSERT_EQ(on_.table->make_event(&done), 0);
  ASSERT_EQ(on_.table->launch(&launch, nullptr), 0);
  ASSERT_EQ(on_.table->record(done, nullptr), 0);
  ASSERT_EQ(on_.table->synchronize(done), 0);
  ASSERT_EQ(on_.table->free_event(done), 0);
  std::memcpy(down.data(), downs.bytes().data(), down.size());
}

void WarpSums::expect_reduced(const Segment& segment, const Bytes& source,
                              std::size_t stride) const {
  const Bytes wanted = reduced_by_host(segment, source, stride);
  // Bytes around the answer stay as they are.
  Bytes down(wanted.size() + segment.start + 8, std::byte{0xa5});
  reduce(segment, source, item_of(segment, source, stride), down);
  Bytes all(down.size(), std::byte{0xa5});
  std::copy(wanted.begin(), wanted.end(), all.begin() + static_cast<std::ptrdiff_t>(segment.start));
  ASSERT_EQ(down, all) << name_of(segment.what.op) << " of " << int{segment.what.bits} << " bits, "
                       << segment.what.count << " lanes, " << segment.ranks.size() << " workers";
}

std::vector<std::uint32_t> ranks_of(std::uint32_t workers, std::uint32_t every) {
  std::vector<std::uint32_t> ranks;
  for (std::uint32_t rank = 0; rank < workers; rank += every) ranks.push_back(rank);
  return ranks;
}

// Codes of little spread now and then: then a smaller shift is best.
Bytes drawn_codes(std::mt19937& random, const Segment& segment, std::size_t stride) {
  Bytes source(segment.start + stride * segment.workers);
  for (std::byte& byte : source) byte = static_cast<std::byte>(random());
  if (random() % 2 == 0) return source;
  const unsigned bits = segment.what.bits;
  for (std::uint32_t rank = 0; rank < segment.workers; ++rank) {
    const auto up = std::span(source).subspan(segment.start + rank * stride, stride);
    for (std::uint32_t i = 0; i < segment.what.count; ++i) {
      lanes::put(up, i, bits, (1u << bits) / 2 + static_cast<std::uint32_t>(random()) % 2);
    }
  }
  return source;
}

void WarpSums::expect_lane_sums(std::uint32_t workers, std::uint32_t count, std::uint32_t grain,
                                unsigned seed) const {
  std::mt19937 random(seed);
  for (unsigned bits = 1; bits <= 8; ++bits) {
    Segment segment;
    segment.workers = workers;
    segment.ranks = ranks_of(workers, 1 + seed % 2);
    segment.start = seed % 3;
    segment.what = {.op = Op::lane_sum,
                    .bits = static_cast<std::uint8_t>(bits),
                    .down = (seed + bits) % 2 != 0 ? Down::full : Down::round,
                    .extra = static_cast<std::uint8_t>((seed + bits) % 2 != 0 ? 0 : seed % 5),
                    .count = count,
                    .grain = grain};
    const std::size_t stride = up_size(segment.what) + seed % 7;
    expect_reduced(segment, drawn_codes(random, segment, stride), stride);
  }
}

TEST_P(WarpSums, LaneSumsAreTheRoundsForAllWidthsGrainsAndTails) {
  const FloatEnvironment environment;
  unsigned seed = 0;
  for (const std::uint32_t grain : {8u, 64u, 256u, 264u, 512u, 1024u}) {
    for (const std::uint32_t workers : {1u, 2u, 3u, 64u}) {
      for (const std::uint32_t tail : {0u, 1u, 7u, 16u, 40u}) {
        expect_lane_sums(workers, 2 * grain + tail % grain, grain, ++seed);
        if (HasFatalFailure()) return;
      }
    }
  }
  expect_lane_sums(3, 70 * 64, 64, ++seed);
}

// As they lie in messages: on multiples of 16 bytes, so that whole strips are taken at once.
TEST_P(WarpSums, StripsAreTheRoundsForAllWidthsGrainsAndWorkers) {
  const FloatEnvironment environment;
  std::mt19937 random(9);
  std::uint32_t turn = 0;
  for (const std::uint32_t workers : {1u, 2u, 3u, 4u, 5u, 9u, 10u, 17u, 18u, 33u, 64u, 256u}) {
    for (unsigned bits = 1; bits <= 8; ++bits) {
      for (const Down down : {Down::full, Down::round}) {
        const std::uint32_t grain = 32u << (turn % 6);
        Segment segment;
        segment.workers = workers;
        segment.ranks = ranks_of(workers, 1 + turn / 6 % 2);
        segment.what = {.op = Op::lane_sum,
                        .bits = static_cast<std::uint8_t>(bits),
                        .down = down,
                        .extra = static_cast<std::uint8_t>(down == Down::full ? 0 : turn % 5),
                        .count = 1024 * (1 + turn % 3) + (turn % 4 == 0 ? 0 : turn % 1000),
                        .grain = grain};
        const std::size_t stride = round_up(up_size(segment.what), std::size_t{16}) + 16;
        const Bytes source = drawn_codes(random, segment, stride);
        const Sum item = item_of(segment, source, stride);
        const std::uint32_t top = item.contributors * ((1u << bits) - 1);
        ASSERT_EQ(SumStrips<HostWarp>::take(item), item.form == SumForm::full || top < 2048);
        expect_reduced(segment, source, stride);
        if (HasFatalFailure()) return;
        ++turn;
      }
    }
  }
}

TEST_P(WarpSums, LaneSumsOfThousandsOfWorkersAreTheRounds) {
  const FloatEnvironment environment;
  for (const std::uint32_t workers : {255u, 256u, 257u, 1000u, 4096u}) {
    expect_lane_sums(workers, 80, 64, 2 * workers);
    expect_lane_sums(workers, 24, 24, 2 * workers + 2);
    if (HasFatalFailure()) return;
  }
}

TEST_P(WarpSums, SumsAtTheirTopStayWithinTheirLanes) {
  const FloatEnvironment environment;
  for (const std::uint32_t workers : {1u, 4u, 64u, 4096u}) {
    for (const Down down : {Down::full, Down::round}) {
      Segment segment{.what = {.op = Op::lane_sum,
                               .bits = 8,
                               .down = down,
                               .extra = static_cast<std::uint8_t>(down == Down::round ? 4 : 0),
                               .count = 64,
                               .grain = 64},
                      .workers = workers,
                      .ranks = ranks_of(workers, 1)};
      expect_reduced(segment, Bytes(std::size_t{64} * workers, std::byte{0xff}), 64);
    }
  }
}

TEST_P(WarpSums, MaximaAreTheRoundsForAllWidths) {
  const FloatEnvironment environment;
  std::mt19937 random(7);
  for (unsigned bits = 1; bits <= 32; ++bits) {
    for (const std::uint32_t count : {1u, 7u, 255u, 256u, 257u, 600u}) {
      Segment segment{
          .what = {.op = Op::max, .bits = static_cast<std::uint8_t>(bits), .count = count},
          .workers = 5,
          .ranks = ranks_of(5, 1 + bits % 2),
          .start = bits % 3};
      const std::size_t stride = up_size(segment.what) + 3;
      Bytes source(segment.start + 5 * stride);
      for (std::byte& byte : source) byte = static_cast<std::byte>(random());
      expect_reduced(segment, source, stride);
      if (HasFatalFailure()) return;
    }
  }
}

// Any bits at all: NaN with payloads, both infinities, subnormals.
TEST_P(WarpSums, FloatSumsAreTheRoundsInTheOrderOfRanks) {
  const FloatEnvironment environment;
  std::mt19937 random(8);
  for (const Op op : {Op::f32_sum, Op::bf16_sum, Op::f16_sum}) {
    const std::size_t size = floats::size_of(float_format(op));
    for (const std::uint32_t count : {1u, 255u, 256u, 257u, 600u, 70u * 256u}) {
      for (const std::size_t start : {0u, 1u, 2u}) {
        Segment segment{
            .what = {.op = op, .bits = static_cast<std::uint8_t>(8 * size), .count = count},
            .workers = 6,
            .ranks = {0, 2, 3, 5},
            .start = start};
        const std::size_t stride =
            start == 0 ? up_size(segment.what) + 16 - count * size % 16 : up_size(segment.what) + 1;
        Bytes source(segment.start + 6 * stride);
        for (std::byte& byte : source) byte = static_cast<std::byte>(random());
        expect_reduced(segment, source, stride);
        if (HasFatalFailure()) return;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, WarpSums, ::testing::Bool(),
                         [](const ::testing::TestParamInfo<bool>& info) {
                           return std::string(info.param ? "gpu" : "emulated");
                         });

}  // namespace
}  // namespace sluice::warp
