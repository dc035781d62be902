#include "group/crew.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/limits.h"
#include "base/random.h"
#include "carrier/local/local.h"
#include "catalog/codecs.h"

namespace sluice {
namespace {

using Floats = std::vector<float>;

// All workers of a world with their data: two tensors of 700 and 77 coordinates.
struct Ship {
  Ship(const std::string& spec, std::uint32_t n, GroupOptions options = {})
      : codec(std::move(*make_codec(spec))) {
    WorldOptions world_options;
    world_options.workers = n;
    world = std::move(*local::make_world(world_options));
    const std::vector<Tensor> tensors{{1, 7, 100}, {2, 1, 77}};
    options.workers = n;
    options.chunk_count = 256;
    for (std::uint32_t rank = 0; rank < n; ++rank) {
      options.rank = rank;
      groups.push_back(
          std::move(*Group::make(options, codec.spec, *codec.codec, world->port(rank), tensors)));
      const RandomStream stream(3, Purpose::data, rank);
      gradients.emplace_back(777);
      for (std::size_t i = 0; i < 777; ++i) gradients[rank][i] = stream.uniform(i) - 0.5f;
      means.emplace_back(777, -7.0f);
    }
  }
  std::vector<Job> jobs(std::uint32_t rank) {
    const auto gradient = std::span<const float>(gradients[rank]);
    const auto mean = std::span(means[rank]);
    return {{0, gradient.first(700), mean.first(700)}, {1, gradient.last(77), mean.last(77)}};
  }
  Verdict step(Crew crew, std::uint64_t number) {
    return run_step(crew, groups, number, [this](std::uint32_t rank) { return jobs(rank); });
  }

  NamedCodec codec;
  std::unique_ptr<World> world;
  std::vector<std::unique_ptr<Group>> groups;
  std::vector<Floats> gradients;
  std::vector<Floats> means;
};

TEST(Crew, IsThreadsWhileThereMayBeThatMany) {
  EXPECT_EQ(crew_for(1), Crew::threads);
  EXPECT_EQ(crew_for(kWorkerThreadsMax), Crew::threads);
  EXPECT_EQ(crew_for(kWorkerThreadsMax + 1), Crew::stepped);
  EXPECT_EQ(crew_for(kWorkersMax), Crew::stepped);
}

TEST(Crew, BothCrewsGiveTheSameBytesForEveryCodec) {
  for (const Info& info : kCodecs) {
    for (const std::uint32_t n : {1u, 2u, 9u}) {
      Ship threads(std::string(info.name), n);
      Ship stepped(std::string(info.name), n);
      for (std::uint64_t step = 0; step < 3; ++step) {
        const Verdict first = threads.step(Crew::threads, step);
        ASSERT_TRUE(first.has_value()) << info.name << ": " << first.error().message;
        const Verdict second = stepped.step(Crew::stepped, step);
        ASSERT_TRUE(second.has_value()) << info.name << ": " << second.error().message;
        for (std::uint32_t rank = 0; rank < n; ++rank) {
          ASSERT_EQ(threads.means[rank], stepped.means[rank]) << info.name << " " << n;
          ASSERT_EQ(threads.means[rank], threads.means[0]) << info.name << " " << n;
        }
      }
    }
  }
}

TEST(Crew, OneThreadStepsManyWorkers) {
  Ship ship("f32", 300);
  ASSERT_TRUE(ship.step(Crew::stepped, 0).has_value());
  for (std::size_t i = 0; i < 777; ++i) {
    float sum = ship.gradients[0][i];
    for (std::uint32_t rank = 1; rank < 300; ++rank) sum += ship.gradients[rank][i];
    ASSERT_EQ(ship.means[0][i], sum / 300) << i;
    ASSERT_EQ(ship.means[299][i], sum / 300) << i;
  }
}

TEST(Crew, SixtyFourThreadsRunConcurrently) {
  Ship ship("fixed", 64);
  for (std::uint64_t step = 0; step < 3; ++step) {
    const Verdict verdict = ship.step(Crew::threads, step);
    ASSERT_TRUE(verdict.has_value()) << verdict.error().message;
  }
  EXPECT_EQ(ship.means[0], ship.means[63]);
}

void expect_mentions(const Verdict& verdict, Code code, const std::vector<std::string>& words) {
  ASSERT_FALSE(verdict.has_value());
  EXPECT_EQ(verdict.error().code, code) << verdict.error().message;
  for (const std::string& word : words) {
    EXPECT_NE(verdict.error().message.find(word), std::string::npos) << verdict.error().message;
  }
}

TEST(Crew, WorkersWithDifferentTensorsAreToldAboutBothSides) {
  for (const Crew crew : {Crew::threads, Crew::stepped}) {
    Ship ship("f32", 3);
    const Verdict verdict = run_step(crew, ship.groups, 6, [&ship](std::uint32_t rank) {
      auto jobs = ship.jobs(rank);
      if (rank == 2) std::swap(jobs[0], jobs[1]);
      return jobs;
    });
    expect_mentions(verdict, Code::mismatch, {"step 6", "worker 0", "worker 2", "mismatch"});
  }
}

TEST(Crew, AWorkerWithFewerTensorsLetsTheOthersWaitInVain) {
  const auto fewer = [](Ship& ship) {
    return [&ship](std::uint32_t rank) {
      auto jobs = ship.jobs(rank);
      if (rank == 1) jobs.pop_back();
      return jobs;
    };
  };
  Ship stepped("f32", 3);
  expect_mentions(run_step(Crew::stepped, stepped.groups, 0, fewer(stepped)), Code::timeout,
                  {"wait for each other"});
  Ship threads("f32", 2, {.timeout = std::chrono::milliseconds(20)});
  expect_mentions(run_step(Crew::threads, threads.groups, 0, fewer(threads)), Code::timeout,
                  {"worker 0 of 2", "waiting for 1 of 2 workers: 1"});
}

TEST(Crew, AJobThatDoesNotFitIsThatWorkersProblem) {
  Ship ship("f32", 2);
  const Verdict verdict = run_step(Crew::stepped, ship.groups, 0, [&ship](std::uint32_t rank) {
    auto jobs = ship.jobs(rank);
    if (rank == 1) jobs[0].tensor = 9;
    return jobs;
  });
  expect_mentions(verdict, Code::invalid_argument, {"does not fit"});
}

TEST(Crew, ADeadGroupIsReported) {
  Ship ship("f32", 2, {.timeout = std::chrono::milliseconds(1)});
  const auto jobs = ship.jobs(0);
  ASSERT_TRUE(ship.groups[0]->start(0, jobs).has_value());
  ASSERT_FALSE(ship.groups[0]->finish().has_value());
  expect_mentions(ship.step(Crew::stepped, 1), Code::unavailable, {"worker 0 of 2"});
}

}  // namespace
}  // namespace sluice
