#include "carrier/mpi/mpi.h"
#include "carrier/mpi/library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/bytes.h"
#include "round/combine.h"
#include "tests/support/mpirun.h"

namespace sluice::mpi {
namespace {

using Bytes = std::vector<std::byte>;
using std::chrono::milliseconds;

constexpr auto kLong = std::chrono::seconds(60);  // never reached

// ---- Without a launcher.

bool says(const Problem& problem, const std::string& words) {
  return problem.message.find(words) != std::string::npos;
}

TEST(Mpi, AProcessThatMpirunDidNotStartIsToldHowToStart) {
  if (support::is_rank()) GTEST_SKIP() << "started by mpirun";
  const auto size = launched();
  ASSERT_FALSE(size.has_value());
  EXPECT_EQ(size.error().code, Code::unavailable);
  EXPECT_TRUE(says(size.error(), "mpirun -n N")) << size.error().message;
  WorldOptions options;
  options.workers = 1;
  const auto world = make_world(options);
  ASSERT_FALSE(world.has_value());
  EXPECT_TRUE(says(world.error(), "mpirun -n N")) << world.error().message;
}

TEST(Mpi, WhatItCannotDoIsRefusedByName) {
  const auto problem = [](const WorldOptions& options) {
    const auto world = make_world(options);
    EXPECT_FALSE(world.has_value());
    EXPECT_EQ(world.error().code, Code::invalid_argument);
    return world.error();
  };
  for (const std::uint32_t window : {0u, 1025u}) {
    WorldOptions wide;
    wide.window = window;
    EXPECT_TRUE(says(problem(wide), "window " + std::to_string(window)));
  }
}

// ---- Ranks: run by the tests at the end, under mpirun.

class MpiRanks : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!support::is_rank()) GTEST_SKIP() << "not started by mpirun";
    const auto size = launched();
    ASSERT_TRUE(size.has_value()) << size.error().message;
    workers_ = *size;
    WorldOptions options;
    options.workers = workers_;
    options.window = 2;
    auto world = make_world(options);
    ASSERT_TRUE(world.has_value()) << world.error().message;
    world_ = std::move(*world);
    ASSERT_EQ(world_->here().size(), 1u);
    rank_ = world_->here()[0];
    ASSERT_LT(rank_, workers_);
    port_ = &world_->port(rank_);
  }

  std::uint32_t workers_ = 0;
  std::uint32_t rank_ = 0;
  std::unique_ptr<World> world_;
  Carrier* port_ = nullptr;
};

Bytes bytes_of(const Reduction& what, std::uint32_t rank, std::uint32_t seed) {
  std::mt19937 random(seed * 1000 + rank);
  if (what.op == Op::block_sum) {
    Bytes up(kBlockListHeader + block_size_max(what));
    store_le(std::span(up), 0, std::uint32_t{1});
    store_le(std::span(up), kBlockListHeader, static_cast<std::uint32_t>(rank % block_count(what)));
    store_le(std::span(up), kBlockListHeader + kBlockHeader, random());
    return up;
  }
  Bytes up(what.op == Op::gather ? random() % (what.count + 1) : up_size(what));
  auto value = static_cast<std::uint32_t>(random());
  for (std::byte& byte : up) byte = static_cast<std::byte>((value = value * 1664525 + 1) >> 24);
  return up;
}

// Every rank knows what all ranks send, so each can check the answers by itself.
struct Trip {
  Trip(std::span<const Reduction> what, std::uint32_t rank, std::uint32_t workers,
       std::uint32_t seed) {
    for (const Reduction& one : what) {
      ups.push_back(std::make_unique<Bytes>(bytes_of(one, rank, seed)));
      downs.push_back(std::make_unique<Bytes>(down_size_max(one, workers)));
      rounds.push_back({one, *ups.back(), *downs.back(), {}});
      std::vector<Bytes> all;
      std::vector<Contribution> contributions;
      for (std::uint32_t other = 0; other < workers; ++other) {
        all.push_back(bytes_of(one, other, seed));
      }
      for (std::uint32_t other = 0; other < workers; ++other) {
        contributions.push_back({other, all[other]});
      }
      AlignedBuffer scratch(scratch_size(one));
      Bytes& down = expected.emplace_back(down_size_max(one, workers));
      down.resize(combine(one, workers, 0, one.count, contributions, scratch.bytes(), down));
    }
  }
  void expect_answers(std::span<const Answer> answers, std::uint32_t workers) const {
    ASSERT_EQ(answers.size(), rounds.size());
    for (std::size_t i = 0; i < answers.size(); ++i) {
      EXPECT_TRUE(check_answer(rounds[i], answers[i], workers)) << i;
      EXPECT_TRUE(std::ranges::equal(answers[i].down, expected[i])) << "round " << i;
    }
  }
  std::vector<std::unique_ptr<Bytes>> ups;
  std::vector<std::unique_ptr<Bytes>> downs;
  std::vector<Round> rounds;
  std::vector<Bytes> expected;
};

