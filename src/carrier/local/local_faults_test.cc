// Workers that disagree, stay away or lose contributions: every other one is told what and who.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <string>
#include <vector>

#include "carrier/local/local_test.h"

namespace sluice::local {
namespace {

using std::chrono::milliseconds;

TEST(LocalWorld, MismatchesAreToldToEveryRank) {
  const auto world = world_of(3);
  std::array seats{sum_seat(3, 8, 1), sum_seat(3, 8, 1), sum_seat(3, 16, 1)};
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    ASSERT_TRUE(world->port(rank).post({0, 5}, {}, seats[rank].rounds).has_value());
  }
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(world->port(rank).take({0, 5}).error().code, Code::mismatch) << rank;
    const std::string why = world->port(rank).explain({0, 5});
    EXPECT_NE(why.find("worker 0 asks for wrap_sum{32} of 8 lanes"), std::string::npos) << why;
    EXPECT_NE(why.find("worker 2 for wrap_sum{32} of 16 lanes"), std::string::npos) << why;
  }
}

TEST(LocalWorld, DifferentTicketsAreToldToEveryRank) {
  const auto world = world_of(2);
  std::array seats{sum_seat(2, 8, 1), sum_seat(2, 8, 1)};
  ASSERT_TRUE(world->port(0).post({0, 5}, {}, seats[0].rounds).has_value());
  ASSERT_TRUE(world->port(1).post({0, 6}, {}, seats[1].rounds).has_value());
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(world->port(rank).take({0, 5 + rank}).error().code, Code::mismatch) << rank;
    const std::string why = world->port(rank).explain({0, 5 + rank});
    EXPECT_NE(why.find("worker 0"), std::string::npos) << why;
    EXPECT_NE(why.find("worker 1"), std::string::npos) << why;
  }
}

TEST(LocalWorld, AMissingWorkerMakesTheOthersTimeOutAndIsNamed) {
  const auto world = world_of(4);
  std::array seats{sum_seat(4, 8, 1), sum_seat(4, 8, 2)};
  ASSERT_TRUE(world->port(0).post({0, 5}, {}, seats[0].rounds).has_value());
  ASSERT_TRUE(world->port(2).post({0, 5}, {}, seats[1].rounds).has_value());
  const Status waited = world->port(0).wait(milliseconds(1));
  ASSERT_FALSE(waited.has_value());
  EXPECT_EQ(waited.error().code, Code::timeout);
  EXPECT_EQ(world->port(0).take({0, 5}).error().code, Code::pending);
  EXPECT_EQ(world->port(0).explain({0, 5}), "waiting for 2 of 4 workers: 1, 3");
}

TEST(LocalWorld, StepsOfAnExchangeAreCountedForWhoeverLosesContributions) {
  Arrangement arrangement;
  std::vector<Arrival> seen;
  arrangement.lost = [&seen](const Arrival& arrival) {
    seen.push_back(arrival);
    return false;
  };
  const auto world = world_of({.workers = 2}, arrangement);
  for (const std::uint64_t sequence : {0u, 1u, 8u}) {
    for (std::uint32_t leg = 0; leg < 2; ++leg) {
      std::array seats{sum_seat(2, 8, 1), sum_seat(2, 8, 2)};
      seen.clear();
      for (std::uint32_t rank = 0; rank < 2; ++rank) {
        ASSERT_TRUE(world->port(rank).post({sequence, 0}, {}, seats[rank].rounds).has_value());
      }
      ASSERT_EQ(seen.size(), 2u);
      EXPECT_EQ(seen[1].rank, 1u);
      EXPECT_EQ(seen[1].sequence, sequence);
      EXPECT_EQ(seen[1].leg, leg);
      for (std::uint32_t rank = 0; rank < 2; ++rank) {
        ASSERT_TRUE(world->port(rank).take({sequence, 0}).has_value());
      }
    }
  }
}

TEST(LocalWorld, LostContributionsComeAsParts) {
  Arrangement arrangement;
  arrangement.lost = [](const Arrival& arrival) { return arrival.rank == 2 && arrival.grain >= 1; };
  const auto world = world_of({.workers = 3}, arrangement);
  std::array seats{sum_seat(3, 20, 0), sum_seat(3, 20, 100), sum_seat(3, 20, 10000)};
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    ASSERT_TRUE(world->port(rank).post({0, 5}, {}, seats[rank].rounds).has_value());
  }
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    const auto answers = world->port(rank).take({0, 5});
    ASSERT_TRUE(answers.has_value());
    const Answer& answer = (*answers)[0];
    EXPECT_TRUE(check_answer(seats[rank].rounds[0], answer, 3).has_value());
    ASSERT_EQ(answer.parts.size(), 2u);
    EXPECT_EQ(answer.parts[0].from.count(), 3u);
    EXPECT_EQ(answer.parts[1].from.count(), 2u);
    EXPECT_EQ(lane(answer, 7), 10100u + 3 * 7);
    EXPECT_EQ(lane(answer, 8), 100u + 2 * 8);
  }
}

TEST(LocalWorld, WhenNobodyIsCountedEveryRankIsTold) {
  Arrangement arrangement;
  arrangement.lost = [](const Arrival&) { return true; };
  const auto world = world_of({.workers = 2}, arrangement);
  std::array seats{sum_seat(2, 8, 1), sum_seat(2, 8, 2)};
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    ASSERT_TRUE(world->port(rank).post({0, 5}, {}, seats[rank].rounds).has_value());
  }
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(world->port(rank).take({0, 5}).error().code, Code::lost) << rank;
  }
}

}  // namespace
}  // namespace sluice::local
