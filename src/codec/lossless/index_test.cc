#include "codec/lossless/index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "codec/lossless/index_members_test.h"
#include "codec/lossless/support_sample.h"

namespace sluice::lossless::test {
namespace {

constexpr std::uint32_t kCounts[] = {1, 2, 63, 64, 65, 255, 257, 1000, 4099};

// ---- What every kind gives.

void expect_union(const IndexPlan& plan, std::uint32_t count, std::uint32_t workers,
                  bool lists = false) {
  for (const Support& support : supports_of(count, workers)) {
    const IndexOutcome outcome = run(flat(count, plan), support.marks, lists);
    EXPECT_EQ(outcome.marks, union_of(support.marks, WorkerSet::all(workers).view()))
        << support.name << ", " << count << " coordinates, " << workers << " workers";
  }
}

TEST(Index, ABitmapIsTheUnionInOneStep) {
  for (const std::uint32_t count : kCounts) {
    for (const std::uint32_t workers : {1u, 2u, 5u}) {
      expect_union({.kind = IndexKind::bitmap}, count, workers);
    }
  }
  const IndexOutcome outcome = run(flat(1000, {}), supports_of(1000, 3)[7].marks);
  EXPECT_EQ(outcome.legs, 1u);
  EXPECT_EQ(outcome.up_bytes, 125u);
}

TEST(Index, LevelsAreTheUnionFromEveryGranule) {
  for (const std::uint32_t count : kCounts) {
    for (std::uint32_t granule = 1; granule <= 4096; granule *= 4) {
      for (const std::uint32_t leg_bytes : {0u, 128u}) {
        expect_union({.kind = IndexKind::tiers, .granule = granule, .leg_bytes = leg_bytes}, count,
                     3);
      }
    }
  }
}

// A last granule that reaches beyond the chunk is asked about only inside.
TEST(Index, LevelsAskForNoCoordinateThatIsNotThere) {
  const IndexCase what = flat(69, {.kind = IndexKind::tiers, .granule = 64});
  const std::vector<Marks> marks{only_at(69, {0, 68}), only_at(69, {68})};
  IndexMembers members(what, marks, WorkerSet::all(2), false);
  IndexOutcome outcome;
  for (const std::uint32_t asked : {2u, 4u + 1, 4u + 2, 4u + 1}) {
    ASSERT_FALSE(members.index(0).is_complete());
    members.ask(outcome);
    EXPECT_EQ(members.what().count, asked);
    for (const std::uint32_t rank : {0u, 1u}) ASSERT_TRUE(members.take(rank, members.answer()));
  }
  EXPECT_TRUE(members.index(0).is_complete());
}

TEST(Index, LevelsThatMayEndInListsAreTheUnion) {
  for (const std::uint32_t count : kCounts) {
    for (std::uint32_t granule = 1; granule <= 4096; granule *= 4) {
      for (const std::uint32_t workers : {1u, 3u, 9u}) {
        expect_union({.kind = IndexKind::tiers, .granule = granule, .lists_allowed = true}, count,
                     workers);
      }
    }
  }
}

TEST(Index, GatheredPositionsAreTheUnion) {
  for (const std::uint32_t count : kCounts) {
    for (const std::uint32_t workers : {1u, 2u, 5u, 64u}) {
      expect_union({.kind = IndexKind::gather}, count, workers, true);
    }
  }
}

TEST(Index, AFilterIsASupersetOfTheUnion) {
  for (const std::uint32_t count : kCounts) {
    for (const Support& support : supports_of(count, 3)) {
      for (const BloomShape shape : {bloom_shape(count, count / 20.0, 32), BloomShape{64, 3},
                                     BloomShape{std::max(64u, count), 1}}) {
        const IndexCase what = flat(count, {.kind = IndexKind::bloom, .bloom = shape});
        const IndexOutcome outcome = run(what, support.marks);
        EXPECT_TRUE(
            bitmaps::is_subset(union_of(support.marks, WorkerSet::all(3).view()), outcome.marks))
            << support.name << ", " << count;
        Marks trimmed = outcome.marks;
        bitmaps::trim(count, trimmed);
        EXPECT_EQ(outcome.marks, trimmed);
        EXPECT_EQ(outcome.up_bytes, (shape.bits + 7) / 8);
      }
    }
  }
}

TEST(Index, EverythingNeedsNoStep) {
  for (const std::uint32_t count : kCounts) {
    IndexMember member({{1, 1, count}, 0, count, 0, 2}, false);
    member.index().begin_with_all();
    EXPECT_TRUE(member.index().is_complete());
    Marks all(bitmaps::words_for(count));
    bitmaps::fill(count, all);
    EXPECT_TRUE(std::ranges::equal(member.index().marks(), all)) << count;
  }
}

// Rows of any length that begin before the chunk and end behind it.
TEST(Index, RowsAreTheUnionOrAllOfTheRowsThatHaveAny) {
  for (const std::uint64_t cols : {8u, 37u, 64u, 100u, 200u}) {
    for (const std::uint64_t offset : {std::uint64_t{0}, cols / 2, 3 * cols - 1}) {
      for (const std::uint32_t count : {200u, 256u, 1000u, 4099u}) {
        const Tensor tensor{1, 1000, cols};
        ASSERT_TRUE(has_rows({tensor, offset, count, 0, 3}));
        for (const Support& support : supports_of(count, 3)) {
          const Marks wanted = union_of(support.marks, WorkerSet::all(3).view());
          std::vector<bool> has_any(1 + (offset + count) / cols);
          for (std::uint32_t i = 0; i < count; ++i) {
            if (bitmaps::has(wanted, i)) has_any[(offset + i) / cols] = true;
          }
          Marks rows(wanted.size());
          for (std::uint32_t i = 0; i < count; ++i) set_if(rows, i, has_any[(offset + i) / cols]);
          IndexCase what{tensor, offset, count, {.kind = IndexKind::rows}};
          EXPECT_EQ(run(what, support.marks).marks, wanted) << support.name << ", rows of " << cols;
          what.plan.whole_rows = true;
          EXPECT_EQ(run(what, support.marks).marks, rows) << support.name << ", rows of " << cols;
        }
      }
    }
  }
}

TEST(Index, OnlyCountedWorkersAreInIt) {
  constexpr std::uint32_t kWorkers = 70;  // more than a word of them
  WorkerSet from = WorkerSet::all(kWorkers);
  for (const std::uint32_t missing : {0u, 5u, 66u}) from.erase(missing);
  std::vector<Marks> marks;
  for (std::uint32_t w = 0; w < kWorkers; ++w) marks.push_back(only_at(1000, {w, 10 * w + 7}));
  for (const IndexPlan& plan :
       {IndexPlan{.kind = IndexKind::bitmap}, IndexPlan{.kind = IndexKind::tiers, .granule = 64},
        IndexPlan{.kind = IndexKind::gather}}) {
    IndexMembers members(flat(1000, plan), marks, from, true);
    EXPECT_EQ(members.run().marks, union_of(marks, from.view()));
  }
}

// ---- What it costs.

TEST(Index, LevelsTakeAsManyBytesAsPredicted) {
  constexpr std::uint32_t kCount = 1u << 17;
  for (const double density : {0.001, 0.01, 0.05, 0.2}) {
    std::vector<Marks> marks;
    for (std::uint64_t w = 0; w < 2; ++w) marks.push_back(scattered(kCount, density / 2, w));
    IndexCase what = flat(kCount, {.kind = IndexKind::tiers});
    const WorkerSet all = WorkerSet::all(2);
    const Outlook outlook = outlook_of(what, marks, all.view());
    what.plan.granule = first_granule(outlook, 0);
    const IndexOutcome outcome = run(what, marks);
    const double predicted = tiers_cost(outlook, what.plan.granule, -1, 0);
    EXPECT_NEAR(static_cast<double>(outcome.up_bytes) / predicted, 1, 0.03) << density;
  }
}

// Keys that hardly overlap, of few workers, in few granules: lists are shorter than more levels.
TEST(Index, LevelsEndInListsWhereThosePay) {
  constexpr std::uint32_t kCount = 1u << 16;
  const std::vector<Marks> marks{only_at(kCount, {5, 70, 40'000}), only_at(kCount, {80, 50'001})};
  const IndexPlan plan{
      .kind = IndexKind::tiers, .granule = 256, .lists_allowed = true, .leg_bytes = 128};
  const IndexOutcome outcome = run(flat(kCount, plan), marks);
  EXPECT_TRUE(outcome.gathered);
  EXPECT_EQ(outcome.legs, 2u);
  EXPECT_EQ(bitmaps::count(outcome.marks), 5u);
  const std::vector<Marks> dense(8, scattered(kCount, 0.2, 1));
  EXPECT_FALSE(run(flat(kCount, plan), dense).gathered) << "the same keys eight times";
}

// What a round may fill lies in the memory that was measured, whatever the sizes.
TEST(Index, TheAnswersOfListsFitTheMemory) {
  for (const std::uint32_t workers : {2u, 64u, 1000u}) {
    const WorkerSet all = WorkerSet::all(workers);
    for (std::uint32_t count = 1; count <= 130; count += count < 20 ? 1 : 11) {
      for (std::uint32_t each = 1; each <= count; ++each) {
        const Marks own = only_at(count, {count - 1});
        IndexMember member({{1, 1, count}, 0, count, 0, workers}, true);
        Outlook outlook;
        outlook.count = count;
        member.index().begin({.kind = IndexKind::gather, .each_max = each}, outlook, own);
        const Round round = member.index().ask(all.view());
        ASSERT_GE(round.down.size(), down_size_max(round.what, workers));
        std::ranges::fill(round.down, std::byte{0xff});
        ASSERT_TRUE(member.intact()) << workers << " workers, " << each << " of " << count;
      }
    }
  }
}

}  // namespace
}  // namespace sluice::lossless::test
