#include "carrier/local/meeting.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/bytes.h"

namespace sluice::local {
namespace {

using Bytes = std::vector<std::byte>;

Bytes words(const std::vector<std::uint32_t>& values) {
  Bytes bytes(4 * values.size());
  for (std::size_t i = 0; i < values.size(); ++i) store_le(std::span(bytes), 4 * i, values[i]);
  return bytes;
}

constexpr Reduction kSum{.op = Op::wrap_sum, .bits = 32, .count = 24, .grain = 8};

// All workers' rounds for one leg; worker r sends r + 1 in every lane.
struct Table {
  explicit Table(std::uint32_t n, const Reduction& reduction = kSum) : rounds(n), downs(n) {
    for (std::uint32_t rank = 0; rank < n; ++rank) {
      ups.push_back(words(std::vector<std::uint32_t>(reduction.count, rank + 1)));
      downs[rank].resize(down_size_max(reduction, n));
      rounds[rank] = {{reduction, ups[rank], downs[rank], {}}};
    }
  }
  // Everybody posts; the last one closes.
  void hold(Meeting& meeting, std::uint64_t generation, const Arrangement& arrangement = {},
            std::uint32_t leg = 0) {
    for (std::uint32_t rank = 0; rank < rounds.size(); ++rank) {
      const Ticket ticket{tickets.empty() ? Ticket{7, 9} : tickets[rank]};
      const bool last = meeting.post(rank, generation, ticket, rounds[rank]);
      ASSERT_EQ(last, rank + 1 == rounds.size());
      ASSERT_FALSE(meeting.is_closed(generation));
    }
    meeting.close(arrangement, leg);
    ASSERT_TRUE(meeting.is_closed(generation));
  }