const std::vector<Reduction> kMixed{
    {.op = Op::lane_sum, .bits = 4, .down = Down::narrow, .count = 5003, .grain = 64},
    {.op = Op::gather, .bits = 8, .count = 300},
    {.op = Op::block_sum, .bits = 32, .count = 64, .grain = 8},
    {.op = Op::f32_sum, .bits = 32, .count = 1001},
    {.op = Op::max, .bits = 9, .count = 77},
};

TEST_F(MpiRanks, ReduceLikeCombineWithSeveralExchangesInFlight) {
  std::vector<std::unique_ptr<Trip>> trips;
  for (std::uint32_t first = 0; first < 40; first += 2) {
    for (std::uint32_t sequence = first; sequence < first + 2; ++sequence) {
      trips.push_back(std::make_unique<Trip>(kMixed, rank_, workers_, sequence));
      ASSERT_TRUE(port_->post({sequence, 1}, {}, trips.back()->rounds));
    }
    // In the other order on odd ranks.
    for (std::uint32_t i = 0; i < 2; ++i) {
      const std::uint32_t sequence = first + (i + rank_) % 2;
      auto answers = port_->take({sequence, 1});
      while (!answers && answers.error().code == Code::pending) {
        ASSERT_TRUE(port_->wait(kLong));
        answers = port_->take({sequence, 1});
      }
      ASSERT_TRUE(answers.has_value()) << answers.error().what << port_->explain({sequence, 1});
      trips[sequence]->expect_answers(*answers, workers_);
    }
  }
  EXPECT_GT(world_->combine_seconds(), 0);
}

TEST_F(MpiRanks, ReduceMessagesOfMegabytes) {
  const std::vector<Reduction> large{{.op = Op::wrap_sum, .bits = 32, .count = 1000001},
                                     {.op = Op::lane_sum, .bits = 4, .count = 1u << 20}};
  for (std::uint32_t leg = 0; leg < 2; ++leg) {
    const Trip trip(large, rank_, workers_, leg);
    ASSERT_TRUE(port_->post({7, 1}, {}, trip.rounds));
    auto answers = port_->take({7, 1});
    while (!answers && answers.error().code == Code::pending) {
      ASSERT_TRUE(port_->wait(kLong));
      answers = port_->take({7, 1});
    }
    ASSERT_TRUE(answers.has_value()) << answers.error().what;
    trip.expect_answers(*answers, workers_);
  }
}

TEST_F(MpiRanks, MeetAndSumWithoutUs) {
  std::array<double, 2> values{static_cast<double>(rank_), -static_cast<double>(rank_)};
  ASSERT_TRUE(world_->meet(values).has_value());
  EXPECT_EQ(values[0], workers_ - 1);
  EXPECT_EQ(values[1], 0);
  EXPECT_TRUE(world_->meet({}).has_value());
  std::vector<float> sums(1000, static_cast<float>(rank_ + 1));
  ASSERT_TRUE(world_->plain_sum(sums).has_value());
  const auto expected = static_cast<float>(workers_ * (workers_ + 1) / 2);
  EXPECT_EQ(std::count(sums.begin(), sums.end(), expected), 1000);
}

// Who comes late finds the next meeting's messages beside those of this one. Every other meeting
// has values of many kilobytes: the sender waits for the receiver.
TEST_F(MpiRanks, MeetManyTimesAndNobodyGetsAhead) {
  std::vector<double> values(4000);
  for (std::uint32_t time = 0; time < 200; ++time) {
    const std::span<double> some = std::span(values).first(time % 2 == 0 ? 3 : values.size());
    std::fill(some.begin(), some.end(), -1.0 - rank_);
    some[0] = time * 100.0 + rank_;
    ASSERT_TRUE(world_->meet(some).has_value());
    ASSERT_EQ(some[0], time * 100.0 + workers_ - 1);
    ASSERT_EQ(std::count(some.begin() + 1, some.end(), -1.0), std::ssize(some) - 1);
  }
}

