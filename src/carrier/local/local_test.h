// Worlds, seats and threads for the tests here.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "carrier/local/local.h"
#include "tests/support/leg_by_hand.h"

namespace sluice::local {

using Bytes = std::vector<std::byte>;
using support::LegByHand;

// Never reached: a test that waits this long hangs.
inline constexpr std::chrono::seconds kLong{60};

inline std::unique_ptr<World> world_of(const WorldOptions& options,
                                       const Arrangement& arrangement = {}) {
  auto world = make_world(options, arrangement);
  EXPECT_TRUE(world.has_value()) << world.error().message;
  return std::move(*world);
}

inline std::unique_ptr<World> world_of(std::uint32_t workers, std::uint32_t window = 4) {
  WorldOptions options;
  options.workers = workers;
  options.window = window;
  return world_of(options);
}

// A sum of `count` lanes, to which the worker brings value, value + 1, value + 2, ...
inline LegByHand sum_seat(std::uint32_t n, std::uint32_t count, std::uint32_t value) {
  LegByHand seat;
  Bytes up(4 * std::size_t{count});
  for (std::uint32_t i = 0; i < count; ++i) store_le(std::span(up), std::size_t{4} * i, value + i);
  seat.add({.op = Op::wrap_sum, .bits = 32, .count = count, .grain = 8}, n, std::move(up));
  return seat;
}

inline std::uint32_t lane(const Answer& answer, std::size_t index) {
  return load_le<std::uint32_t>(answer.down, 4 * index);
}

// Blocks until the answers of the exchange are there.
inline Result<std::span<const Answer>> await(Carrier& port, const Ticket& ticket) {
  while (true) {
    const auto answers = port.take(ticket);
    if (answers || answers.error().code != Code::pending) return answers;
    SLUICE_TRY(port.wait(kLong));
  }
}

// Calls each(rank) on a thread of its own per worker; waits for all.
template <class Each>
void on_threads(std::uint32_t workers, Each each) {
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < workers; ++rank) {
    threads.emplace_back([&each, rank] { each(rank); });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace sluice::local