  std::vector<std::vector<Round>> rounds;
  std::vector<Bytes> ups;
  std::vector<Bytes> downs;
  std::vector<Ticket> tickets;
};

std::vector<std::uint32_t> sums_of(const Meeting& meeting, std::size_t round = 0) {
  std::vector<std::uint32_t> sums;
  for (std::size_t at = 0; at < meeting.down(round).size(); at += 4) {
    sums.push_back(load_le<std::uint32_t>(meeting.down(round), at));
  }
  return sums;
}

std::string text(const Workers& from, std::uint32_t n) {
  std::string ranks;
  for (std::uint32_t rank = 0; rank < n; ++rank) ranks += from.has(rank) ? '1' : '0';
  return ranks;
}

TEST(Meeting, TheLastToPostClosesAndAllAreCounted) {
  for (const std::uint32_t n : {1u, 2u, 5u, 64u, 65u}) {
    Meeting meeting(n);
    Table table(n);
    table.hold(meeting, 1);
    EXPECT_EQ(meeting.error().code, Code::ok);
    EXPECT_EQ(sums_of(meeting), std::vector<std::uint32_t>(24, n * (n + 1) / 2));
    ASSERT_EQ(meeting.parts(0).size(), 1u);
    EXPECT_EQ(meeting.parts(0)[0].count, 24u);
    EXPECT_EQ(meeting.parts(0)[0].from.count(), n);
  }
}

TEST(Meeting, IsUsedAgainForLaterGenerations) {
  Meeting meeting(3);
  Table small(3);
  Reduction wide = kSum;
  wide.count = 1000;
  Table large(3, wide);
  for (std::uint64_t generation = 1; generation < 20; generation += 2) {
    Table& table = generation % 4 == 1 ? small : large;
    table.hold(meeting, generation);
    EXPECT_FALSE(meeting.is_closed(generation + 1));
    EXPECT_EQ(sums_of(meeting), std::vector<std::uint32_t>(generation % 4 == 1 ? 24 : 1000, 6));
  }
}

TEST(Meeting, SeveralRoundsAreReducedEachByItself) {
  Meeting meeting(2);
  Table table(2);
  Reduction max{.op = Op::max, .bits = 32, .count = 24};
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    table.rounds[rank].push_back({max, table.ups[rank], table.downs[rank], {}});
  }
  table.hold(meeting, 1);
  EXPECT_EQ(sums_of(meeting, 0), std::vector<std::uint32_t>(24, 3));
  EXPECT_EQ(sums_of(meeting, 1), std::vector<std::uint32_t>(24, 2));
}

TEST(Meeting, LostContributionsSplitTheAnswerWhereContributorsChange) {
  Meeting meeting(3);
  Table table(3);
  Arrangement arrangement;
  arrangement.lost = [](const Arrival& arrival) {
    EXPECT_EQ(arrival.sequence, 7u);
    EXPECT_EQ(arrival.leg, 5u);
    EXPECT_EQ(arrival.round, 0u);
    return arrival.rank == 1 && arrival.grain == 2;
  };
  table.hold(meeting, 1, arrangement, 5);
  const auto parts = meeting.parts(0);
  ASSERT_EQ(parts.size(), 2u) << "equal neighbours are one part";
  EXPECT_EQ(parts[0].first, 0u);
  EXPECT_EQ(parts[0].count, 16u);
  EXPECT_EQ(text(parts[0].from, 3), "111");
  EXPECT_EQ(parts[1].first, 16u);
  EXPECT_EQ(parts[1].count, 8u);
  EXPECT_EQ(text(parts[1].from, 3), "101");
  std::vector<std::uint32_t> wanted(24, 6);
  std::fill(wanted.begin() + 16, wanted.end(), 4);
  EXPECT_EQ(sums_of(meeting), wanted);
}

TEST(Meeting, EveryGrainMayHaveItsOwnContributors) {
  Reduction what = kSum;
  what.count = 8 * 70 + 3;
  Meeting meeting(70);
  Table table(70, what);
  Arrangement arrangement;
  arrangement.lost = [](const Arrival& arrival) { return arrival.rank == arrival.grain; };
  table.hold(meeting, 1, arrangement);
  const auto parts = meeting.parts(0);
  ASSERT_EQ(parts.size(), 71u);
  for (std::uint32_t grain = 0; grain < 71; ++grain) {
    EXPECT_EQ(parts[grain].first, 8 * grain);
    EXPECT_EQ(parts[grain].count, grain == 70 ? 3u : 8u);
    EXPECT_EQ(parts[grain].from.count(), grain == 70 ? 70u : 69u);
    EXPECT_EQ(sums_of(meeting)[8 * grain], 70 * 71 / 2 - (grain == 70 ? 0 : grain + 1));
  }
}

TEST(Meeting, WhenNobodyIsCountedTheContributionsAreLost) {
  Meeting meeting(3);
  Table table(3);
  Arrangement arrangement;
  arrangement.lost = [](const Arrival& arrival) { return arrival.grain == 1; };
  table.hold(meeting, 1, arrangement);
  EXPECT_EQ(meeting.error().code, Code::lost);
  arrangement.lost = nullptr;
  table.hold(meeting, 3, arrangement);
  EXPECT_EQ(meeting.error().code, Code::ok) << "an error is of one generation";
}

TEST(Meeting, ARoundThatNamesItsWorkersCountsExactlyThoseAndLosesNone) {
  Meeting meeting(70);
  Table table(70);
  WorkerSet some(70);
  some.insert(3);
  some.insert(66);
  for (auto& rounds : table.rounds) rounds[0].only = some.view();
  Arrangement arrangement;
  bool asked = false;
  arrangement.lost = [&asked](const Arrival&) { return asked = true; };
  table.hold(meeting, 1, arrangement);
  EXPECT_FALSE(asked);
  EXPECT_EQ(sums_of(meeting), std::vector<std::uint32_t>(24, 4 + 67));
  ASSERT_EQ(meeting.parts(0).size(), 1u);
  EXPECT_TRUE(meeting.parts(0)[0].from == some.view());
}

TEST(Meeting, ARoundThatNamesNobodyIsLost) {
  Meeting meeting(2);
  Table table(2);
  const WorkerSet nobody(2);
  for (auto& rounds : table.rounds) rounds[0].only = nobody.view();
  table.hold(meeting, 1);
  EXPECT_EQ(meeting.error().code, Code::lost);
}

void expect_mismatch(Table& table, const std::vector<std::string>& mentioned) {
  Meeting meeting(static_cast<std::uint32_t>(table.rounds.size()));
  table.hold(meeting, 1);
  EXPECT_EQ(meeting.error().code, Code::mismatch);
  for (const std::string& one : mentioned) {
    EXPECT_NE(meeting.complaint().find(one), std::string::npos) << meeting.complaint();
  }
}

TEST(Meeting, WorkersAtDifferentExchangesAreBothNamed) {
  Table table(4);
  table.tickets = {{7, 9}, {7, 9}, {8, 9}, {7, 9}};
  expect_mismatch(table, {"worker 0", "exchange 7", "worker 2", "exchange 8"});
  table.tickets[2] = {7, 0xabc};
  expect_mismatch(table, {"worker 0", "0000000000000009", "worker 2", "0000000000000abc"});
  table.tickets.clear();
  table.rounds[3].push_back(table.rounds[3][0]);
  expect_mismatch(table, {"worker 0", "1 rounds", "worker 3", "2 rounds"});
}

TEST(Meeting, WorkersWithDifferentReductionsAreBothNamed) {
  Table table(3);
  table.rounds[1][0].what.op = Op::max;
  expect_mismatch(table, {"round 0", "worker 0", "wrap_sum{32}", "worker 1", "max{32}"});
  table.rounds[1][0].what = kSum;
  table.rounds[1][0].what.grain = 16;
  expect_mismatch(table, {"worker 0", "grain 8", "worker 1", "grain 16"});
}

TEST(Meeting, WorkersWithDifferentTablesAreToldApartByDigest) {
  const std::vector<std::uint16_t> first{0, 1};
  const std::vector<std::uint16_t> second{0, 2};
  Reduction what{.op = Op::lane_sum, .bits = 1, .count = 8, .table = first};
  Table table(2, what);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    table.rounds[rank][0].up = std::span(table.ups[rank]).first(1);
  }
  table.rounds[1][0].what.table = second;
  Reduction other = what;
  other.table = second;
  const auto digest = [](const Reduction& of) {
    const std::string digits = "0123456789abcdef";
    std::string shown;
    for (int shift = 60; shift >= 0; shift -= 4) shown += digits[digest_of(of) >> shift & 15];
    return shown;
  };
  expect_mismatch(table, {digest(what), digest(other)});
}