// MPI_MAX in the order of ranks: NaN stays only if it comes last.
TEST_F(MpiRanks, MeetWithNanAndGetTheSame) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  std::array<double, 2> values{rank_ == 0 ? kNan : 1.0, rank_ + 1 == workers_ ? kNan : 1.0};
  ASSERT_TRUE(world_->meet(values).has_value());
  EXPECT_EQ(std::isnan(values[0]), workers_ == 1);
  EXPECT_TRUE(std::isnan(values[1]));
}

TEST_F(MpiRanks, DisagreeOnAMeetingAndAreNamed) {
  std::vector<double> values(rank_ == 2 ? 3 : 2);
  const Verdict met = world_->meet(values);
  ASSERT_FALSE(met.has_value());
  EXPECT_EQ(met.error().code, Code::mismatch);
  EXPECT_EQ(met.error().message, rank_ == 2 ? "mpi: meeting: 3 values, but worker 0 has 2"
                                            : "mpi: meeting: 2 values, but worker 2 has 3");
}

TEST_F(MpiRanks, AnotherNumberOfWorkersIsRefusedWithBoth) {
  WorldOptions options;
  options.workers = workers_ + 1;
  const auto world = make_world(options);
  ASSERT_FALSE(world.has_value());
  EXPECT_TRUE(says(world.error(), std::to_string(workers_ + 1) + " workers")) << workers_;
  EXPECT_TRUE(says(world.error(), "started " + std::to_string(workers_))) << workers_;
}

TEST_F(MpiRanks, UseOfThePortOutOfTurnIsRefused) {
  EXPECT_EQ(port_->take({0, 0}).error().code, Code::invalid_argument);
  EXPECT_EQ(port_->post({0, 0}, {}, {}).error().code, Code::invalid_argument);
  const Trip trip(kMixed, rank_, workers_, 1);
  ASSERT_TRUE(port_->post({0, 0}, {}, trip.rounds));
  EXPECT_EQ(port_->post({4, 0}, {}, trip.rounds).error().code, Code::exhausted);  // the same slot
  while (port_->take({0, 0}).has_value() == false) ASSERT_TRUE(port_->wait(kLong));
}

// Large enough that the sender waits for the receiver.
std::vector<Reduction> mixed_and_large() {
  std::vector<Reduction> what = kMixed;
  what.push_back({.op = Op::wrap_sum, .bits = 32, .count = 1u << 20});
  return what;
}

// The last rank reduces something else. Everybody says so.
TEST_F(MpiRanks, DisagreeAndAreNamed) {
  const bool odd = rank_ + 1 == workers_;
  std::vector<Reduction> what = mixed_and_large();
  if (odd) what[0].count += 4096;
  const Trip trip(what, rank_, workers_, 1);
  ASSERT_TRUE(port_->post({3, 1}, {}, trip.rounds));
  auto answers = port_->take({3, 1});
  while (!answers && answers.error().code == Code::pending) {
    ASSERT_TRUE(port_->wait(kLong));
    answers = port_->take({3, 1});
  }
  ASSERT_FALSE(answers.has_value());
  EXPECT_EQ(answers.error().code, Code::mismatch);
  const std::string cause = port_->explain({3, 1});
  const std::string other = odd ? "(0, 1, 2)" : "(" + std::to_string(workers_ - 1) + ")";
  EXPECT_NE(cause.find(other), std::string::npos) << cause;
}

