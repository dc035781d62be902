#include "group/fleet.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>
#include <string>
#include <thread>
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
  std::vector<BucketEntry> entries(std::uint32_t rank) {
    const auto gradient = std::span<const float>(gradients[rank]);
    const auto mean = std::span(means[rank]);
    return {{0, gradient.first(700), mean.first(700)}, {1, gradient.last(77), mean.last(77)}};
  }
  Verdict step(Staffing staffing, std::uint64_t number) {
    return run_step(staffing, groups, number, [this](std::uint32_t rank) { return entries(rank); });
  }

  NamedCodec codec;
  std::unique_ptr<World> world;
  std::vector<std::unique_ptr<Group>> groups;
  std::vector<Floats> gradients;
  std::vector<Floats> means;
};

TEST(Fleet, IsThreadsWhileThereMayBeThatMany) {
  EXPECT_EQ(staffing_for(1), Staffing::threads);
  EXPECT_EQ(staffing_for(kWorkerThreadsMax), Staffing::threads);
  EXPECT_EQ(staffing_for(kWorkerThreadsMax + 1), Staffing::stepped);
  EXPECT_EQ(staffing_for(kWorkersMax), Staffing::stepped);
}

TEST(Fleet, BothStaffingsGiveTheSameBytesForEveryCodec) {
  for (const Info& info : kCodecs) {
    for (const std::uint32_t n : {1u, 2u, 9u}) {
      Ship threads(std::string(info.name), n);
      Ship stepped(std::string(info.name), n);
      for (std::uint64_t step = 0; step < 3; ++step) {
        const Verdict first = threads.step(Staffing::threads, step);
        ASSERT_TRUE(first.has_value()) << info.name << ": " << first.error().message;
        const Verdict second = stepped.step(Staffing::stepped, step);
        ASSERT_TRUE(second.has_value()) << info.name << ": " << second.error().message;
        for (std::uint32_t rank = 0; rank < n; ++rank) {
          ASSERT_EQ(threads.means[rank], stepped.means[rank]) << info.name << " " << n;
          ASSERT_EQ(threads.means[rank], threads.means[0]) << info.name << " " << n;
        }
      }
    }
  }
}

TEST(Fleet, OneThreadStepsManyWorkers) {
  Ship ship("f32", 300);
  ASSERT_TRUE(ship.step(Staffing::stepped, 0).has_value());
  for (std::size_t i = 0; i < 777; ++i) {
    float sum = ship.gradients[0][i];
    for (std::uint32_t rank = 1; rank < 300; ++rank) sum += ship.gradients[rank][i];
    ASSERT_EQ(ship.means[0][i], sum / 300) << i;
    ASSERT_EQ(ship.means[299][i], sum / 300) << i;
  }
}

