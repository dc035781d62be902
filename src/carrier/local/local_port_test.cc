// What one port accepts, refuses and gives up.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "carrier/local/local_test.h"
#include "device/bench.h"

namespace sluice::local {
namespace {

TEST(LocalPort, PostingTwiceOrBeyondTheSlotsIsExhausted) {
  const auto world = world_of(2, 2);  // four slots
  std::vector<LegByHand> seats;
  for (std::uint32_t i = 0; i < 5; ++i) seats.push_back(sum_seat(2, 8, i));
  ASSERT_TRUE(world->port(0).post({0, 5}, {}, seats[0].rounds).has_value());
  EXPECT_EQ(world->port(0).post({0, 5}, {}, seats[0].rounds).error().code, Code::exhausted);
  for (std::uint64_t sequence = 1; sequence < 4; ++sequence) {
    EXPECT_TRUE(world->port(0).post({sequence, 5}, {}, seats[sequence].rounds).has_value());
  }
  EXPECT_EQ(world->port(0).post({4, 5}, {}, seats[4].rounds).error().code, Code::exhausted);
}

TEST(LocalPort, ARefusedPostLeavesTheOpenExchangeAlone) {
  const auto world = world_of(2, 1);
  std::array seats{sum_seat(2, 8, 1), sum_seat(2, 8, 2)};
  ASSERT_TRUE(world->port(0).post({0, 5}, {}, seats[0].rounds).has_value());
  EXPECT_FALSE(world->port(0).post({2, 5}, {}, seats[0].rounds).has_value());
  ASSERT_TRUE(world->port(1).post({0, 5}, {}, seats[1].rounds).has_value());
  const auto answers = world->port(0).take({0, 5});
  ASSERT_TRUE(answers.has_value());
  EXPECT_EQ(lane((*answers)[0], 0), 3u);
}

TEST(LocalPort, DeviceMemoryIsRefused) {
  const auto world = world_of(1);
  LegByHand seat = sum_seat(1, 8, 1);
  const device::Accelerator device{&device::emulated(), 0};
  device::Bench bench(device, nullptr);
  const Status posted = world->port(0).post({0, 5}, Place{&bench}, seat.rounds);
  ASSERT_FALSE(posted.has_value());
  EXPECT_EQ(posted.error().code, Code::unavailable);
}

TEST(LocalPort, AStepHasOneToThirtyTwoRounds) {
  const auto world = world_of(1);
  LegByHand seat;
  EXPECT_EQ(world->port(0).post({0, 5}, {}, seat.rounds).error().code, Code::invalid_argument);
  for (int i = 0; i < 32; ++i) {
    seat.add({.op = Op::max, .bits = 8, .count = 1}, 1, Bytes(1, static_cast<std::byte>(i)));
  }
  ASSERT_TRUE(world->port(0).post({0, 5}, {}, seat.rounds).has_value());
  const auto answers = world->port(0).take({0, 5});
  ASSERT_TRUE(answers.has_value());
  ASSERT_EQ(answers->size(), 32u);
  for (std::size_t i = 0; i < 32; ++i) {
    EXPECT_EQ((*answers)[i].down[0], static_cast<std::byte>(i)) << "answers keep the order";
  }
  seat.add({.op = Op::max, .bits = 8, .count = 1}, 1, Bytes(1));
  EXPECT_EQ(world->port(0).post({1, 5}, {}, seat.rounds).error().code, Code::invalid_argument);
}

TEST(LocalPort, TakingWhatWasNotPostedIsRefused) {
  const auto world = world_of(1, 1);
  EXPECT_EQ(world->port(0).take({0, 5}).error().code, Code::invalid_argument);
  LegByHand seat = sum_seat(1, 8, 1);
  ASSERT_TRUE(world->port(0).post({0, 5}, {}, seat.rounds).has_value());
  EXPECT_EQ(world->port(0).take({2, 5}).error().code, Code::invalid_argument);
  ASSERT_TRUE(world->port(0).take({0, 5}).has_value());
  EXPECT_EQ(world->port(0).take({0, 5}).error().code, Code::invalid_argument) << "taken already";
}

TEST(LocalPort, AnAbandonedEndIsDeadAndTheOthersWaitForIt) {
  const auto world = world_of(2);
  std::array seats{sum_seat(2, 8, 1), sum_seat(2, 8, 2)};
  ASSERT_TRUE(world->port(0).post({0, 5}, {}, seats[0].rounds).has_value());
  world->port(0).abandon();
  EXPECT_EQ(world->port(0).take({0, 5}).error().code, Code::invalid_argument);
  EXPECT_EQ(world->port(0).post({0, 5}, {}, seats[0].rounds).error().code, Code::unavailable);
  EXPECT_EQ(world->port(0).post({1, 5}, {}, seats[0].rounds).error().code, Code::unavailable);
  ASSERT_TRUE(world->port(1).post({0, 5}, {}, seats[1].rounds).has_value());
  EXPECT_EQ(world->port(1).take({0, 5}).error().code, Code::pending);
  EXPECT_EQ(world->port(1).explain({0, 5}), "waiting for 1 of 2 workers: 0");
}

TEST(LocalPort, WhatWasCountedBeforeItsWorkerLeftIsAnswered) {
  const auto world = world_of(2);
  std::array seats{sum_seat(2, 8, 1), sum_seat(2, 8, 2)};
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    ASSERT_TRUE(world->port(rank).post({0, 5}, {}, seats[rank].rounds).has_value());
  }
  world->port(0).abandon();
  world->port(0).abandon();
  const auto answers = world->port(1).take({0, 5});
  ASSERT_TRUE(answers.has_value());
  EXPECT_EQ(lane((*answers)[0], 0), 3u);
}

// The sanitizers watch: a seat is gone as soon as abandon() has returned.
TEST(LocalPort, MemoryMayGoOnceAbandonedWhileOthersPost) {
  for (int trial = 0; trial < 200; ++trial) {
    const auto world = world_of(3);
    std::atomic<int> ready{0};
    on_threads(3, [&](std::uint32_t rank) {
      auto seat = std::make_unique<LegByHand>(sum_seat(3, 2048, rank));
      ++ready;
      while (ready < 3) std::this_thread::yield();
      EXPECT_TRUE(world->port(rank).post({0, 5}, {}, seat->rounds).has_value());
      const auto answers = world->port(rank).take({0, 5});
      EXPECT_TRUE(answers ? lane((*answers)[0], 0) == 3 : answers.error().code == Code::pending);
      world->port(rank).abandon();
      seat.reset();
    });
  }
}

}  // namespace
}  // namespace sluice::local
