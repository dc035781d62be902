#include "carrier/stream/stream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <thread>
#include <vector>

#include "base/bytes.h"
#include "carrier/stream/server.h"
#include "carrier/stream/stream_port.h"
#include "sim/workload.h"

namespace sluice::stream {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

std::unique_ptr<World> world_of(std::uint32_t workers, std::uint32_t window = 4) {
  auto world = make_world({.workers = workers, .window = window});
  EXPECT_TRUE(world.has_value()) << (world ? "" : world.error().message);
  return std::move(*world);
}

// Runs an exchange's legs on a worker; what differs from the plan, as text.
std::string play(Carrier& port, const sim::PlannedExchange& exchange, std::uint64_t sequence,
                 std::uint32_t rank, std::uint32_t workers) {
  for (const sim::PlannedStep& leg : exchange) {
    std::vector<std::vector<std::byte>> downs;
    std::vector<Round> rounds;
    for (const sim::PlannedRound& round : leg) {
      downs.emplace_back(down_size_max(round.what, workers));
    }
    for (std::size_t i = 0; i < leg.size(); ++i) {
      const Workers only = leg[i].only == 0 ? Workers{} : Workers{{&leg[i].only, 1}};
      rounds.push_back({leg[i].what, leg[i].ups[rank], downs[i], only});
    }
    const Ticket ticket{sequence, 7};
    if (const Status posted = port.post(ticket, {}, rounds); !posted) return posted.error().what;
    auto answers = port.take(ticket);
    while (!answers && answers.error().code == Code::pending) {
      if (const Status waited = port.wait(seconds(60)); !waited) return waited.error().what;
      answers = port.take(ticket);
    }
    if (!answers) return answers.error().what;
    for (std::size_t i = 0; i < leg.size(); ++i) {
      if (!std::ranges::equal((*answers)[i].down, leg[i].down)) return "another sum";
      if (!check_answer(rounds[i], (*answers)[i], workers)) return "not an answer";
    }
  }
  return "";
}

// Every reduction, on all workers of a world.
void check_references_bytes(std::uint32_t workers) {
  sim::Scenario scenario;
  scenario.seed = workers;
  scenario.workers = workers;
  scenario.exchanges = 24;
  scenario.lanes_max = 50'000;
  const auto exchanges = sim::plan_exchanges(scenario, 0);
  const auto world = world_of(workers);
  std::vector<std::string> said(workers);
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < workers; ++rank) {
    threads.emplace_back([&, rank] {
      for (std::size_t i = 0; i < exchanges.size() && said[rank].empty(); ++i) {
        said[rank] = play(world->port(rank), exchanges[i], i, rank, workers);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::uint32_t rank = 0; rank < workers; ++rank) EXPECT_EQ(said[rank], "") << rank;
}

TEST(Stream, EveryReductionGivesTheReferencesBytes) {
  for (const std::uint32_t workers : {1u, 2u, 5u}) check_references_bytes(workers);
}

TEST(Stream, TheWorldCountsTheWorkOfItsAggregator) {
  const auto world = world_of(1);
  const WorldCounters before = world->counters();
  ASSERT_TRUE(before.aggregator_cpu_seconds.has_value());
  // Of two exchanges, since the server's clock is read when it is done with a batch.
  for (std::uint64_t i = 0; i < 2; ++i) {
    std::array<std::byte, 8> up{};
    std::array<std::byte, 8> down{};
    const Round round{{.op = Op::wrap_sum, .bits = 64, .count = 1}, up, down, {}};
    ASSERT_TRUE(world->port(0).post({i, 1}, {}, std::span(&round, 1)).has_value());
    auto answers = world->port(0).take({i, 1});
    while (!answers && answers.error().code == Code::pending) {
      ASSERT_TRUE(world->port(0).wait(seconds(60)).has_value());
      answers = world->port(0).take({i, 1});
    }
    ASSERT_TRUE(answers.has_value());
  }
  const WorldCounters after = world->counters();
  EXPECT_GT(after.aggregator_cpu_seconds.value(), *before.aggregator_cpu_seconds);
  // How many depends on the machine; a test of the command line loses some on purpose.
  ASSERT_TRUE(before.retransmits.has_value() && after.retransmits.has_value());
  EXPECT_GE(*after.retransmits, *before.retransmits);
}

TEST(Stream, WhoIsMissingIsNamedWithTheChunk) {
  const auto world = world_of(3);
  std::array<std::byte, 8> up{};
  std::array<std::byte, 8> down{};
  const Round round{{.op = Op::wrap_sum, .bits = 64, .count = 1}, up, down, {}};
  for (const std::uint32_t rank : {0u, 2u}) {
    ASSERT_TRUE(world->port(rank).post({0, 1}, {}, std::span(&round, 1)).has_value());
  }
  std::string said;
  for (int i = 0; i < 200 && said.find("workers 1 ") == std::string::npos; ++i) {
    const Status waited = world->port(0).wait(milliseconds(50));
    ASSERT_FALSE(waited.has_value());
    EXPECT_EQ(waited.error().code, Code::timeout);
    said = world->port(0).explain({0, 1});
  }
  EXPECT_NE(said.find("waiting for workers 1 (slot 0, use 1)"), std::string::npos) << said;
}

TEST(Stream, RanksThatReduceDifferentThingsAreToldSo) {
  const auto world = world_of(2);
  std::array<std::byte, 16> up{};
  std::array<std::byte, 16> down{};
  const Round round{{.op = Op::wrap_sum, .bits = 64, .count = 1}, std::span(up).first(8), down, {}};
  const Round other{{.op = Op::wrap_sum, .bits = 64, .count = 2}, up, down, {}};
  ASSERT_TRUE(world->port(0).post({0, 1}, {}, std::span(&round, 1)).has_value());
  ASSERT_TRUE(world->port(1).post({0, 1}, {}, std::span(&other, 1)).has_value());
  for (const std::uint32_t rank : {0u, 1u}) {
    Carrier& port = world->port(rank);
    auto answers = port.take({0, 1});
    while (!answers && answers.error().code == Code::pending) {
      ASSERT_TRUE(port.wait(seconds(60)).has_value());
      answers = port.take({0, 1});
    }
    ASSERT_FALSE(answers.has_value());
    EXPECT_EQ(answers.error().code, Code::lost);
    EXPECT_NE(port.explain({0, 1}).find("reduces something else"), std::string::npos)
        << port.explain({0, 1});
  }
}

TEST(Stream, AnAbandonedEndIsDead) {
  const auto world = world_of(2);
  world->port(1).abandon();
  std::array<std::byte, 8> bytes{};
  const Round round{{.op = Op::max, .bits = 8, .count = 8}, bytes, bytes, {}};
  const Status posted = world->port(1).post({0, 1}, {}, std::span(&round, 1));
  ASSERT_FALSE(posted.has_value());
  EXPECT_EQ(posted.error().code, Code::unavailable);
}

TEST(Stream, WorkersAndWindowsOutOfRangeAreRefused) {
  const auto refusal = [](const WorldOptions& options) {
    const auto world = make_world(options);
    return world ? std::string("accepted") : world.error().message;
  };
  EXPECT_NE(refusal({.workers = 65}).find("65 workers"), std::string::npos);
  EXPECT_NE(refusal({.workers = 2, .window = 0}).find("window 0"), std::string::npos);
}

// Variables of the process, for as long as it lives.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Variable() { unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

TEST(Stream, SeveralAggregatorsInOneProcessGiveTheReferencesBytes) {
  const Variable three("SLUICE_AGGREGATOR_THREADS", "3");
  check_references_bytes(2);
}

TEST(Stream, ANumberOfAggregatorsThatCannotBeIsNamed) {
  for (const char* value : {"0", "65", "two"}) {
    const Variable number("SLUICE_AGGREGATOR_THREADS", value);
    const auto world = make_world({.workers = 2});
    ASSERT_FALSE(world.has_value());
    EXPECT_EQ(world.error().message, std::string("environment variable SLUICE_AGGREGATOR_THREADS "
                                                 "is '") +
                                         value + "'; accepted: 1 to 64");
  }
}

TEST(Stream, TheServerCountsAndReports) {
  auto server = std::move(*Server::open(*resolve("127.0.0.1:0"), {}));
  std::thread thread([&] { EXPECT_TRUE(server->run().has_value()); });
  const std::array aggregators{server->address()};
  const protocol::LinkOptions options{
      .rank = 0, .workers = 2, .job = 9, .life = 4, .terms = "test", .channels = 1, .slots = 4};
  auto port = std::move(*Port::open(options, aggregators, Caretaker::no));
  const Verdict joined = port->join(milliseconds(300));
  ASSERT_FALSE(joined.has_value());
  EXPECT_EQ(joined.error().code, Code::timeout);
  EXPECT_NE(joined.error().message.find("workers to join: 1"), std::string::npos)
      << joined.error().message;
  const auto reports = server->reports();
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_TRUE(reports[0].is_forming);
  EXPECT_EQ(reports[0].missing, 2u);
  EXPECT_EQ(reports[0].terms, "test");
  EXPECT_GT(server->counters().control, 0u);
  server->drain();
  server->stop();
  thread.join();
}

}  // namespace
}  // namespace sluice::stream
