// Queues of two ranks with two ports each, a thread per port, whose collectives meet in a hall.
#include <sluice/sluice.hpp>

#include <array>
#include <cmath>
#include <deque>
#include <map>
#include <mutex>
#include <thread>

#include "abi/guest_test.h"
#include "tests/support/hall.h"

namespace sluice::abi {
namespace {

using sluice_api::check;
using sluice_api::Codec;
using sluice_api::Group;
using sluice_api::World;
using support::Hall;

constexpr std::uint32_t kRanks = 2;
constexpr std::size_t kPorts = 2;
constexpr std::size_t kTensors = 6;
constexpr std::uint64_t kSeed = 9;
constexpr std::array<sluice_tensor, kTensors> kShapes{
    {{11, 4, 300}, {22, 1, 4097}, {33, 10, 20}, {44, 1, 1}, {55, 3, 40960}, {66, 2, 700}}};
// One more, exact, for the turns.
constexpr sluice_tensor kOfTurns{77, 1, 100};

std::size_t count_of(const sluice_tensor& tensor) { return tensor.rows * tensor.cols; }

std::vector<float> gradient_of(std::uint32_t rank, const sluice_tensor& tensor) {
  std::vector<float> made(count_of(tensor));
  for (std::size_t i = 0; i < made.size(); ++i) {
    made[i] = std::sin(static_cast<float>(i * tensor.id)) + 0.5f * static_cast<float>(rank);
  }
  return made;
}

sluice_options options_of(std::uint32_t rank, const char* feedback) {
  sluice_options options = SLUICE_OPTIONS_INIT;
  options.rank = rank;
  options.workers = kRanks;
  options.seed = kSeed;
  options.feedback = feedback;
  options.chunk = 16384;
  return options;
}

using Values = std::vector<std::vector<float>>;  // by tensor

// What groups of ours give for the same gradients.
Values means_of_groups(const char* spec, std::uint64_t step) {
  World world("local", kRanks);
  const Codec codec(spec);
  std::array<Values, kRanks> values;
  std::array<std::vector<sluice_entry>, kRanks> entries;
  std::vector<Group> groups;
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    groups.emplace_back(world, codec, options_of(rank, "ef"), kShapes);
    for (const sluice_tensor& shape : kShapes) values[rank].push_back(gradient_of(rank, shape));
    for (std::uint32_t i = 0; i < kTensors; ++i) {
      std::vector<float>& one = values[rank][i];
      entries[rank].push_back({i, one.size(), one.data(), one.data()});
    }
    check(sluice_group_start(groups[rank].get(), step, entries[rank].data(), kTensors));
  }
  std::array<std::uint32_t, kRanks> finished{};
  while (finished[0] + finished[1] != kRanks) {
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      check(sluice_group_advance(groups[rank].get(), &finished[rank]));
    }
  }
  return values[0];
}

// One rank: a memory, its ports and their queue.
class Rank {
 public:
  Rank(const char* spec, std::span<const std::unique_ptr<Hall>> halls, std::uint32_t rank)
      : rank_(rank) {
    const sluice_options options = options_of(rank, "ef");
    const Codec codec(spec);
    const Codec exact("f32");
    check(sluice_memory_make(&options, &memory));
    check(sluice_memory_add(memory, codec.get(), kShapes.data(), kTensors));
    check(sluice_memory_add(memory, exact.get(), &kOfTurns, 1));
    for (std::size_t i = 0; i < kPorts; ++i) {
      guests.emplace_back(halls[i]->of(rank), kRanks);
      const sluice_collectives calls = guests[i].calls();
      check(sluice_port_over(memory, &calls, 60, &ports[i]));
    }
    check(sluice_queue_make(ports.data(), kPorts, 1u << 17, &queue));
    for (const sluice_tensor& shape : kShapes) gradients.push_back(gradient_of(rank, shape));
    means = gradients;
  }
  ~Rank() {
    sluice_memory_free(memory);
    for (sluice_port* port : ports) sluice_port_free(port);
    sluice_queue_free(queue);
  }
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  // Tensors [first, last) as a bucket.
  void put(std::uint64_t step, std::uint32_t first, std::uint32_t last) {
    std::vector<sluice_entry> entries;
    for (std::uint32_t i = first; i < last; ++i) {
      means[i].assign(means[i].size(), 0.0f);
      entries.push_back({i, means[i].size(), gradients[i].data(), means[i].data()});
    }
    const sluice_order order{sizeof(sluice_order), step, 0, 1, 0, 0, 0, nullptr};
    std::uint64_t number = 0;
    ASSERT_EQ(sluice_queue_put(queue, &order, entries.data(), entries.size(), &number), SLUICE_OK)
        << sluice_last_error();
    ASSERT_EQ(number, put_++);
  }
  void put_turn() {
    std::uint64_t number = 0;
    ASSERT_EQ(sluice_queue_put_turn(queue, &number), SLUICE_OK) << sluice_last_error();
    ASSERT_EQ(number, put_++);
  }

