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

#include "base/bytes.h"

namespace sluice::local {
namespace {

using Bytes = std::vector<std::byte>;
using std::chrono::milliseconds;

constexpr auto kLong =
    std::chrono::seconds(60);  // never reached: a test that waits this long hangs

std::unique_ptr<World> world_of(WorldOptions options) {
  auto world = make_world(options);
  EXPECT_TRUE(world.has_value()) << world.error().message;
  return std::move(*world);
}

std::unique_ptr<World> world_of(std::uint32_t workers, std::uint32_t window = 4) {
  WorldOptions options;
  options.workers = workers;
  options.window = window;
  return world_of(options);
}

// A worker's rounds with the memory behind them.
struct Seat {
  void add(const Reduction& what, std::uint32_t n, Bytes up) {
    ups.push_back(std::make_unique<Bytes>(std::move(up)));
    downs.push_back(std::make_unique<Bytes>(down_size_max(what, n)));
    rounds.push_back({what, *ups.back(), *downs.back(), {}});
  }
  std::vector<std::unique_ptr<Bytes>> ups;
  std::vector<std::unique_ptr<Bytes>> downs;
  std::vector<Round> rounds;
};

Seat sum_seat(std::uint32_t n, std::uint32_t count, std::uint32_t value) {
  Seat seat;
  Bytes up(4 * std::size_t{count});
  for (std::uint32_t i = 0; i < count; ++i) store_le(std::span(up), 4 * i, value + i);
  seat.add({.op = Op::wrap_sum, .bits = 32, .count = count, .grain = 8}, n, std::move(up));
  return seat;
}

std::uint32_t lane(const Answer& answer, std::size_t index) {
  return load_le<std::uint32_t>(answer.down, 4 * index);
}

// Blocks until the answers of the exchange are there.
Result<std::span<const Answer>> await(Carrier& port, const Ticket& ticket) {
  while (true) {
    const auto answers = port.take(ticket);
    if (answers || answers.error().code != Code::pending) return answers;
    SLUICE_TRY(port.wait(kLong));
  }
}

template <class Each>
void on_threads(std::uint32_t workers, Each each) {
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < workers; ++rank) {
    threads.emplace_back([&each, rank] { each(rank); });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(LocalWorld, OptionsOutOfRangeAreNamedWithTheRange) {
  const auto refused = [](WorldOptions options, const std::vector<std::string>& mentioned) {
    const auto world = make_world(options);
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
  options.window = 1;
  for (const auto& order :
       {std::vector<std::uint32_t>{0}, {0, 1}, {0, 1, 1}, {1, 2, 3}, {0, 1, 2, 3}}) {
    options.order = order;
    refused(options, {"order", "3 workers"});
  }
  options.order = {2, 0, 1};
  EXPECT_TRUE(make_world(options).has_value());
}

TEST(LocalWorld, ACarrierOfOneAnswersItself) {
  const auto world = world_of(1);
  Seat seat = sum_seat(1, 20, 5);
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
        for (std::uint32_t step = 0; step < 1 + sequence % 3; ++step) {
          const auto base = static_cast<std::uint32_t>(1000 * sequence + 100 * step);
          Seat seat = sum_seat(n, 16, base + rank);
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
      std::vector<Seat> seats(window);
      for (const std::uint64_t sequence : order) {
        Seat& seat = seats[sequence % window];
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

TEST(LocalWorld, StepsOfAnExchangeAreCountedForWhoeverLosesContributions) {
  WorldOptions options;
  options.workers = 2;
  std::vector<Arrival> seen;
  options.lost = [&seen](const Arrival& arrival) {
    seen.push_back(arrival);
    return false;
  };
  const auto world = world_of(options);
  for (const std::uint64_t sequence : {0u, 1u, 8u}) {
    for (std::uint32_t step = 0; step < 2; ++step) {
      std::array seats{sum_seat(2, 8, 1), sum_seat(2, 8, 2)};
      seen.clear();
      for (std::uint32_t rank = 0; rank < 2; ++rank) {
        ASSERT_TRUE(world->port(rank).post({sequence, 0}, {}, seats[rank].rounds).has_value());
      }
      ASSERT_EQ(seen.size(), 2u);
      EXPECT_EQ(seen[1].rank, 1u);
      EXPECT_EQ(seen[1].sequence, sequence);
      EXPECT_EQ(seen[1].step, step);
      for (std::uint32_t rank = 0; rank < 2; ++rank) {
        ASSERT_TRUE(world->port(rank).take({sequence, 0}).has_value());
      }
    }
  }
}

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

TEST(LocalWorld, LostContributionsComeAsParts) {
  WorldOptions options;
  options.workers = 3;
  options.lost = [](const Arrival& arrival) { return arrival.rank == 2 && arrival.grain >= 1; };
  const auto world = world_of(options);
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
  WorldOptions options;
  options.workers = 2;
  options.lost = [](const Arrival&) { return true; };
  const auto world = world_of(options);
  std::array seats{sum_seat(2, 8, 1), sum_seat(2, 8, 2)};
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    ASSERT_TRUE(world->port(rank).post({0, 5}, {}, seats[rank].rounds).has_value());
  }
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(world->port(rank).take({0, 5}).error().code, Code::lost) << rank;
  }
}

TEST(LocalPort, PostingTwiceOrBeyondTheSlotsIsExhausted) {
  const auto world = world_of(2, 2);  // four slots
  std::vector<Seat> seats;
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
  Seat seat = sum_seat(1, 8, 1);
  const Status posted = world->port(0).post({0, 5}, {.device = true}, seat.rounds);
  ASSERT_FALSE(posted.has_value());
  EXPECT_EQ(posted.error().code, Code::unavailable);
}

TEST(LocalPort, AStepHasOneToThirtyTwoRounds) {
  const auto world = world_of(1);
  Seat seat;
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
  Seat seat = sum_seat(1, 8, 1);
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
      auto seat = std::make_unique<Seat>(sum_seat(3, 2048, rank));
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

// ---- Trees and orders of arrival.

Seat mixed_seat(std::uint32_t n, std::uint32_t rank, const std::vector<std::uint16_t>& table) {
  std::mt19937 random(rank);
  const auto noise = [&random](std::size_t size) {
    Bytes bytes(size);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    return bytes;
  };
  Seat seat;
  for (const Down down : {Down::full, Down::narrow, Down::round}) {
    Reduction sum{.op = Op::lane_sum, .bits = 4, .down = down, .count = 500, .grain = 24};
    seat.add(sum, n, noise(250));
    sum.table = table;
    seat.add(sum, n, noise(250));
  }
  seat.add({.op = Op::wrap_sum, .bits = 16, .count = 500, .grain = 24}, n, noise(1000));
  seat.add({.op = Op::max, .bits = 5, .count = 500, .grain = 24}, n, noise(313));
  seat.add({.op = Op::gather, .bits = 8, .count = 50}, n, noise(random() % 51));
  Bytes block = noise(4 + 4 + 32);
  store_le(std::span(block), 0, std::uint32_t{1});
  store_le(std::span(block), 4, static_cast<std::uint32_t>(random() % 10));
  seat.add({.op = Op::block_sum, .bits = 32, .count = 80, .grain = 8}, n, block);
  Bytes floats(2000);
  std::normal_distribution<float> normal;
  for (std::size_t i = 0; i < 500; ++i) store_le(std::span(floats), 4 * i, normal(random));
  seat.add({.op = Op::f32_sum, .bits = 32, .count = 500, .grain = 24}, n, floats);
  seat.add({.op = Op::bf16_sum, .bits = 16, .count = 1000, .grain = 24}, n, floats);
  return seat;
}

// All bytes of all answers, and of all contributor sets.
Bytes everything(const WorldOptions& options) {
  const std::vector<std::uint16_t> table{0,   1,   2,   4,   8,   16,  32,  64,
                                         128, 256, 512, 600, 700, 800, 900, 1000};
  const auto world = world_of(options);
  std::vector<Seat> seats;
  for (std::uint32_t rank = 0; rank < options.workers; ++rank) {
    seats.push_back(mixed_seat(options.workers, rank, table));
  }
  for (std::uint32_t rank = 0; rank < options.workers; ++rank) {
    EXPECT_TRUE(world->port(rank).post({0, 5}, {}, seats[rank].rounds).has_value());
  }
  Bytes all;
  for (std::uint32_t rank = 0; rank < options.workers; ++rank) {
    const auto answers = world->port(rank).take({0, 5});
    EXPECT_TRUE(answers.has_value()) << answers.error().what;
    if (!answers) return {};
    for (std::size_t i = 0; i < answers->size(); ++i) {
      const Answer& answer = (*answers)[i];
      EXPECT_TRUE(check_answer(seats[rank].rounds[i], answer, options.workers).has_value());
      all.insert(all.end(), answer.down.begin(), answer.down.end());
      for (const Part& part : answer.parts) {
        const auto words = std::as_bytes(part.from.words);
        all.insert(all.end(), words.begin(), words.end());
      }
    }
  }
  return all;
}

TEST(LocalWorld, TreesAndOrdersOfArrivalGiveTheSameBytes) {
  for (const std::uint32_t n : {1u, 2u, 5u, 13u}) {
    for (const bool losing : {false, true}) {
      WorldOptions options;
      options.workers = n;
      if (losing) {
        options.lost = [n](const Arrival& arrival) {
          return n > 1 && (arrival.rank + arrival.grain + arrival.round) % 5 == 0;
        };
      }
      const Bytes flat = everything(options);
      ASSERT_FALSE(flat.empty());
      std::vector<std::uint32_t> order(n);
      std::iota(order.begin(), order.end(), 0u);
      std::mt19937 random(n);
      for (const std::uint32_t fan_in : {0u, 1u, 2u, 4u, 64u}) {
        options.fan_in = fan_in;
        std::shuffle(order.begin(), order.end(), random);
        options.order = order;
        EXPECT_EQ(everything(options), flat) << n << " workers, leaves of " << fan_in;
      }
    }
  }
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

}  // namespace
}  // namespace sluice::local
