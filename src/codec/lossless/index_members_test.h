// Workers that agree on an index by hand, and what they may have.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "codec/lossless/index.h"
#include "tests/support/courier.h"
#include "tests/support/guarded.h"

namespace sluice::lossless::test {

using support::Bytes;
using support::GuardedMemory;
using Marks = std::vector<std::uint64_t>;

inline constexpr std::uint64_t kKey = 0x5eed;

// ---- Supports.

inline void set_if(Marks& marks, std::uint32_t i, bool there) {
  if (there) bitmaps::set(marks, i);
}

inline Marks scattered(std::uint32_t count, double density, std::uint64_t seed) {
  Marks marks(bitmaps::words_for(count));
  for (std::uint32_t i = 0; i < count; ++i) {
    set_if(marks, i, static_cast<double>(mix(seed, i) >> 11) * 0x1p-53 < density);
  }
  return marks;
}

inline Marks only_at(std::uint32_t count, const std::vector<std::uint32_t>& positions) {
  Marks marks(bitmaps::words_for(count));
  for (const std::uint32_t position : positions) bitmaps::set(marks, position);
  return marks;
}

struct Support {
  std::string name;
  std::vector<Marks> marks;  // by worker
};

// Nothing, everything, single keys at the ends, and keys of few and of many workers.
inline std::vector<Support> supports_of(std::uint32_t count, std::uint32_t workers) {
  const Marks none(bitmaps::words_for(count));
  Marks all = none;
  bitmaps::fill(count, all);
  std::vector<Support> supports{
      {"empty", {}},     {"full", {}},   {"one full", {}},    {"first", {}},    {"last", {}},
      {"identical", {}}, {"sparse", {}}, {"independent", {}}, {"disjoint", {}}, {"clustered", {}}};
  for (std::uint32_t w = 0; w < workers; ++w) {
    Marks disjoint = none;
    Marks clustered = none;
    for (std::uint32_t i = 0; i < count; ++i) {
      set_if(disjoint, i, i % 10 == 0 && i / 10 % workers == w);
      set_if(clustered, i, mix(w, i / 37) % 50 == 0);
    }
    const bool is_last = w == workers - 1;
    const std::vector<Marks> each{none,
                                  all,
                                  is_last ? all : none,
                                  is_last ? only_at(count, {0}) : none,
                                  w == 0 ? only_at(count, {count - 1}) : none,
                                  scattered(count, 0.05, 1),
                                  scattered(count, 0.002, w),
                                  scattered(count, 0.1, w),
                                  disjoint,
                                  clustered};
    for (std::size_t i = 0; i < each.size(); ++i) supports[i].marks.push_back(each[i]);
  }
  return supports;
}

inline Marks union_of(const std::vector<Marks>& marks, Workers from) {
  Marks all(marks[0].size());
  for (std::uint32_t w = 0; w < marks.size(); ++w) {
    for (std::size_t i = 0; i < all.size() && from.has(w); ++i) all[i] |= marks[w][i];
  }
  return all;
}

// ---- Workers whose rounds are carried by hand.

class IndexMember {
 public:
  // With canaries around all memory, and in it something that no other worker has.
  IndexMember(const Extent& extent, bool lists)
      : place_(size_of(extent, lists), GuardedMemory::Borders::canaries),
        arena_({}, filled(place_.bytes(), extent.rank)),
        index_(extent, kKey, arena_, lists) {}
  Index& index() { return index_; }
  [[nodiscard]] bool intact() const { return place_.intact(); }