  // A thread of a port: until the queue is closed, or something fails.
  void serve(std::size_t port) {
    while (true) {
      sluice_event event = SLUICE_EVENT_INIT;
      const sluice_code code = sluice_queue_serve(queue, port, &event);
      if (code != SLUICE_OK) {
        failures[port] = {code, sluice_last_error()};
        return;
      }
      if (event.kind == SLUICE_CLOSED) return;
      if (event.kind == SLUICE_TURN) take_turn(port, event.number);
      const std::lock_guard lock(mutex_);
      if (event.kind == SLUICE_TURN) {
        ASSERT_TRUE(turns.emplace(event.number, port).second) << event.number;
      } else {
        ASSERT_TRUE(digests.emplace(event.number, event.digest).second) << event.number;
      }
    }
  }
  // Both ranks average their numbers, by a bucket of its own.
  void take_turn(std::size_t port, std::uint64_t number) {
    std::vector<float> values(count_of(kOfTurns), static_cast<float>(number + rank_));
    const sluice_order order{sizeof(sluice_order), 0, number, 0, 0, 0, 0, nullptr};
    const sluice_entry entry{kTensors, values.size(), values.data(), values.data()};
    ASSERT_EQ(sluice_port_run(ports[port], &order, &entry, 1), SLUICE_OK) << sluice_last_error();
    ASSERT_EQ(values, std::vector<float>(values.size(), static_cast<float>(number) + 0.5f));
  }

  struct Failure {
    sluice_code code = SLUICE_OK;
    std::string said;
  };
  sluice_memory* memory = nullptr;
  std::deque<Guest> guests;
  std::array<sluice_port*, kPorts> ports{};
  sluice_queue* queue = nullptr;
  Values gradients;
  Values means;
  std::map<std::uint64_t, std::uint64_t> digests;  // by bucket
  std::map<std::uint64_t, std::size_t> turns;      // the port of each
  std::array<Failure, kPorts> failures;

 private:
  std::uint32_t rank_;
  std::uint64_t put_ = 0;
  std::mutex mutex_;
};

class TwoRanks : public ::testing::Test {
 protected:
  void make(const char* spec) {
    for (std::size_t i = 0; i < kPorts; ++i) halls_.push_back(std::make_unique<Hall>(kRanks));
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) ranks_.emplace_back(spec, halls_, rank);
  }
  void start() {
    for (Rank& rank : ranks_) {
      for (std::size_t port = 0; port < kPorts; ++port) {
        threads_.emplace_back([&rank, port] { rank.serve(port); });
      }
    }
  }
  void join() {
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }
  void no_failures() {
    for (const Rank& rank : ranks_) {
      for (const Rank::Failure& failure : rank.failures) {
        EXPECT_EQ(failure.code, SLUICE_OK) << failure.said;
      }
    }
  }

  std::vector<std::unique_ptr<Hall>> halls_;
  std::deque<Rank> ranks_;
  std::vector<std::thread> threads_;
};

TEST_F(TwoRanks, BucketsWithTurnsInBetweenGiveTheMeansOfGroups) {
  for (const char* spec : {"tide:bits=4", "lossless", "blocks", "f32"}) {
    SCOPED_TRACE(spec);
    ranks_.clear();
    halls_.clear();
    make(spec);
    start();
    // One rank has everything at once, the other has it one by one: serving threads run meanwhile.
    for (Rank& rank : ranks_) {
      rank.put(4, 0, 2);
      rank.put_turn();
      rank.put(4, 2, 4);
      rank.put(4, 4, 5);
      rank.put_turn();
      rank.put(4, 5, 6);
      ASSERT_EQ(sluice_queue_close(rank.queue, 0), SLUICE_OK);
    }
    join();
    no_failures();
    const Values expected = means_of_groups(spec, 4);
    for (const Rank& rank : ranks_) {
      for (std::size_t i = 0; i < kTensors; ++i) EXPECT_EQ(rank.means[i], expected[i]) << i;
      EXPECT_EQ(rank.digests.size(), 4u);
      EXPECT_EQ(rank.turns.size(), 2u);
    }
    EXPECT_EQ(ranks_[0].digests, ranks_[1].digests);
    EXPECT_EQ(ranks_[0].turns, ranks_[1].turns);
  }
}

