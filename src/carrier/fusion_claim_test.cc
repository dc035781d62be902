// What ranks are told that do not reduce the same.
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "carrier/fusion.h"

namespace sluice {
namespace {

constexpr std::uint32_t kWorkers = 3;
using Change = std::function<void(Topic&)>;

// All ranks post the same round; the topic of rank 2 is changed. What rank 0 is told after an
// all-reduce.
std::string all_reduce_says(Op op, const Change& change) {
  const Reduction what{.op = op, .bits = 32, .count = 5};
  std::vector<std::byte> up(20);
  std::vector<std::byte> down(20);
  const std::array<Round, 1> rounds{{{what, up, down, {}}}};
  std::vector<std::int32_t> lanes;
  Fusion first(0, kWorkers);
  for (std::uint32_t rank = 0; rank < kWorkers; ++rank) {
    Ticket ticket{1, 2, {.step = 3, .seed = 4, .bucket = 5, .tensor = 6, .codec = 7}};
    if (rank == 2) {
      change(ticket.topic);
      ticket.digest = 99;
    }
    Fusion other(rank, kWorkers);
    Fusion& one = rank == 0 ? first : other;
    EXPECT_TRUE(one.post(ticket, {}, rounds));
    EXPECT_TRUE(one.seal());
    std::vector<std::int32_t> mine(one.native_count());
    one.pack_native(mine);
    if (rank == 0) lanes.assign(mine.size(), op == Op::max ? INT32_MIN : 0);
    for (std::size_t i = 0; i < mine.size(); ++i) {
      const auto sum = static_cast<std::uint32_t>(lanes[i]) + static_cast<std::uint32_t>(mine[i]);
      lanes[i] = op == Op::max ? std::max(lanes[i], mine[i]) : static_cast<std::int32_t>(sum);
    }
  }
  EXPECT_EQ(first.spread_native(lanes).error().code, Code::mismatch);
  return first.explain({1, 2});
}

TEST(FusionClaim, AnAllReduceNamesWhatDiffers) {
  for (const Op op : {Op::max, Op::wrap_sum}) {
    const auto says = [&](const Change& change, const std::string& end) {
      const std::string said = all_reduce_says(op, change);
      const std::string wanted = "; different: " + end;
      ASSERT_GE(said.size(), wanted.size());
      EXPECT_EQ(said.substr(said.size() - wanted.size()), wanted);
    };
    says([](Topic& s) { s.step = 9; }, "step");
    says([](Topic& s) { s.seed = 9; }, "seed");
    says([](Topic& s) { s.bucket = 9; }, "bucket");
    says([](Topic& s) { s.codec = 9; }, "codec, its options or the coordinates per chunk");
    says([](Topic& s) { s.chunk = 9; }, "codec, its options or the coordinates per chunk");
    says([](Topic& s) { s.tensor = 9; }, "tensors (ids, shapes or order)");
    says([](Topic& s) { s.step = s.seed = 9; }, "step, seed");
    says([](Topic&) {},
         "what the codec has learnt (a state that not all have loaded?) or rounds "
         "of the exchanges");
  }
}

}  // namespace
}  // namespace sluice