class MpiRanksMissing : public MpiRanks {
 protected:
  // Waits until just these are missing; the others may be slow to come.
  void expect_missing(const std::string& ranks) {
    const Trip trip(mixed_and_large(), rank_, workers_, 1);
    ASSERT_TRUE(port_->post({0, 1}, {}, trip.rounds));
    std::string cause;
    const auto deadline = std::chrono::steady_clock::now() + kLong;
    while (cause.find(ranks) == std::string::npos && std::chrono::steady_clock::now() < deadline) {
      const Status waited = port_->wait(milliseconds(50));
      ASSERT_FALSE(waited.has_value());
      EXPECT_EQ(waited.error().code, Code::timeout);
      cause = port_->explain({0, 1});
    }
    EXPECT_NE(cause.find(ranks), std::string::npos) << cause;
    EXPECT_EQ(port_->take({0, 1}).error().code, Code::pending);
    port_->abandon();
    EXPECT_EQ(port_->post({1, 1}, {}, trip.rounds).error().code, Code::unavailable);
    EXPECT_EQ(port_->take({0, 1}).error().code, Code::unavailable);
  }
};

// Ranks 1 and 2 have ended by themselves: all can part in peace.
TEST_F(MpiRanksMissing, AreNamed) {
  ASSERT_TRUE(world_->meet({}).has_value());
  if (rank_ != 1 && rank_ != 2) expect_missing("waiting for 2 of 4 workers: 1, 2");
}

std::string line_of(std::uint32_t rank) { return fmt::format("rank {} is content\n", rank); }

// Rank 1 never comes and never ends: the others leave, and the launcher ends it.
TEST_F(MpiRanksMissing, DoNotHoldTheOthersUp) {
  ASSERT_TRUE(world_->meet({}).has_value());
  if (rank_ == 1) {
    static_cast<void>(world_->meet({}));
    FAIL() << "met nobody and went on";
  }
  expect_missing("waiting for 1 of 4 workers: 1");
  if (!HasFailure()) fmt::print("{}", line_of(rank_));
  std::fflush(stdout);
}

// Rank 3 hangs outside of MPI. Whoever meets without it says so and leaves.
TEST_F(MpiRanksMissing, AreNamedByAMeeting) {
  WorldOptions options;
  options.workers = workers_;
  options.timeout = std::chrono::seconds(3);
  const auto made = make_world(options);
  ASSERT_TRUE(made.has_value()) << made.error().message;
  World& world = **made;
  std::array<double, 1> values{static_cast<double>(rank_)};
  ASSERT_TRUE(world.meet(values).has_value());
  while (rank_ == 3) pause();
  const auto start = std::chrono::steady_clock::now();
  std::array<float, 1> sums{1};
  const Verdict met = rank_ == 0 ? world.plain_sum(sums) : world.meet({});
  const auto took = std::chrono::steady_clock::now() - start;
  ASSERT_FALSE(met.has_value());
  EXPECT_EQ(met.error().code, Code::timeout);
  EXPECT_EQ(met.error().message, "mpi: meeting: waiting for 1 of 4 workers: 3");
  EXPECT_GE(took, options.timeout);
  EXPECT_LT(took, kLong / 2);
  EXPECT_EQ(world.meet(values).error().code, Code::timeout);  // at once, and again by name
  EXPECT_EQ(world.plain_sum(sums).error().message, met.error().message);
  if (!HasFailure()) fmt::print("{}", line_of(rank_));
  std::fflush(stdout);
}

// Rank 2 makes one world less than the others, who are told.
TEST_F(MpiRanksMissing, AreNamedByTheNextWorld) {
  if (rank_ == 2) return;
  WorldOptions options;
  options.workers = workers_;
  options.timeout = std::chrono::seconds(3);
  for (int time = 0; time < 2; ++time) {  // and again at once
    const auto made = make_world(options);
    ASSERT_FALSE(made.has_value());
    EXPECT_EQ(made.error().code, Code::timeout);
    EXPECT_EQ(made.error().message, "mpi: meeting: waiting for 1 of 4 workers: 2");
  }
  EXPECT_EQ(launched().error().code, Code::timeout);
}