TEST(Meeting, WorkersThatNameDifferentContributorsAreTold) {
  Table table(3);
  const WorkerSet all = WorkerSet::all(3);
  WorkerSet some = all;
  some.erase(1);
  for (auto& rounds : table.rounds) rounds[0].only = all.view();
  table.rounds[2][0].only = some.view();
  Meeting meeting(3);
  table.hold(meeting, 1);
  EXPECT_EQ(meeting.error().code, Code::mismatch);
  const std::string& complaint = meeting.complaint();
  const std::size_t middle = complaint.find(", worker 2 for ");
  ASSERT_NE(middle, std::string::npos) << complaint;
  const std::string mine = complaint.substr(complaint.find("asks for ") + 9);
  EXPECT_NE(mine.substr(0, mine.find(", worker 2 for ")), complaint.substr(middle + 15))
      << "the two sides read alike";
}

TEST(Meeting, BytesUpOfTheWrongSizeAreMalformed) {
  Meeting meeting(2);
  Table table(2);
  table.rounds[1][0].up = std::span(table.ups[1]).first(95);
  table.hold(meeting, 1);
  EXPECT_EQ(meeting.error().code, Code::malformed);
}

TEST(Meeting, AReductionThatCannotBeIsRefused) {
  Meeting meeting(2);
  Table table(2);
  for (auto& rounds : table.rounds) rounds[0].what.bits = 25;
  table.hold(meeting, 1);
  EXPECT_EQ(meeting.error().code, Code::invalid_argument);
}

TEST(Meeting, MissingRanksAreCountedAndNamed) {
  Meeting meeting(5);
  Table table(5);
  EXPECT_EQ(meeting.missing(1), "waiting for 5 of 5 workers: 0, 1, 2, 3, 4");
  for (const std::uint32_t rank : {0u, 3u}) {
    EXPECT_FALSE(meeting.post(rank, 1, {}, table.rounds[rank]));
  }
  EXPECT_EQ(meeting.missing(1), "waiting for 3 of 5 workers: 1, 2, 4");
  for (const std::uint32_t rank : {1u, 2u, 4u}) {
    EXPECT_EQ(meeting.post(rank, 1, {}, table.rounds[rank]), rank == 4);
  }
  EXPECT_EQ(meeting.missing(1), "nobody is missing");
}

TEST(Meeting, AWorkerThatWithdrawsIsMissingAgainAndHoldsTheMeetingOpen) {
  Meeting meeting(3);
  Table table(3);
  EXPECT_FALSE(meeting.post(0, 1, {}, table.rounds[0]));
  EXPECT_FALSE(meeting.post(1, 1, {}, table.rounds[1]));
  meeting.withdraw(0, 1);
  EXPECT_EQ(meeting.missing(1), "waiting for 2 of 3 workers: 0, 2");
  EXPECT_FALSE(meeting.post(2, 1, {}, table.rounds[2])) << "two of three are there";
  EXPECT_FALSE(meeting.is_closed(1));
}

TEST(Meeting, WithdrawingFromAClosedMeetingChangesNothing) {
  Meeting meeting(2);
  Table table(2);
  table.hold(meeting, 1);
  meeting.withdraw(1, 1);
  EXPECT_TRUE(meeting.is_closed(1));
  EXPECT_EQ(sums_of(meeting), std::vector<std::uint32_t>(24, 3));
  table.hold(meeting, 3);
  EXPECT_EQ(sums_of(meeting), std::vector<std::uint32_t>(24, 3)) << "the next one counts afresh";
}

TEST(Meeting, OfManyMissingRanksTheFirstSixteenAreNamed) {
  Meeting meeting(100);
  Table table(100);
  EXPECT_FALSE(meeting.post(0, 1, {}, table.rounds[0]));
  EXPECT_EQ(meeting.missing(1),
            "waiting for 99 of 100 workers: 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, "
            "16, …");
}

}  // namespace
}  // namespace sluice::local