TEST(Fleet, SixtyFourThreadsRunConcurrently) {
  Ship ship("fixed", 64);
  for (std::uint64_t step = 0; step < 3; ++step) {
    const Verdict verdict = ship.step(Staffing::threads, step);
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

TEST(Fleet, WorkersWithDifferentTensorsAreToldAboutBothSides) {
  for (const Staffing staffing : {Staffing::threads, Staffing::stepped}) {
    Ship ship("f32", 3);
    const Verdict verdict = run_step(staffing, ship.groups, 6, [&ship](std::uint32_t rank) {
      auto entries = ship.entries(rank);
      if (rank == 2) std::swap(entries[0], entries[1]);
      return entries;
    });
    expect_mentions(verdict, Code::mismatch, {"step 6", "worker 0", "worker 2", "mismatch"});
  }
}

TEST(Fleet, AWorkerWithFewerTensorsLetsTheOthersWaitInVain) {
  const auto fewer = [](Ship& ship) {
    return [&ship](std::uint32_t rank) {
      auto entries = ship.entries(rank);
      if (rank == 1) entries.pop_back();
      return entries;
    };
  };
  Ship stepped("bf16", 3);  // each tensor by itself
  expect_mentions(run_step(Staffing::stepped, stepped.groups, 0, fewer(stepped)), Code::timeout,
                  {"wait for each other"});
  Ship threads("bf16", 2, {.timeout = std::chrono::milliseconds(20)});
  expect_mentions(run_step(Staffing::threads, threads.groups, 0, fewer(threads)), Code::timeout,
                  {"worker 0 of 2", "waiting for 1 of 2 workers: 1"});
}

TEST(Fleet, AJobThatDoesNotFitIsThatWorkersProblem) {
  Ship ship("f32", 2);
  const Verdict verdict = run_step(Staffing::stepped, ship.groups, 0, [&ship](std::uint32_t rank) {
    auto entries = ship.entries(rank);
    if (rank == 1) entries[0].tensor = 9;
    return entries;
  });
  expect_mentions(verdict, Code::invalid_argument, {"does not fit"});
}

TEST(Fleet, AWorkerAloneIsTheLastOneTooAndItsErrorIsReported) {
  for (const Staffing staffing : {Staffing::threads, Staffing::stepped}) {
    Ship ship("f32", 1);
    const Verdict verdict = run_step(staffing, ship.groups, 0, [&ship](std::uint32_t rank) {
      auto entries = ship.entries(rank);
      entries[1].mean = entries[1].mean.first(3);
      return entries;
    });
    expect_mentions(verdict, Code::invalid_argument, {"does not fit"});
  }
}

TEST(Fleet, ADeadGroupIsReported) {
  Ship ship("f32", 2, {.timeout = std::chrono::milliseconds(1)});
  const auto entries = ship.entries(0);
  ASSERT_TRUE(ship.groups[0]->start(0, entries).has_value());
  ASSERT_FALSE(ship.groups[0]->finish().has_value());
  expect_mentions(ship.step(Staffing::stepped, 1), Code::unavailable, {"worker 0 of 2"});
}

// A world of three workers that two "processes" share: workers 0 and 2 in one, worker 1 in the
// other. Stands in for a carrier between processes.
std::shared_ptr<World>& shared_world() {
  static std::shared_ptr<World> world;  // owned by both parts, and by nobody between tests
  return world;
}

class PartOfAWorld final : public World {
 public:
  PartOfAWorld(std::shared_ptr<World> whole, std::vector<std::uint32_t> here)
      : whole_(std::move(whole)), here_(std::move(here)) {}
  Carrier& port(std::uint32_t rank) override {
    EXPECT_NE(std::find(here_.begin(), here_.end(), rank), here_.end());
    return whole_->port(rank);
  }
  [[nodiscard]] std::span<const std::uint32_t> here() const override { return here_; }
  [[nodiscard]] double combine_seconds() const override { return whole_->combine_seconds(); }
  Verdict meet(std::span<double>) override { return Nothing{}; }
  Verdict plain_sum(std::span<float>) override { return Problem{Code::unavailable, "none"}; }

 private:
  std::shared_ptr<World> whole_;
  std::vector<std::uint32_t> here_;
};

Checked<std::unique_ptr<World>> make_part(const WorldOptions& options,
                                          std::vector<std::uint32_t> here) {
  if (shared_world() == nullptr) {
    SLUICE_TRY_ASSIGN(auto whole, local::make_world(options));
    shared_world() = std::move(whole);
  }
  return std::unique_ptr<World>(std::make_unique<PartOfAWorld>(shared_world(), std::move(here)));
}
Checked<std::unique_ptr<World>> make_even(const WorldOptions& options) {
  return make_part(options, {0, 2});
}
Checked<std::unique_ptr<World>> make_odd(const WorldOptions& options) {
  return make_part(options, {1});
}

constexpr CarrierInfo kEven{
    .name = "even", .summary = "", .workers_max = 3, .make_world = &make_even};
constexpr CarrierInfo kOdd{.name = "odd", .summary = "", .workers_max = 3, .make_world = &make_odd};
constexpr Tensor kTensors[] = {{1, 7, 100}, {2, 1, 77}};

FleetOptions fleet_options(const CarrierInfo& carrier, std::uint32_t workers) {
  FleetOptions options;
  options.make_world = carrier.make_world;
  options.group.workers = workers;
  options.group.chunk_count = 256;
  return options;
}

TEST(Fleet, IsAWorldAndAGroupForEveryWorker) {
  Ship ship("fixed", 3);
  ASSERT_TRUE(ship.step(Staffing::stepped, 5).has_value());
  const std::vector<Floats> want = ship.means;
  auto made = Fleet::make(fleet_options(local::kInfo, 3), ship.codec, kTensors);
  ASSERT_TRUE(made.has_value()) << made.error().message;
  EXPECT_EQ((*made)->groups().size(), 3u);
  ship.means.assign(3, Floats(777, -7.0f));
  const Verdict stepped = (*made)->step(5, [&](std::uint32_t rank) { return ship.entries(rank); });
  ASSERT_TRUE(stepped.has_value()) << stepped.error().message;
  EXPECT_EQ(ship.means, want);
}

TEST(Fleet, HasTheGroupsOfTheWorkersThatAreHere) {
  Ship ship("fixed", 3);
  ASSERT_TRUE(ship.step(Staffing::stepped, 0).has_value());
  const std::vector<Floats> want = ship.means;
  ship.means.assign(3, Floats(777, -7.0f));
  auto even = Fleet::make(fleet_options(kEven, 3), ship.codec, kTensors);
  auto odd = Fleet::make(fleet_options(kOdd, 3), ship.codec, kTensors);
  shared_world() = nullptr;
  ASSERT_TRUE(even.has_value() && odd.has_value());
  EXPECT_EQ(std::vector(((*even)->here()).begin(), (*even)->here().end()),
            (std::vector<std::uint32_t>{0, 2}));
  ASSERT_EQ((*even)->groups().size(), 2u);
  ASSERT_EQ((*odd)->groups().size(), 1u);
  std::thread other([&] {
    const auto alone = std::this_thread::get_id();
    const Verdict done = (*odd)->step(0, [&](std::uint32_t rank) {
      EXPECT_EQ(rank, 1u);
      EXPECT_EQ(std::this_thread::get_id(), alone) << "a worker alone needs no other thread";
      return ship.entries(rank);
    });
    EXPECT_TRUE(done.has_value());
  });
  std::mutex mutex;
  std::set<std::uint32_t> asked;
  const Verdict done = (*even)->step(0, [&](std::uint32_t rank) {
    const std::lock_guard lock(mutex);
    asked.insert(rank);
    return ship.entries(rank);
  });
  other.join();
  EXPECT_TRUE(done.has_value());
  EXPECT_EQ(asked, (std::set<std::uint32_t>{0, 2}));
  EXPECT_EQ(ship.means, want);
}

// Passes everything on and counts.
class CountingCarrier final : public Carrier {
 public:
  CountingCarrier(Carrier& inner, std::atomic<int>& posts) : inner_(inner), posts_(posts) {}
  Status post(const Ticket& ticket, const Place& place, std::span<const Round> step) override {
    ++posts_;
    return inner_.post(ticket, place, step);
  }
  Result<std::span<const Answer>> take(const Ticket& ticket) override {
    return inner_.take(ticket);
  }
  Status wait(std::chrono::nanoseconds timeout) override { return inner_.wait(timeout); }
  void abandon() override { inner_.abandon(); }
  std::string explain(const Ticket& ticket) override { return inner_.explain(ticket); }

 private:
  Carrier& inner_;
  std::atomic<int>& posts_;
};

TEST(Fleet, WrapsEveryPortThatIsHere) {
  Ship ship("f32", 3);
  std::atomic<int> posts = 0;
  std::vector<std::uint32_t> wrapped;
  FleetOptions options = fleet_options(local::kInfo, 3);
  options.wrap = [&](Carrier& port, std::uint32_t rank) {
    wrapped.push_back(rank);
    return std::make_unique<CountingCarrier>(port, posts);
  };
  auto made = Fleet::make(options, ship.codec, kTensors);
  ASSERT_TRUE(made.has_value());
  EXPECT_EQ(wrapped, (std::vector<std::uint32_t>{0, 1, 2}));
  ASSERT_TRUE((*made)->step(0, [&](std::uint32_t rank) { return ship.entries(rank); }).has_value());
  EXPECT_EQ(posts, 3 * 4);  // 700 coordinates are three chunks of 256, 77 are one
}

TEST(Fleet, ManyWorkersAreSteppedAndOthersWhenAsked) {
  const auto codec = std::move(*make_codec("f32"));
  const std::vector<Tensor> tensors{{1, 1, 40}};
  for (const std::uint32_t n : {kWorkerThreadsMax + 1, 2u}) {
    FleetOptions options = fleet_options(local::kInfo, n);
    if (n == 2) options.staffing = Staffing::stepped;
    auto fleet = Fleet::make(options, codec, tensors);
    ASSERT_TRUE(fleet.has_value()) << fleet.error().message;
    const Floats ones(40, 1.0f);
    std::vector<Floats> means(n, Floats(40));
    const auto caller = std::this_thread::get_id();
    const Verdict done = (*fleet)->step(0, [&](std::uint32_t rank) {
      EXPECT_EQ(std::this_thread::get_id(), caller);
      return std::vector<BucketEntry>{{0, ones, means[rank]}};
    });
    ASSERT_TRUE(done.has_value());
    EXPECT_EQ(means[n - 1], ones);
  }
}

TEST(Fleet, TakesAWorldThatLosesContributions) {
  Ship ship("fixed", 3);
  FleetOptions options = fleet_options(local::kInfo, 3);
  options.make_world =
      local::arranged({.lost = [](const local::Arrival& arrival) { return arrival.rank == 1; }});
  auto fleet = Fleet::make(options, ship.codec, kTensors);
  ASSERT_TRUE(fleet.has_value());
  ASSERT_TRUE(
      (*fleet)->step(0, [&](std::uint32_t rank) { return ship.entries(rank); }).has_value());
  EXPECT_EQ((*fleet)->groups()[0]->stats().contributors_min, 2u);
  const float want = (ship.gradients[0][9] + ship.gradients[2][9]) / 2;
  EXPECT_NEAR(ship.means[1][9], want, 1e-6f);
}

TEST(Fleet, NamesWhatItCannotMake) {
  const auto codec = std::move(*make_codec("f32"));
  const auto refused = [&](const FleetOptions& options, const std::string& word) {
    const auto fleet = Fleet::make(options, codec, kTensors);
    ASSERT_FALSE(fleet.has_value());
    EXPECT_EQ(fleet.error().code, Code::invalid_argument);
    EXPECT_NE(fleet.error().message.find(word), std::string::npos) << fleet.error().message;
  };
  refused(fleet_options(local::kInfo, 0), "0 workers");
  refused(fleet_options(local::kInfo, kWorkersMax + 1), "4097 workers");
  FleetOptions options = fleet_options(local::kInfo, 2);
  options.group.window = 0;
  refused(options, "window 0");
  options.group.window = 1025;
  options.group.chunk_count = 0;
  refused(options, "chunks of 0 coordinates");
}

}  // namespace
}  // namespace sluice
