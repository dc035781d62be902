// Workers that do not want the same, through the C functions: the message says in what they differ.
#include <gtest/gtest.h>
#include <sluice/sluice.hpp>

#include <array>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "abi/guest_test.h"
#include "tests/support/hall.h"

namespace {

using sluice::abi::Guest;
using sluice::support::Hall;
using sluice_api::Codec;
using sluice_api::Group;
using sluice_api::World;

constexpr std::size_t kCount = 500;

// What a worker believes; worker 1 is made to differ.
struct Belief {
  std::string codec = "tide:bits=4";
  std::uint64_t seed = 7;
  std::uint64_t step = 3;
  std::uint64_t number = 0;
  std::uint32_t chunk = 0;
  sluice_tensor tensor{0xab, 1, kCount};

  [[nodiscard]] sluice_options options(std::uint32_t rank) const {
    sluice_options made = SLUICE_OPTIONS_INIT;
    made.rank = rank;
    made.workers = 2;
    made.seed = seed;
    made.chunk = chunk;
    return made;
  }
};

using Change = std::function<void(Belief&)>;

std::array<Belief, 2> beliefs(const Change& change) {
  std::array<Belief, 2> made;
  change(made[1]);
  return made;
}

// What worker 0 of a local world is told.
std::string groups_say(const Change& change) {
  World world("local", 2);
  const auto both = beliefs(change);
  std::vector<float> values(kCount, 1.0f);
  std::vector<Codec> codecs;
  std::vector<Group> groups;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    codecs.emplace_back(both[rank].codec);
    groups.emplace_back(world, codecs[rank], both[rank].options(rank),
                        std::span(&both[rank].tensor, 1));
  }
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    const std::size_t count = both[rank].tensor.rows * both[rank].tensor.cols;
    const sluice_entry entry{0, count, values.data(), values.data()};
    EXPECT_EQ(sluice_group_start(groups[rank].get(), both[rank].step, &entry, 1), SLUICE_OK);
  }
  std::uint32_t finished = 0;
  for (int turn = 0; turn < 10; ++turn) {
    for (const std::uint32_t rank : {1u, 0u}) {
      const sluice_code code = sluice_group_advance(groups[rank].get(), &finished);
      if (rank == 0 && code != SLUICE_OK) {
        EXPECT_EQ(code, SLUICE_MISMATCH);
        return sluice_last_error();
      }
    }
  }
  ADD_FAILURE() << "nobody complained";
  return "";
}

// What rank 0 is told when the ranks run a bucket over collectives.
std::string ports_say(const Change& change) {
  const auto both = beliefs(change);
  Hall hall(2);
  std::string said;
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      const Belief& belief = both[rank];
      const sluice_options options = belief.options(rank);
      const Codec codec(belief.codec);
      sluice_memory* memory = nullptr;
      EXPECT_EQ(sluice_memory_make(&options, &memory), SLUICE_OK);
      EXPECT_EQ(sluice_memory_add(memory, codec.get(), &belief.tensor, 1), SLUICE_OK);
      Guest guest(hall.of(rank), 2);
      const sluice_collectives calls = guest.calls();
      sluice_port* port = nullptr;
      EXPECT_EQ(sluice_port_over(memory, &calls, 60, &port), SLUICE_OK);
      sluice_order order = SLUICE_ORDER_INIT;
      order.step = belief.step;
      order.number = belief.number;
      std::vector<float> values(belief.tensor.rows * belief.tensor.cols, 1.0f);
      const sluice_entry entry{0, values.size(), values.data(), values.data()};
      EXPECT_EQ(sluice_port_run(port, &order, &entry, 1), SLUICE_MISMATCH);
      if (rank == 0) said = sluice_last_error();
      sluice_port_free(port);
      sluice_memory_free(memory);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return said;
}

void expect_end(const std::string& text, const std::string& end) {
  ASSERT_GE(text.size(), end.size()) << text;
  EXPECT_EQ(text.substr(text.size() - end.size()), end) << text;
}

TEST(Mismatches, GroupsAreToldInWhatTheyDiffer) {
  const auto says = [](const Change& change, const std::string& end) {
    expect_end(groups_say(change), "they do not reduce the same " + end);
  };
  says([](Belief& b) { b.step = 4; }, "step (worker 0: 3, worker 1: 4)");
  says([](Belief& b) { b.seed = 8; }, "seed (worker 0: 7, worker 1: 8)");
  says([](Belief& b) { b.codec = "tide:bits=3"; }, "codec or its options");
  says([](Belief& b) { b.tensor.id = 0xcd; }, "tensor (id ab of worker 0, cd of worker 1)");
  says([](Belief& b) { b.tensor.cols = 400; },
       "coordinates of the chunk (worker 0: 500, worker 1: 400)");
  says([](Belief& b) { b.chunk = 4096; },
       "coordinates per chunk (worker 0: 65536, worker 1: 4096)");
}

TEST(Mismatches, PortsAreToldInWhatTheyDiffer) {
  const auto says = [](const Change& change, const std::string& end) {
    expect_end(ports_say(change), "; different: " + end);
  };
  says([](Belief& b) { b.step = 4; }, "step (rank 0: 3, rank 1: 4)");
  says([](Belief& b) { b.number = 9; }, "bucket (rank 0: 0, rank 1: 9)");
  says([](Belief& b) { b.seed = 8; }, "seed");
  says([](Belief& b) { b.codec = "tide:bits=3"; },
       "codec, its options or the coordinates per chunk");
  says([](Belief& b) { b.tensor.id = 0xcd; }, "tensors (ids, shapes or order)");
}

TEST(Mismatches, TheOwnCodecIsNamed) {
  const std::string said = groups_say([](Belief& b) { b.codec = "f32"; });
  EXPECT_NE(said.find("worker 0 of 2, codec tide"), std::string::npos) << said;
}

}  // namespace
