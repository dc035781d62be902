// One loop over every carrier: the bits of a group, whatever the parts, the window and the carrier.
#include "group/driver.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <functional>
#include <string>
#include <thread>

#include "group/fused_workers_test.h"

namespace sluice {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const std::vector<Tensor> kShapes{{11, 30, 300}, {22, 1, 5}, {33, 100, 200}, {44, 1, 4096}};

class DriverOfCodec : public ::testing::TestWithParam<std::string_view> {};

TEST_P(DriverOfCodec, GivesTheBitsOfTheLocalCarrierHoweverItIsCut) {
  for (const std::size_t parts : {1u, 3u, 50u}) {
    for (const std::uint32_t window : {0u, 1u, 5u}) {
      Workers4 job(GetParam(), kShapes);
      FusedWorkers(job, window).run({.step = kStep}, parts);
      const auto expected = local_means(job);
      for (std::size_t rank = 0; rank < 4; ++rank) {
        ASSERT_EQ(coded_means(job, rank), expected) << rank << " " << parts << " " << window;
      }
    }
  }
}

TEST_P(DriverOfCodec, KeepsResidualsAndModelStateAsAGroupDoes) {
  const bool fed = make_codec(GetParam())->codec->traits(4).takes_feedback();
  Workers4 job(GetParam(), kShapes, {.feedback = fed ? "ef" : "none"});
  FusedWorkers workers(job);
  for (std::uint32_t step = 0; step < 3; ++step) {
    workers.run({.step = kStep + step, .number = step});
    for (const auto& memory : job.memories) memory->end_step();
  }
  EXPECT_EQ(coded_means(job, 0), local_means(job, 3));
}

INSTANTIATE_TEST_SUITE_P(Catalog, DriverOfCodec,
                         ::testing::Values("f32", "bf16", "fixed", "thc", "tide", "lossless",
                                           "tide:scales=previous", "tide:down=narrow"),
                         [](const auto& row) {
                           std::string name(row.param);
                           std::replace_if(
                               name.begin(), name.end(), [](char c) { return !std::isalnum(c); },
                               '_');
                           return name;
                         });

// Runs on every worker's thread over `local`; what they said, empty where all is well.
std::vector<std::string> on_all(Workers4& workers, World& world, std::uint32_t window,
                                const std::function<Status(Driver&, Bucket&, std::size_t)>& run) {
  std::vector<std::string> said(workers.memories.size());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < said.size(); ++rank) {
    threads.emplace_back([&, rank] {
      Driver driver(*workers.memories[rank], world.port(static_cast<std::uint32_t>(rank)), window);
      Bucket bucket(*workers.memories[rank]);
      const Status went = run(driver, bucket, rank);
      if (!went) said[rank] = driver.explain().empty() ? went.error().what : driver.explain();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return said;
}

std::unique_ptr<World> world_of(std::uint32_t window) {
  return std::move(*local::make_world({.workers = 4, .window = window}));
}

Status run_all(Driver& driver, Bucket& bucket, std::chrono::nanoseconds timeout) {
  const Load whole{.bucket = &bucket, .last = bucket.count()};
  SLUICE_TRY(driver.start({&whole, 1}));
  return driver.finish(timeout);
}

TEST(Driver, GivesTheBitsOfAGroupOverOurCarriersToo) {
  for (const std::uint32_t window : {1u, 3u, 16u}) {
    Workers4 workers("tide:bits=3", kShapes, {.feedback = "ef"});
    const auto world = world_of(window);
    const auto said = on_all(workers, *world, window,
                             [&](Driver& driver, Bucket& bucket, std::size_t rank) -> Status {
                               for (std::uint64_t step = kStep; step < kStep + 2; ++step) {
                                 EXPECT_TRUE(bucket.load({.step = step}, workers.entries(rank)));
                                 SLUICE_TRY(run_all(driver, bucket, seconds(60)));
                                 workers.memories[rank]->end_step();
                               }
                               return ok();
                             });
    for (const std::string& one : said) EXPECT_EQ(one, "");
    for (std::size_t rank = 0; rank < 4; ++rank) {
      EXPECT_EQ(coded_means(workers, rank), local_means(workers, 2)) << window;
    }
  }
}

TEST(Driver, PartsOnSeveralThreadsGiveTheSameBits) {
  constexpr std::size_t kParts = 4;
  Workers4 job("tide:scales=previous", kShapes);
  std::vector<std::thread> threads;
  for (std::size_t part = 0; part < kParts; ++part) {
    threads.emplace_back([&job, part] {
      FusedWorkers workers(job);
      for (std::size_t rank = 0; rank < 4; ++rank) {
        FusedWorker& one = workers.ends[rank];
        ASSERT_TRUE(one.load({.step = kStep}, job.entries(rank)));
        const std::size_t count = one.bucket.count();
        ASSERT_TRUE(one.start(count * part / kParts, count * (part + 1) / kParts));
      }
      ASSERT_TRUE(workers.finish());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(coded_means(job, 3), local_means(job));
}

// A leg of all exchanges is one all-to-all where it is small, and two collectives otherwise.
TEST(Driver, BucketsThatTravelTogetherShareTheirCollectives) {
  Workers4 job("tide:bits=4", {{1, 50, 4096}, {2, 50, 4096}, {3, 50, 4096}});
  FusedWorkers workers(job);
  std::deque<Bucket> buckets;
  std::vector<std::vector<Load>> loads(4);
  for (std::size_t rank = 0; rank < 4; ++rank) {
    for (std::size_t tensor = 0; tensor < 3; ++tensor) {
      Bucket& bucket = buckets.emplace_back(*job.memories[rank]);
      ASSERT_TRUE(
          bucket.load({.step = 1, .number = tensor}, job.entries(rank, tensor, tensor + 1)));
      loads[rank].push_back({.bucket = &bucket, .last = bucket.count()});
    }
    ASSERT_TRUE(workers.ends[rank].driver.start(loads[rank]));
  }
  ASSERT_TRUE(workers.finish());
  EXPECT_EQ(workers.hall().met(), 3u);
  EXPECT_EQ(workers.ends[0].port.traffic().collectives, 3u);
}

// A port that counts how often it was abandoned.
class Abandoned final : public Carrier {
 public:
  explicit Abandoned(Carrier& inner) : inner_(inner) {}
  Status post(const Ticket& ticket, const Place& place, std::span<const Round> leg) override {
    return inner_.post(ticket, place, leg);
  }
  Result<std::span<const Answer>> take(const Ticket& ticket) override {
    return inner_.take(ticket);
  }
  Status wait(std::chrono::nanoseconds timeout) override { return inner_.wait(timeout); }
  void abandon() override {
    ++times;
    inner_.abandon();
  }
  std::string explain(const Ticket& ticket) override { return inner_.explain(ticket); }

  int times = 0;

 private:
  Carrier& inner_;
};

// Chunks in flight lie in the caller's memory and the driver's.
TEST(Driver, WhatIsInFlightIsAbandonedAtAFailureAndWhenItEnds) {
  Workers4 workers("fixed", kShapes);
  const auto world = world_of(2);
  Bucket bucket(*workers.memories[0]);
  ASSERT_TRUE(bucket.load({.step = kStep}, workers.entries(0)));
  Abandoned port(world->port(0));
  Driver driver(*workers.memories[0], port, 2);
  EXPECT_FALSE(run_all(driver, bucket, milliseconds(1)));
  EXPECT_EQ(port.times, 1);
  Abandoned other(world->port(1));
  {
    Driver short_lived(*workers.memories[1], other, 2);
    const Load whole{.bucket = &bucket, .last = bucket.count()};
    ASSERT_TRUE(short_lived.start({&whole, 1}));
  }
  EXPECT_EQ(other.times, 1);
}

TEST(Driver, WhoIsMissingIsNamedAndTheDriverIsDead) {
  Workers4 workers("fixed", kShapes);
  const auto world = world_of(2);
  const auto said =
      on_all(workers, *world, 2, [&](Driver& driver, Bucket& bucket, std::size_t rank) -> Status {
        if (rank == 2) return ok();
        EXPECT_TRUE(bucket.load({.step = kStep, .number = 5}, workers.entries(rank)));
        const Status went = run_all(driver, bucket, milliseconds(50));
        EXPECT_TRUE(driver.is_dead());
        const Load whole{.bucket = &bucket, .last = bucket.count()};
        EXPECT_EQ(driver.start({&whole, 1}).error().code, Code::unavailable);
        EXPECT_EQ(driver.advance().error().code, Code::unavailable);
        return went;
      });
  for (const std::size_t rank : {0u, 1u, 3u}) {
    const std::string where = fmt::format("step 7, bucket 5, exchange 0, worker {} of 4", rank);
    EXPECT_EQ(said[rank].find(where), 0u) << said[rank];
    EXPECT_NE(said[rank].find("codec fixed"), std::string::npos) << said[rank];
    // Who has given up by now is missing, too.
    const std::size_t missing = said[rank].find(" of 4 workers: ");
    ASSERT_NE(missing, std::string::npos) << said[rank];
    EXPECT_NE(said[rank].find('2', missing + 15), std::string::npos) << said[rank];
  }
}

TEST(Driver, NothingIsInFlightTwice) {
  Workers4 workers("f32", kShapes, {}, 1);
  const auto world = std::move(*local::make_world({.workers = 1, .window = 2}));
  Driver driver(*workers.memories[0], world->port(0), 2);
  Bucket bucket(*workers.memories[0]);
  ASSERT_TRUE(bucket.load({.step = kStep}, workers.entries(0)));
  const Load whole{.bucket = &bucket, .last = bucket.count()};
  ASSERT_TRUE(driver.start({&whole, 1}));
  EXPECT_EQ(driver.start({&whole, 1}).error().code, Code::invalid_argument);
  ASSERT_TRUE(driver.finish(seconds(60)));
  EXPECT_EQ(workers.means, workers.gradients) << "one worker's mean is its own";
}

// --- ranks that are at different buckets of equal size: all of them must notice, or those that do
// not take sums of two things for a mean ---

struct Case {
  std::string_view spec;
  std::uint64_t rows = 0;  // of 4096, a chunk each
  std::string_view way;
};

// What moves first: values, scales that everybody gets whole, an all-reduce.
constexpr Case kCases[] = {{"f32", 4, "cut"}, {"tide", 2, "whole"}, {"thc:rotation=16", 44, "max"}};

class Disagreement : public ::testing::TestWithParam<Case> {
 protected:
  struct What {
    BucketOrder order;
    std::uint32_t tensor = 0;
    bool second_half = false;
  };
};

TEST_P(Disagreement, IsSeenByAllRanks) {
  const What usual{.order = {.step = 1, .number = 4}};
  const std::array odds{What{.order = {.step = 1, .number = 4}, .tensor = 1},
                        What{.order = {.step = 1, .number = 4}, .second_half = true},
                        What{.order = {.step = 2, .number = 4}},
                        What{.order = {.step = 1, .number = 5}}};
  for (const What& odd : odds) {
    for (std::size_t odd_rank = 0; odd_rank < 4; ++odd_rank) {
      SCOPED_TRACE("rank " + std::to_string(odd_rank));
      Workers4 job(GetParam().spec, {{11, GetParam().rows, 4096}, {12, GetParam().rows, 4096}});
      const auto untouched = job.means;
      FusedWorkers workers(job);
      for (std::size_t rank = 0; rank < 4; ++rank) {
        const What& what = rank == odd_rank ? odd : usual;
        FusedWorker& one = workers.ends[rank];
        ASSERT_TRUE(one.load(what.order, job.entries(rank, what.tensor, what.tensor + 1)));
        const std::size_t half = one.bucket.count() / 2;
        ASSERT_TRUE(one.start(what.second_half ? half : 0, what.second_half ? 2 * half : half));
        static_cast<void>(one.driver.advance());
      }
      for (std::size_t rank = 0; rank < 4; ++rank) {
        const BucketOrder& order = (rank == odd_rank ? odd : usual).order;
        FusedWorker& one = workers.ends[rank];
        EXPECT_FALSE(one.driver.is_dead() ? false : one.driver.advance().has_value());
        EXPECT_EQ(one.driver.explain().rfind(
                      fmt::format("step {}, bucket {}, exchange 0, worker {} of 4, codec ",
                                  order.step, order.number, rank),
                      0),
                  0u)
            << one.driver.explain();
        EXPECT_NE(one.driver.explain().find("mismatch"), std::string::npos) << one.driver.explain();
      }
      EXPECT_EQ(job.means, untouched);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, Disagreement, ::testing::ValuesIn(kCases),
                         [](const auto& row) { return std::string(row.param.way); });

}  // namespace
}  // namespace sluice
