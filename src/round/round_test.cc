#include "round/round.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace sluice {
namespace {

// A round with room for its answer and the parts that a test spoils.
struct Case {
  Case(const Reduction& what, std::uint32_t n)
      : workers(n), down(down_size_max(what, n)), everyone(WorkerSet::all(n)) {
    round.what = what;
    round.down = down;
  }
  Status check() const { return check_answer(round, {down, parts}, workers); }
  void add(std::uint32_t first, std::uint32_t count) {
    parts.push_back({first, count, everyone.view()});
  }

  std::uint32_t workers;
  std::vector<std::byte> down;
  WorkerSet everyone;
  Round round;
  std::vector<Part> parts;
};

void expect_malformed(const Case& test, const std::string& word) {
  const Status status = test.check();
  ASSERT_FALSE(status.has_value()) << "expected: " << word;
  EXPECT_EQ(status.error().code, Code::malformed);
  EXPECT_NE(std::string(status.error().what).find(word), std::string::npos) << status.error().what;
}

constexpr Reduction kMax{.op = Op::max, .bits = 4, .count = 100, .grain = 16};
constexpr Reduction kNarrow{
    .op = Op::lane_sum, .bits = 4, .down = Down::narrow, .count = 100, .grain = 16};
constexpr Reduction kGather{.op = Op::gather, .bits = 8, .count = 100};

TEST(CheckAnswer, AcceptsOnePartAndPartsOnGrains) {
  Case whole(kMax, 3);
  whole.add(0, 100);
  EXPECT_TRUE(whole.check().has_value());

  Case pieces(kMax, 3);
  pieces.add(0, 16);
  pieces.add(16, 48);
  pieces.add(64, 36);
  EXPECT_TRUE(pieces.check().has_value());
}

TEST(CheckAnswer, AcceptsAPartFromASingleWorker) {
  for (const std::uint32_t n : {1u, 64u, 65u, 4096u}) {
    Case test(kMax, n);
    WorkerSet one(n);
    one.insert(n - 1);
    test.parts.push_back({0, 100, one.view()});
    EXPECT_TRUE(test.check().has_value()) << n;
  }
}

TEST(CheckAnswer, RefusesEveryOtherSizeWhereTheSizeIsFixed) {
  Case test(kMax, 3);
  test.add(0, 100);
  ASSERT_EQ(test.down.size(), 50u);
  for (const std::size_t size : {0u, 1u, 49u, 51u, 100u}) {
    test.down.resize(size);
    expect_malformed(test, "size");
  }
}

TEST(CheckAnswer, TakesAnyShorterSizeOfListsAndNarrowSums) {
  for (const Reduction& what : {kNarrow, kGather}) {
    Case test(what, 3);
    test.add(0, 100);
    const std::size_t most = test.down.size();
    for (const std::size_t size : {most, most - 1, std::size_t{0}}) {
      test.down.resize(size);
      EXPECT_TRUE(test.check().has_value()) << size;
    }
    test.down.resize(most + 1);
    expect_malformed(test, "size");
  }
}

TEST(CheckAnswer, ARoundOfNoLanesIsAnsweredByNothing) {
  for (const Op op : {Op::max, Op::gather, Op::lane_sum}) {
    Case test({.op = op, .bits = 8, .count = 0}, 3);
    test.down.clear();
    EXPECT_TRUE(test.check().has_value());
    test.add(0, 0);
    expect_malformed(test, "no lanes");
    test.parts.clear();
    test.down.resize(1);
    expect_malformed(test, "no lanes");
  }
}

TEST(CheckAnswer, RefusesPartsThatDoNotCoverTheLanesInOrder) {
  const std::vector<std::vector<std::pair<std::uint32_t, std::uint32_t>>> bad{
      {},                     // none
      {{0, 64}},              // an end missing
      {{16, 84}},             // a start missing
      {{0, 16}, {32, 68}},    // a hole
      {{0, 32}, {16, 84}},    // an overlap
      {{16, 84}, {0, 16}},    // out of order
      {{0, 100}, {100, 0}},   // an empty one at the end
      {{0, 0}, {0, 100}},     // an empty one at the start
      {{0, 116}},             // beyond the lanes
      {{0, 16}, {16, ~0u}},   // beyond, and wraps around
      {{0, 100}, {0, 100}},   // twice
      {{0, 100}, {100, 16}},  // more than all
      {{0, ~0u}},             // far beyond
  };
  for (std::size_t i = 0; i < bad.size(); ++i) {
    Case test(kMax, 3);
    for (const auto& [first, count] : bad[i]) test.add(first, count);
    const Status status = test.check();
    ASSERT_FALSE(status.has_value()) << "case " << i;
    EXPECT_EQ(status.error().code, Code::malformed);
    EXPECT_NE(std::string(status.error().what).find("cover"), std::string::npos) << i;
  }
}

TEST(CheckAnswer, RefusesAPartThatSplitsAGrain) {
  for (const std::uint32_t border : {1u, 8u, 15u, 17u, 99u}) {
    Case test(kMax, 3);
    test.add(0, border);
    test.add(border, 100 - border);
    expect_malformed(test, "grain");
  }
}

TEST(CheckAnswer, AListAndARoundWithoutGrainHaveOnePart) {
  Reduction no_grain = kMax;
  no_grain.grain = 0;
  Reduction blocks{.op = Op::block_sum, .bits = 8, .count = 100, .grain = 16};
  for (const Reduction& what : {kGather, no_grain, blocks}) {
    Case test(what, 3);
    test.add(0, 16);
    test.add(16, 84);
    expect_malformed(test, "grain");
  }
}

TEST(CheckAnswer, RefusesContributorsBeyondTheWorkers) {
  for (const std::uint32_t n : {1u, 3u, 63u, 64u, 65u, 4095u}) {
    Case test(kMax, n);
    std::vector<std::uint64_t> words(worker_words(n), 1);
    test.parts.push_back({0, 100, {words}});
    EXPECT_TRUE(test.check().has_value()) << n;
    words.push_back(0);
    test.parts[0].from = {words};
    expect_malformed(test, "beyond");
    words.resize(worker_words(n));
    test.parts[0].from = {std::span(words).subspan(1)};
    expect_malformed(test, "beyond");
    if (n % 64 == 0) continue;
    words.back() |= std::uint64_t{1} << (n % 64);
    test.parts[0].from = {words};
    expect_malformed(test, "beyond");
  }
}

TEST(CheckAnswer, RefusesAPartThatNobodyStandsBehind) {
  Case test(kMax, 70);
  const WorkerSet nobody(70);
  test.parts.push_back({0, 16, test.everyone.view()});
  test.parts.push_back({16, 84, nobody.view()});
  expect_malformed(test, "without contributors");
  test.parts[1].from = {};
  expect_malformed(test, "beyond");
}

TEST(CheckAnswer, RefusesContributorsOtherThanTheOnesTheRoundNamed) {
  WorkerSet named(70);
  named.insert(1);
  named.insert(69);
  Case test(kMax, 70);
  test.round.only = named.view();
  test.parts.push_back({0, 100, named.view()});
  EXPECT_TRUE(test.check().has_value());
  WorkerSet fewer = named;
  fewer.erase(69);
  WorkerSet other = fewer;
  other.insert(2);
  for (const WorkerSet& wrong : {fewer, other, test.everyone}) {
    test.parts[0].from = wrong.view();
    const Status status = test.check();
    ASSERT_FALSE(status.has_value());
    EXPECT_EQ(status.error().code, Code::malformed);
  }
}

}  // namespace
}  // namespace sluice
