// Trees and orders of arrival: none of them changes a byte of an answer.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "base/bytes.h"
#include "carrier/local/local_test.h"
#include "round/lists.h"

namespace sluice::local {
namespace {

LegByHand mixed_seat(std::uint32_t n, std::uint32_t rank, const std::vector<std::uint16_t>& table) {
  std::mt19937 random(rank);
  const auto noise = [&random](std::size_t size) {
    Bytes bytes(size);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    return bytes;
  };
  LegByHand seat;
  for (const Down down : {Down::full, Down::narrow, Down::round}) {
    Reduction sum{.op = Op::lane_sum, .bits = 4, .down = down, .count = 500, .grain = 24};
    seat.add(sum, n, noise(250));
    sum.table = table;
    seat.add(sum, n, noise(250));
  }
  seat.add({.op = Op::wrap_sum, .bits = 16, .count = 500, .grain = 24}, n, noise(1000));
  seat.add({.op = Op::max, .bits = 5, .count = 500, .grain = 24}, n, noise(313));
  seat.add({.op = Op::gather, .bits = 8, .count = 50}, n, noise(random() % 51));
  Bytes block = noise(kBlockListHeader + kBlockHeader + 32);
  store_le(std::span(block), 0, std::uint32_t{1});
  store_le(std::span(block), 4, static_cast<std::uint32_t>(random() % 10));
  store_le(std::span(block), 8, static_cast<std::uint8_t>(BlockForm::dense));
  seat.add({.op = Op::block_sum, .bits = 32, .count = 80, .grain = 8}, n, block);
  Bytes floats(2000);
  std::normal_distribution<float> normal;
  for (std::size_t i = 0; i < 500; ++i) store_le(std::span(floats), 4 * i, normal(random));
  seat.add({.op = Op::f32_sum, .bits = 32, .count = 500, .grain = 24}, n, floats);
  seat.add({.op = Op::bf16_sum, .bits = 16, .count = 1000, .grain = 24}, n, floats);
  return seat;
}

// All bytes of all answers, and of all contributor sets.
Bytes everything(std::uint32_t workers, const Arrangement& arrangement) {
  const std::vector<std::uint16_t> table{0,   1,   2,   4,   8,   16,  32,  64,
                                         128, 256, 512, 600, 700, 800, 900, 1000};
  const auto world = world_of({.workers = workers}, arrangement);
  std::vector<LegByHand> seats;
  for (std::uint32_t rank = 0; rank < workers; ++rank) {
    seats.push_back(mixed_seat(workers, rank, table));
  }
  for (std::uint32_t rank = 0; rank < workers; ++rank) {
    EXPECT_TRUE(world->port(rank).post({0, 5}, {}, seats[rank].rounds).has_value());
  }
  Bytes all;
  for (std::uint32_t rank = 0; rank < workers; ++rank) {
    const auto answers = world->port(rank).take({0, 5});
    EXPECT_TRUE(answers.has_value()) << answers.error().what;
    if (!answers) return {};
    for (std::size_t i = 0; i < answers->size(); ++i) {
      const Answer& answer = (*answers)[i];
      EXPECT_TRUE(check_answer(seats[rank].rounds[i], answer, workers).has_value());
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
      Arrangement arrangement;
      if (losing) {
        arrangement.lost = [n](const Arrival& arrival) {
          return n > 1 && (arrival.rank + arrival.grain + arrival.round) % 5 == 0;
        };
      }
      const Bytes flat = everything(n, arrangement);
      ASSERT_FALSE(flat.empty());
      std::vector<std::uint32_t> order(n);
      std::iota(order.begin(), order.end(), 0u);
      std::mt19937 random(n);
      for (const std::uint32_t fan_in : {0u, 1u, 2u, 4u, 64u}) {
        arrangement.fan_in = fan_in;
        std::shuffle(order.begin(), order.end(), random);
        arrangement.order = order;
        EXPECT_EQ(everything(n, arrangement), flat) << n << " workers, leaves of " << fan_in;
      }
    }
  }
}

}  // namespace
}  // namespace sluice::local
