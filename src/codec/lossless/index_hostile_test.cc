// Answers that somebody hostile made up: the index never loses what this worker has.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "codec/lossless/index_members_test.h"

namespace sluice::lossless::test {
namespace {

struct Kind {
  std::string name;
  IndexPlan plan;
  Tensor tensor;
};

std::vector<Kind> kinds(std::uint32_t count) {
  return {{"bitmap", {.kind = IndexKind::bitmap}, {1, 1, count}},
          {"levels", {.kind = IndexKind::tiers, .granule = 64}, {1, 1, count}},
          {"rows", {.kind = IndexKind::rows}, {1, 100, 50}},
          {"whole rows", {.kind = IndexKind::rows, .whole_rows = true}, {1, 100, 50}},
          {"bloom", {.kind = IndexKind::bloom, .bloom = {500, 4}}, {1, 1, count}},
          {"gather", {.kind = IndexKind::gather}, {1, 1, count}}};
}

// At each step, each of this worker's own bits is taken out of the answer.
TEST(Index, AnAnswerWithoutMyOwnBitsIsMalformed) {
  constexpr std::uint32_t kCount = 1003;
  const std::vector<Marks> marks{scattered(kCount, 0.01, 1), scattered(kCount, 0.02, 2)};
  for (const Kind& kind : kinds(kCount)) {
    if (kind.plan.kind == IndexKind::gather) continue;  // has no bits
    for (std::size_t at = 0; at < 5; ++at) {
      for (std::size_t bit = 0;; ++bit) {
        IndexMembers members({kind.tensor, 0, kCount, kind.plan}, marks, WorkerSet::all(2), true);
        IndexOutcome outcome;
        for (std::size_t step = 0; step < at && !members.index(0).is_complete(); ++step) {
          members.ask(outcome);
          for (const std::uint32_t rank : {0u, 1u})
            ASSERT_TRUE(members.take(rank, members.answer()));
        }
        if (members.index(0).is_complete()) break;
        members.ask(outcome);
        if (bit >= members.what().count) break;
        Bytes answer = members.answer();
        const auto mask = static_cast<std::byte>(1u << (bit % 8));
        if ((answer[bit / 8] & mask) == std::byte{0}) continue;
        answer[bit / 8] ^= mask;
        int refused = 0;
        for (const std::uint32_t rank : {0u, 1u}) {
          const Status status = members.take(rank, answer);
          if (status) continue;
          EXPECT_EQ(status.error().code, Code::malformed);
          ++refused;
        }
        EXPECT_GE(refused, 1) << kind.name << ", step " << at << ", bit " << bit;
      }
    }
  }
}

TEST(Index, AListWithoutMyOwnPositionsIsMalformed) {
  constexpr std::uint32_t kCount = 500;
  const std::vector<Marks> marks{only_at(kCount, {3, 77}), only_at(kCount, {77, 400})};
  IndexMembers members(flat(kCount, {.kind = IndexKind::gather}), marks, WorkerSet::all(2), true);
  IndexOutcome outcome;
  members.ask(outcome);
  // My message, with the other's list in it: both lists are of one size.
  Bytes answer = members.answer();
  const std::size_t half = answer.size() / 2;
  std::copy_n(answer.begin() + static_cast<std::ptrdiff_t>(half + kMessageHeader),
              half - kMessageHeader, answer.begin() + kMessageHeader);
  const Status status = members.take(0, answer);
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, Code::malformed);
  EXPECT_TRUE(members.take(1, answer).has_value()) << "its own are in it";
}

// Any flipped bit of any step: malformed, or an index in range with all of my own.
TEST(Index, FlippedBitsNeverLoseMyOwnPositions) {
  constexpr std::uint32_t kCount = 1003;
  const std::vector<Marks> marks{scattered(kCount, 0.02, 3), scattered(kCount, 0.02, 4)};
  for (const Kind& kind : kinds(kCount)) {
    for (std::uint32_t i = 0; i < 300; ++i) {
      IndexMembers members({kind.tensor, 0, kCount, kind.plan}, marks, WorkerSet::all(2), true);
      IndexOutcome outcome;
      bool alike = true;
      Status status = ok();
      for (std::uint64_t step = 0; alike && status && !members.index(0).is_complete(); ++step) {
        members.ask(outcome);
        Bytes answer = members.answer();
        if (answer.empty()) break;
        const std::uint64_t bit = mix(i, step) % (8 * answer.size());
        answer[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
        status = members.take(0, answer);
        // The other one follows, so that both ask for the same.
        alike = members.take(1, answer).has_value();
      }
      if (!status) {
        EXPECT_EQ(status.error().code, Code::malformed);
        continue;
      }
      if (!members.index(0).is_complete()) continue;
      const auto agreed = members.index(0).marks();
      EXPECT_TRUE(bitmaps::is_subset(marks[0], agreed)) << kind.name << ", " << i;
      EXPECT_EQ(agreed.back() >> (kCount % 64), 0u) << kind.name << ", " << i;
    }
  }
}

}  // namespace
}  // namespace sluice::lossless::test