TEST_F(TwoRanks, BucketsThatAreAllThereTravelTogether) {
  make("f32");
  for (Rank& rank : ranks_) {
    for (std::uint32_t i = 0; i < 4; ++i) rank.put(0, i, i + 1);
    ASSERT_EQ(sluice_queue_close(rank.queue, 0), SLUICE_OK);
  }
  start();
  join();
  no_failures();
  EXPECT_EQ(halls_[0]->met(), 1u) << "the first alone";
  EXPECT_EQ(halls_[1]->met(), 1u) << "then all others";
  sluice_traffic traffic = SLUICE_TRAFFIC_INIT;
  ASSERT_EQ(sluice_port_traffic(ranks_[0].ports[1], &traffic), SLUICE_OK);
  EXPECT_EQ(traffic.collectives, 1u);
  EXPECT_GT(traffic.sent_bytes, 4 * (4097u + 200 + 1));
  EXPECT_EQ(traffic.sent_bytes, traffic.received_bytes);
}

TEST_F(TwoRanks, APortThatFailsOnBothEndsTheQueueOfBoth) {
  make("tide:bits=4");
  for (Rank& rank : ranks_) {
    rank.guests[1].starts = [](std::uint64_t) { return false; };
    for (std::uint32_t i = 0; i < kTensors; ++i) rank.put(0, i, i + 1);
  }
  start();
  join();
  for (Rank& rank : ranks_) {
    EXPECT_EQ(rank.failures[1].code, SLUICE_FAILED) << rank.failures[1].said;
    EXPECT_EQ(rank.failures[0].code, SLUICE_UNAVAILABLE) << rank.failures[0].said;
    EXPECT_EQ(rank.digests.size(), 1u) << "of the wave before";
    for (std::size_t i = 1; i < kTensors; ++i) {
      EXPECT_EQ(rank.means[i], std::vector<float>(rank.means[i].size())) << i;
    }
    refused(sluice_memory_end_step(rank.memory), "while 5 buckets");
  }
}

// Both believe that the answer of rank 1 has another size.
TEST_F(TwoRanks, AnswersOfAnImpossibleSizeEndTheQueue) {
  for (const std::uint64_t more : {std::uint64_t{1} << 40, ~std::uint64_t{0}}) {
    ranks_.clear();
    halls_.clear();
    make("blocks");
    for (Rank& rank : ranks_) {
      for (Guest& guest : rank.guests) {
        guest.spoil = [=](const sluice_collective& what, std::span<std::byte> bytes) {
          if (what.kind != SLUICE_ALL_GATHER || bytes.size() != 16) return;
          std::uint64_t size = 0;
          std::memcpy(&size, bytes.data() + 8, sizeof size);
          size += more;
          std::memcpy(bytes.data() + 8, &size, sizeof size);
        };
      }
      rank.put(0, 4, 5);
    }
    start();
    join();
    for (const Rank& rank : ranks_) {
      EXPECT_EQ(rank.failures[0].code, SLUICE_MALFORMED) << rank.failures[0].said;
      EXPECT_EQ(rank.failures[1].code, SLUICE_UNAVAILABLE) << rank.failures[1].said;
      EXPECT_EQ(rank.means[4], std::vector<float>(rank.means[4].size()));
    }
  }
}

TEST_F(TwoRanks, RanksThatPutDifferentBucketsAreTold) {
  make("f32");
  ranks_[0].put(0, 0, 1);
  ranks_[1].put(1, 0, 1);
  start();
  join();
  for (const Rank& rank : ranks_) {
    EXPECT_EQ(rank.failures[0].code, SLUICE_MISMATCH) << rank.failures[0].said;
    EXPECT_NE(rank.failures[0].said.find("different: step (rank"), std::string::npos)
        << rank.failures[0].said;
    EXPECT_EQ(rank.means[0], std::vector<float>(rank.means[0].size()));
  }
}

}  // namespace
}  // namespace sluice::abi