 private:
  static std::size_t size_of(const Extent& extent, bool lists) {
    Arena measuring;
    const Index index(extent, kKey, measuring, lists);
    EXPECT_EQ(measuring.host_used(), 0u);
    return measuring.place_used();
  }
  static std::span<std::byte> filled(std::span<std::byte> bytes, std::uint32_t rank) {
    std::ranges::fill(bytes, static_cast<std::byte>(rank % 2 == 0 ? rank : 255 - rank));
    return bytes;
  }
  GuardedMemory place_;
  Arena arena_;
  Index index_;
};

struct IndexOutcome {
  Marks marks;
  std::size_t legs = 0;
  std::size_t up_bytes = 0;  // of all legs, the largest of all workers
  bool gathered = false;
};

struct IndexCase {
  Tensor tensor;
  std::uint64_t offset = 0;
  std::uint32_t count = 0;
  IndexPlan plan;
};

inline IndexCase flat(std::uint32_t count, const IndexPlan& plan) {
  return {{1, 1, count}, 0, count, plan};
}

// What a sample that sees everything would say.
inline Outlook outlook_of(const IndexCase& what, const std::vector<Marks>& marks, Workers from) {
  Outlook outlook;
  outlook.count = what.count;
  outlook.workers = from.count();
  for (std::uint32_t w = 0; w < marks.size(); ++w) {
    if (from.has(w)) outlook.total += static_cast<double>(bitmaps::count(marks[w]));
  }
  outlook.keys = std::max(1.0, static_cast<double>(bitmaps::count(union_of(marks, from))));
  outlook.keys_min = 1;
  outlook.keys_max = what.count;
  return outlook;
}

class IndexMembers {
 public:
  IndexMembers(const IndexCase& what, const std::vector<Marks>& marks, const WorkerSet& from,
               bool lists)
      : from_(from), marks_(marks), courier_(static_cast<std::uint32_t>(marks.size())) {
    const auto n = static_cast<std::uint32_t>(marks.size());
    IndexPlan plan = what.plan;
    for (std::uint32_t rank = 0; rank < n; ++rank) {
      if (!from.view().has(rank)) std::ranges::fill(marks_[rank], 0u);
      plan.each_max =
          std::max(plan.each_max, static_cast<std::uint32_t>(bitmaps::count(marks_[rank])));
    }
    for (std::uint32_t rank = 0; rank < n; ++rank) {
      members_.push_back(std::make_unique<IndexMember>(
          Extent{what.tensor, what.offset, what.count, rank, n}, lists));
      index(rank).begin(plan, outlook_of(what, marks_, from.view()), marks_[rank]);
    }
  }
  Index& index(std::uint32_t rank) { return members_[rank]->index(); }
  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(members_.size()); }

  // Everybody's round of this leg, which are alike; keeps the answer of all.
  void ask(IndexOutcome& outcome) {
    rounds_.clear();
    for (std::uint32_t rank = 0; rank < size(); ++rank) {
      ASSERT_FALSE(index(rank).is_complete());
      rounds_.push_back({index(rank).ask(from_.view())});
      ASSERT_TRUE(rounds_[rank][0].only == from_.view());
    }
    std::vector<support::Went> log;
    answers_ = courier_.carry(rounds_, log);
    answer_ = log[0].down;
    outcome.up_bytes += std::ranges::max(log[0].ups, {}, &Bytes::size).size();
    outcome.gathered = outcome.gathered || what().op == Op::gather;
    ++outcome.legs;
  }
  Status take(std::uint32_t rank, const Bytes& answer) {
    const Round& round = rounds_[rank][0];
    const Answer laid = support::laid_down(round, answer, answers_[rank][0].parts);
    const Status right = check_answer(round, laid, size());
    return right ? index(rank).take(laid, from_.view().has(rank)) : right;
  }
  IndexOutcome run() {
    IndexOutcome outcome;
    while (!index(0).is_complete() && !::testing::Test::HasFatalFailure()) {
      ask(outcome);
      for (std::uint32_t rank = 0; rank < size(); ++rank) {
        const Status status = take(rank, answer_);
        EXPECT_TRUE(status.has_value()) << status.error().what;
        if (!status) return outcome;
      }
    }
    outcome.marks.assign(index(0).marks().begin(), index(0).marks().end());
    for (std::uint32_t rank = 0; rank < size(); ++rank) {
      EXPECT_TRUE(index(rank).is_complete());
      EXPECT_TRUE(std::ranges::equal(index(rank).marks(), outcome.marks)) << rank;
      EXPECT_TRUE(members_[rank]->intact()) << rank;
    }
    return outcome;
  }
  [[nodiscard]] const Reduction& what() const { return rounds_[0][0].what; }
  [[nodiscard]] const Bytes& answer() const { return answer_; }

 private:
  WorkerSet from_;
  std::vector<Marks> marks_;
  std::vector<std::unique_ptr<IndexMember>> members_;
  support::Courier courier_;
  std::vector<std::vector<Round>> rounds_;  // by rank
  std::vector<std::vector<Answer>> answers_;
  Bytes answer_;
};

inline IndexOutcome run(const IndexCase& what, const std::vector<Marks>& marks,
                        bool lists = false) {
  const WorkerSet all = WorkerSet::all(static_cast<std::uint32_t>(marks.size()));
  IndexMembers members(what, marks, all, lists);
  return members.run();
}

}  // namespace sluice::lossless::test