// A program initialises MPI and does not get to its first world: nothing of ours has a name yet.
TEST(MpiRanksBare, FirstWorldDoesNotWaitWithoutEnd) {
  if (!support::is_rank()) GTEST_SKIP() << "not started by mpirun";
  void* const file = dlopen("libmpi.so.40", RTLD_NOW | RTLD_GLOBAL);
  ASSERT_NE(file, nullptr);
  const auto init = reinterpret_cast<int (*)(int*, char***)>(dlsym(file, "MPI_Init"));
  const auto finalize = reinterpret_cast<int (*)()>(dlsym(file, "MPI_Finalize"));
  const auto send = reinterpret_cast<int (*)(const void*, int, Datatype, int, int, Comm)>(
      dlsym(file, "MPI_Send"));
  const auto receive = reinterpret_cast<int (*)(void*, int, Datatype, int, int, Comm, Envelope*)>(
      dlsym(file, "MPI_Recv"));
  ASSERT_EQ(init(nullptr, nullptr), 0);
  const auto library = start();
  ASSERT_TRUE(library.has_value()) << library.error().message;
  WorldOptions options;
  options.workers = 3;
  char word = 0;
  if (std::string(std::getenv("OMPI_COMM_WORLD_RANK")) != "1") {
    options.timeout = std::chrono::seconds(1);
    const auto made = make_world(options);
    ASSERT_FALSE(made.has_value());
    EXPECT_EQ(made.error().code, Code::timeout);
    EXPECT_EQ(made.error().message, "mpi: not all workers came to make a world within 1 s");
    ASSERT_EQ(send(&word, 1, (*library)->byte, 1, 0, (*library)->world), 0);
  } else {
    for (const int from : {0, 2}) {
      Envelope envelope;
      ASSERT_EQ(receive(&word, 1, (*library)->byte, from, 0, (*library)->world, &envelope), 0);
    }
  }
  // Whoever asks again goes on waiting, so a rank may be late.
  options.timeout = std::chrono::seconds(60);
  EXPECT_TRUE(make_world(options).has_value());
  EXPECT_EQ(finalize(), 0);
}

// ---- The jobs.

// Why the job cannot run, or nothing.
std::string no_job() { return support::is_rank() ? "a rank itself" : support::why_no_ranks(); }

void expect_job(std::uint32_t ranks, const std::string& filter) {
  const support::Ranks job = support::run_ranks(ranks, filter);
  EXPECT_TRUE(job.succeeded) << job.output;
}

TEST(MpiJob, FourRanksReduce) {
  if (!no_job().empty()) GTEST_SKIP() << no_job();
  expect_job(4, "MpiRanks.Reduce*:MpiRanks.Meet*:MpiRanks.Another*:MpiRanks.Use*");
}

TEST(MpiJob, OneAndThreeRanksReduce) {
  if (!no_job().empty()) GTEST_SKIP() << no_job();
  expect_job(1, "MpiRanks.Reduce*:MpiRanks.Meet*");
  expect_job(3, "MpiRanks.Reduce*:MpiRanks.Meet*");
}

TEST(MpiJob, RanksThatDisagreeAreNamed) {
  if (!no_job().empty()) GTEST_SKIP() << no_job();
  expect_job(4, "MpiRanks.DisagreeAndAreNamed");
  expect_job(4, "MpiRanks.DisagreeOnAMeeting*");
}

TEST(MpiJob, RanksThatStayAwayAreNamed) {
  if (!no_job().empty()) GTEST_SKIP() << no_job();
  expect_job(4, "MpiRanksMissing.AreNamed");
}

TEST(MpiJob, RanksThatMakeNoWorldAreMissed) {
  if (!no_job().empty()) GTEST_SKIP() << no_job();
  expect_job(4, "MpiRanksMissing.AreNamedByTheNextWorld");
  expect_job(3, "MpiRanksBare.FirstWorldDoesNotWaitWithoutEnd");
}

// The launcher ends the one that hangs, when all others are content.
void expect_job_without(std::uint32_t missing, const std::string& filter) {
  const support::Ranks job = support::run_ranks(4, filter);
  EXPECT_FALSE(job.succeeded);
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    const bool content = job.output.find(line_of(rank)) != std::string::npos;
    EXPECT_EQ(content, rank != missing) << rank << job.output;
  }
  EXPECT_EQ(job.output.find("met nobody"), std::string::npos) << job.output;
}

TEST(MpiJob, ARankThatHangsDoesNotHoldTheOthersUp) {
  if (!no_job().empty()) GTEST_SKIP() << no_job();
  expect_job_without(1, "MpiRanksMissing.DoNotHold*");
}

TEST(MpiJob, ARankThatHangsIsNamedByAMeeting) {
  if (!no_job().empty()) GTEST_SKIP() << no_job();
  expect_job_without(3, "MpiRanksMissing.AreNamedByAMeeting");
}

}  // namespace
}  // namespace sluice::mpi
