#include "carrier/local/local.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "carrier/local/local_test.h"

namespace sluice::local {
namespace {

TEST(LocalWorld, OptionsOutOfRangeAreNamedWithTheRange) {
  const auto refused = [](const WorldOptions& options, const std::vector<std::string>& mentioned,
                          const std::vector<std::uint32_t>& order = {}) {
    const auto world = make_world(options, {.order = order});
    ASSERT_FALSE(world.has_value());
    EXPECT_EQ(world.error().code, Code::invalid_argument);
    for (const std::string& one : mentioned) {
      EXPECT_NE(world.error().message.find(one), std::string::npos) << world.error().message;
    }
  };
  WorldOptions options;
  options.workers = 0;
  refused(options, {"0 workers", "1 to 4096"});
  options.workers = 4097;
  refused(options, {"4097 workers", "1 to 4096"});
  options.workers = 3;
  options.window = 0;
  refused(options, {"window 0", "1 to 1024"});
  options.window = 1025;
  refused(options, {"window 1025", "1 to 1024"});
  options.workers = 4096;
  options.window = 33;
  refused(options, {"4096 workers", "window of 33", "131072", "window of 32"});
  options.workers = 129;
  options.window = 1024;
  refused(options, {"129 workers", "window of 1024", "window of 1016"});
  options.workers = 3;
  options.window = 1;
  for (const auto& order :
       {std::vector<std::uint32_t>{0}, {0, 1}, {0, 1, 1}, {1, 2, 3}, {0, 1, 2, 3}}) {
    refused(options, {"order", "3 workers"}, order);
  }
  EXPECT_TRUE(make_world(options, {.order = {2, 0, 1}}).has_value());
}

TEST(LocalWorld, EveryWorkerIsHereAndMeetsNobodyElse) {
  for (const std::uint32_t n : {1u, 3u, 4096u}) {
    const auto world = world_of(n);
    const auto here = world->here();
    ASSERT_EQ(here.size(), n);
    for (std::uint32_t rank = 0; rank < n; ++rank) ASSERT_EQ(here[rank], rank);
    std::array<double, 2> values{1.5, -2};
    EXPECT_TRUE(world->meet(values).has_value());
    EXPECT_EQ(values, (std::array<double, 2>{1.5, -2}));
    std::array<float, 1> sums{3};
    const Verdict summed = world->plain_sum(sums);
    ASSERT_FALSE(summed.has_value());
    EXPECT_EQ(summed.error().code, Code::unavailable);
    EXPECT_NE(summed.error().message.find("local"), std::string::npos);
    EXPECT_EQ(sums[0], 3);
  }
}

TEST(LocalWorld, ACarrierOfOneAnswersItself) {
  const auto world = world_of(1);
  LegByHand seat = sum_seat(1, 20, 5);
  const Ticket ticket{0, 1};
  ASSERT_TRUE(world->port(0).post(ticket, {}, seat.rounds).has_value());
  const auto answers = world->port(0).take(ticket);
  ASSERT_TRUE(answers.has_value());
  ASSERT_EQ(answers->size(), 1u);
  EXPECT_EQ((*answers)[0].down.data(), seat.rounds[0].down.data()) << "laid into Round::down";
  EXPECT_EQ(Bytes((*answers)[0].down.begin(), (*answers)[0].down.end()), *seat.ups[0]);
}

TEST(LocalWorld, UpTo64ThreadsRunManyExchangesOfManySteps) {
  for (const std::uint32_t n : {1u, 2u, 3u, 8u, 31u, 64u}) {
    const auto world = world_of(n);
    std::atomic<int> wrong{0};
    on_threads(n, [&](std::uint32_t rank) {
      for (std::uint64_t sequence = 0; sequence < 40; ++sequence) {
        for (std::uint32_t leg = 0; leg < 1 + sequence % 3; ++leg) {
          const auto base = static_cast<std::uint32_t>(1000 * sequence + std::uint64_t{100} * leg);
          LegByHand seat = sum_seat(n, 16, base + rank);
          const Ticket ticket{sequence, 77};
          if (!world->port(rank).post(ticket, {}, seat.rounds)) ++wrong;
          const auto answers = await(world->port(rank), ticket);
          if (!answers || answers->size() != 1) {
            ++wrong;
            return;
          }
          for (std::uint32_t i = 0; i < 16; ++i) {
            if (lane((*answers)[0], i) != n * (base + i) + n * (n - 1) / 2) ++wrong;
          }
        }
      }
    });
    EXPECT_EQ(wrong, 0) << n;
  }
}

TEST(LocalWorld, ExchangesInFlightMayBePostedAndTakenInDifferentOrders) {
  const std::uint32_t n = 12;
  const std::uint32_t window = 5;
  const auto world = world_of(n, window);
  std::atomic<int> wrong{0};
  on_threads(n, [&](std::uint32_t rank) {
    std::mt19937 random(rank);
    for (std::uint64_t batch = 0; batch < 30; ++batch) {
      std::vector<std::uint64_t> order(window);
      std::iota(order.begin(), order.end(), batch * window);
      std::shuffle(order.begin(), order.end(), random);
      std::vector<LegByHand> seats(window);
      for (const std::uint64_t sequence : order) {
        LegByHand& seat = seats[sequence % window];
        seat = sum_seat(n, 8, static_cast<std::uint32_t>(sequence * 100 + rank));
        if (!world->port(rank).post({sequence, sequence}, {}, seat.rounds)) ++wrong;
      }
      std::shuffle(order.begin(), order.end(), random);
      for (const std::uint64_t sequence : order) {
        const auto answers = await(world->port(rank), {sequence, sequence});
        const auto wanted = static_cast<std::uint32_t>(n * sequence * 100 + n * (n - 1) / 2);
        if (!answers || lane((*answers)[0], 0) != wanted) ++wrong;
      }
    }
  });
  EXPECT_EQ(wrong, 0);
}

TEST(LocalWorld, AnAnswerStaysWhileOthersAreAStepAhead) {
  const auto world = world_of(2);
  const Ticket ticket{3, 1};
  std::array first{sum_seat(2, 8, 10), sum_seat(2, 8, 20)};
  std::array second{sum_seat(2, 8, 100), sum_seat(2, 8, 200)};
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    ASSERT_TRUE(world->port(rank).post(ticket, {}, first[rank].rounds).has_value());
  }
  const auto slow = world->port(0).take(ticket);
  ASSERT_TRUE(slow.has_value());
  ASSERT_TRUE(world->port(1).take(ticket).has_value());
  ASSERT_TRUE(world->port(1).post(ticket, {}, second[1].rounds).has_value());
  EXPECT_EQ(world->port(1).take(ticket).error().code, Code::pending);
  EXPECT_EQ(lane((*slow)[0], 0), 30u);
  EXPECT_EQ((*slow)[0].parts[0].from.count(), 2u);
  ASSERT_TRUE(world->port(0).post(ticket, {}, second[0].rounds).has_value());
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(lane((*world->port(rank).take(ticket))[0], 0), 300u);
  }
}

TEST(LocalWorld, ClosingWakesWhoeverWaits) {
  const auto world = world_of(2);
  std::array seats{sum_seat(2, 8, 1), sum_seat(2, 8, 2)};
  ASSERT_TRUE(world->port(0).post({0, 5}, {}, seats[0].rounds).has_value());
  std::thread other([&] { EXPECT_TRUE(world->port(1).post({0, 5}, {}, seats[1].rounds)); });
  EXPECT_TRUE(world->port(0).wait(kLong).has_value());
  EXPECT_TRUE(world->port(0).take({0, 5}).has_value());
  other.join();
  EXPECT_GE(world->combine_seconds(), 0.0);
}

}  // namespace
}  // namespace sluice::local
