#include "group/group.h"

#include <gtest/gtest.h>

#include <cfenv>
#include <chrono>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/random.h"
#include "carrier/local/local.h"
#include "catalog/codecs.h"

namespace sluice {
namespace {

using Floats = std::vector<float>;

std::unique_ptr<World> world_of(std::uint32_t workers, std::uint32_t window = 8) {
  WorldOptions options;
  options.workers = workers;
  options.window = window;
  return std::move(*local::make_world(options));
}

// A port that notes what goes through it.
class Noting final : public Carrier {
 public:
  struct Note {
    std::uint64_t sequence;
    std::uint64_t digest;
    std::vector<std::uint32_t> lanes;
    friend bool operator==(const Note&, const Note&) = default;
  };
  explicit Noting(Carrier& inner) : inner_(inner) {}
  Status post(const Ticket& ticket, const Place& place, std::span<const Round> step) override {
    notes.push_back({ticket.sequence, ticket.digest, {}});
    for (const Round& round : step) notes.back().lanes.push_back(round.what.count);
    return inner_.post(ticket, place, step);
  }
  Result<std::span<const Answer>> take(const Ticket& ticket) override {
    return inner_.take(ticket);
  }
  Status wait(std::chrono::nanoseconds timeout) override { return inner_.wait(timeout); }
  void abandon() override {
    ++abandoned;
    inner_.abandon();
  }
  std::string explain(const Ticket& ticket) override { return inner_.explain(ticket); }

  std::vector<Note> notes;
  int abandoned = 0;

 private:
  Carrier& inner_;
};

std::unique_ptr<Group> group_of(const GroupOptions& options, const NamedCodec& codec,
                                Carrier& carrier, const std::vector<Tensor>& tensors) {
  auto group = Group::make(options, codec.spec, *codec.codec, carrier, tensors);
  EXPECT_TRUE(group.has_value()) << group.error().message;
  return std::move(*group);
}

Floats noise(std::size_t count, std::uint32_t rank) {
  const RandomStream stream(1, Purpose::data, rank);
  Floats values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = stream.uniform(i) - 0.5f;
  return values;
}

// One worker alone in its world.
struct Solo {
  explicit Solo(const std::string& spec, const std::vector<Tensor>& list = {{1, 10, 100}},
                GroupOptions options = {})
      : codec(std::move(*make_codec(spec))), world(world_of(1)), port(world->port(0)) {
    group = group_of(options, codec, port, list);
  }
  Status step(std::uint64_t number, const std::vector<BucketEntry>& entries) {
    SLUICE_TRY(group->start(number, entries));
    return group->finish();
  }

  NamedCodec codec;
  std::unique_ptr<World> world;
  Noting port;
  std::unique_ptr<Group> group;
};

void expect_refused(const GroupOptions& options, const std::vector<Tensor>& tensors,
                    const std::vector<std::string>& mentioned) {
  const auto codec = make_codec("f32");
  const auto world = world_of(1);
  const auto group = Group::make(options, codec->spec, *codec->codec, world->port(0), tensors);
  ASSERT_FALSE(group.has_value());
  EXPECT_EQ(group.error().code, Code::invalid_argument);
  for (const std::string& one : mentioned) {
    EXPECT_NE(group.error().message.find(one), std::string::npos) << group.error().message;
  }
}

TEST(Group, OptionsOutOfRangeAreNamedWithTheRange) {
  expect_refused({.rank = 0, .workers = 0}, {}, {"0 workers", "1 to 4096"});
  expect_refused({.rank = 0, .workers = 4097}, {}, {"4097 workers", "1 to 4096"});
  expect_refused({.rank = 3, .workers = 3}, {}, {"rank 3", "0 to 2"});
  expect_refused({.window = 0}, {}, {"window 0", "1 to 1024"});
  expect_refused({.window = 1025}, {}, {"window 1025", "1 to 1024"});
  expect_refused({.chunk_count = 0}, {}, {"chunks of 0", "1 to 268435456"});
  expect_refused({.chunk_count = (1u << 28) + 1}, {}, {"268435457"});
}

TEST(Group, TensorsTooLargeAreNamed) {
  const std::uint64_t most = std::uint64_t{1} << 40;
  expect_refused({}, {{0xab, 1, most + 1}}, {"ab", "1 x 1099511627777", "2^40"});
  expect_refused({}, {{0xab, most + 1, 1}}, {"2^40"});
  expect_refused({}, {{0xab, 1u << 21, 1u << 20}}, {"2^40"});
}

TEST(Group, TensorsWhoseProductDoesNotFit64BitsAreRefused) {
  const std::uint64_t most = std::uint64_t{1} << 40;
  expect_refused({}, {{0xab, most, most}}, {"2^40"});
  expect_refused({}, {{0xab, std::uint64_t{1} << 32, std::uint64_t{1} << 32}}, {"2^40"});
  expect_refused({}, {{0xab, (std::uint64_t{1} << 32) + 1, std::uint64_t{1} << 32}}, {"2^40"});
}

TEST(Group, ChunksFollowTheTensorAndThePlan) {
  const std::vector<Tensor> tensors{{1, 1, 1000}, {2, 7, 100}, {3, 1, 1}};
  Solo solo("bf16", tensors, {.chunk_count = 300});  // whole blocks of 256
  Floats values(1701);
  const auto all = std::span(values);
  ASSERT_TRUE(solo.step(0, {{0, all.first(1000), all.first(1000)},
                            {1, all.subspan(1000, 700), all.subspan(1000, 700)},
                            {2, all.last(1), all.last(1)}}));
  std::vector<std::uint32_t> lanes;
  for (std::size_t i = 0; i < solo.port.notes.size(); ++i) {
    EXPECT_EQ(solo.port.notes[i].sequence, i);
    lanes.push_back(solo.port.notes[i].lanes.at(0));
  }
  EXPECT_EQ(lanes, (std::vector<std::uint32_t>{256, 256, 256, 232, 256, 256, 188, 1}));
  EXPECT_EQ(solo.group->stats().chunks, 8u);
}

TEST(Group, AChunkIsAtLeastOneBlockAndAtMostThePlansLargest) {
  Solo small("fixed:block=4096", {{1, 1, 10000}}, {.chunk_count = 1});
  Floats values(10000, 1.0f);
  ASSERT_TRUE(small.step(0, {{0, values, values}}));
  EXPECT_EQ(small.group->stats().chunks, 3u);
  Solo large("f32", {{1, 1, (1u << 20) + 1}}, {.chunk_count = 1u << 28});
  Floats many((1u << 20) + 1, 1.0f);
  ASSERT_TRUE(large.step(0, {{0, many, many}}));
  EXPECT_EQ(large.group->stats().chunks, 2u);
}

TEST(Group, WindowChangesNeitherChunksNorTicketsNorBytes) {
  std::vector<Noting::Note> wanted_notes;
  Floats wanted;
  for (const std::uint32_t window : {1u, 2u, 3u, 8u}) {
    Solo solo("fixed:block=32", {{1, 1, 1000}}, {.seed = 9, .chunk_count = 64, .window = window});
    Floats mean(1000);
    const Floats gradient = noise(1000, 0);
    ASSERT_TRUE(solo.step(3, {{0, gradient, mean}}));
    // Exponents and values of one exchange; across exchanges the order may differ by window.
    std::vector<Noting::Note> notes = solo.port.notes;
    std::stable_sort(notes.begin(), notes.end(),
                     [](const auto& a, const auto& b) { return a.sequence < b.sequence; });
    if (window == 1) {
      wanted_notes = notes;
      wanted = mean;
    }
    EXPECT_EQ(notes, wanted_notes) << window;
    EXPECT_EQ(mean, wanted) << window;
  }
  EXPECT_EQ(wanted_notes.size(), 32u);
}

TEST(Group, TicketsDifferByEverythingThatNamesAChunk) {
  std::vector<std::uint64_t> digests;
  const auto note = [&digests](const std::string& spec, std::uint64_t seed, std::uint64_t id,
                               std::uint64_t step, std::uint64_t size, std::uint32_t chunk) {
    Solo solo(spec, {{id, 1, size}}, {.seed = seed, .chunk_count = chunk});
    Floats values(size);
    ASSERT_TRUE(solo.step(step, {{0, values, values}}));
    for (const auto& one : solo.port.notes) digests.push_back(one.digest);
  };
  note("f32", 0, 1, 0, 512, 512);
  note("f32", 0, 1, 0, 511, 512);  // another size
  note("f32", 0, 1, 1, 512, 512);  // another step
  note("f32", 0, 2, 0, 512, 512);  // another tensor
  note("f32", 1, 1, 0, 512, 512);  // another seed
  note("f32", 0, 1, 0, 512, 256);  // two other chunks
  note("bf16", 0, 1, 0, 512, 512);
  std::sort(digests.begin(), digests.end());
  EXPECT_EQ(digests.size(), 8u);
  EXPECT_EQ(std::unique(digests.begin(), digests.end()), digests.end());
}

TEST(Group, TensorsOfNothingAndStepsWithoutJobsAreFinishedAtOnce) {
  Solo solo("f32", {{1, 0, 5}, {2, 1, 3}, {3, 9, 0}});
  EXPECT_TRUE(*solo.group->advance()) << "no step in flight";
  ASSERT_TRUE(solo.step(0, {}));
  ASSERT_TRUE(solo.step(1, {{0, {}, {}}, {2, {}, {}}}));
  EXPECT_TRUE(solo.port.notes.empty());
  Floats values{1, 2, 3};
  ASSERT_TRUE(solo.step(2, {{0, {}, {}}, {1, values, values}, {2, {}, {}}}));
  EXPECT_EQ(values, (Floats{1, 2, 3}));
  EXPECT_EQ(solo.group->stats().chunks, 1u);
}

TEST(Group, AJobThatDoesNotFitIsRefusedAndNothingStarts) {
  Solo solo("f32", {{1, 1, 10}});
  Floats values(11, 5.0f);
  const auto all = std::span(values);
  for (const BucketEntry& entry :
       {BucketEntry{1, all.first(10), all.first(10)}, BucketEntry{0, all, all},
        BucketEntry{0, all.first(9), all.first(9)}, BucketEntry{0, all.first(10), all},
        BucketEntry{0, {}, {}}}) {
    EXPECT_EQ(solo.step(0, {entry}).error().code, Code::invalid_argument);
    EXPECT_TRUE(solo.port.notes.empty());
  }
  EXPECT_TRUE(solo.step(0, {{0, all.first(10), all.first(10)}})) << "the group lives on";
}

// Two chunks of one tensor at a time would both read and both write its residual.
TEST(Group, ATensorTwiceInAStepIsRefused) {
  Solo solo("fixed", {{1, 1, 10}, {2, 1, 10}}, {.feedback = "ef"});
  Floats values(30, 1.001f);
  const auto all = std::span(values);
  const std::vector<BucketEntry> entries{{0, all.first(10), all.first(10)},
                                         {1, all.subspan(10, 10), all.subspan(10, 10)},
                                         {0, all.last(10), all.last(10)}};
  const Status status = solo.step(0, entries);
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, Code::invalid_argument);
  EXPECT_TRUE(solo.port.notes.empty());
}

TEST(Group, OnlyOneStepIsInFlight) {
  const auto world = world_of(2);
  const auto codec = make_codec("f32");
  const auto group = group_of({.rank = 0, .workers = 2}, *codec, world->port(0), {{1, 1, 4}});
  Floats values(4);
  const std::vector<BucketEntry> entries{{0, values, values}};
  ASSERT_TRUE(group->start(0, entries));
  EXPECT_FALSE(*group->advance());
  EXPECT_EQ(group->start(1, entries).error().code, Code::invalid_argument);
}

// Two workers that take turns on one thread.
struct Pair {
  explicit Pair(const std::string& spec, std::vector<GroupOptions> options = {{}, {}})
      : codec(std::move(*make_codec(spec))), world(world_of(2)) {
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      options[rank].rank = rank;
      options[rank].workers = 2;
      groups.push_back(group_of(options[rank], codec, world->port(rank), {{1, 1, 1000}}));
    }
  }
  Status step(std::uint64_t number, const std::vector<Floats>& gradients,
              std::vector<Floats>& means) {
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      const std::vector<BucketEntry> entries{{0, gradients[rank], means[rank]}};
      SLUICE_TRY(groups[rank]->start(number, entries));
    }
    while (true) {
      SLUICE_TRY_ASSIGN(const bool first, groups[0]->advance());
      SLUICE_TRY_ASSIGN(const bool second, groups[1]->advance());
      if (first && second) return ok();
    }
  }

  NamedCodec codec;
  std::unique_ptr<World> world;
  std::vector<std::unique_ptr<Group>> groups;
};

TEST(Group, WorkersThatDisagreeAreToldAboutBothSides) {
  Pair pair("f32", {{.seed = 1}, {.seed = 2}});
  std::vector<Floats> means(2, Floats(1000, -7.0f));
  const Status status = pair.step(5, {noise(1000, 0), noise(1000, 1)}, means);
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, Code::mismatch);
  EXPECT_FALSE(pair.groups[0]->advance().has_value());
  const bool first_told = !pair.groups[0]->explain().empty();
  const std::string why = pair.groups[first_told ? 0 : 1]->explain();
  for (const char* word : {"step 5", "exchange 0", "of 2", "mismatch", "worker 0", "worker 1"}) {
    EXPECT_NE(why.find(word), std::string::npos) << why;
  }
  EXPECT_EQ(means[0], Floats(1000, -7.0f));
}

TEST(Group, AMissingWorkerIsNamedAndTheGroupIsDead) {
  const auto world = world_of(3);
  const auto codec = make_codec("fixed");
  const auto group = group_of({.rank = 1, .workers = 3, .timeout = std::chrono::milliseconds(1)},
                              *codec, world->port(1), {{1, 1, 100}});
  const Floats gradient(100, 1.0f);
  Floats mean(100, -7.0f);
  const std::vector<BucketEntry> entries{{0, gradient, mean}};
  ASSERT_TRUE(group->start(4, entries));
  EXPECT_EQ(group->explain(), "");
  EXPECT_EQ(group->finish().error().code, Code::timeout);
  const std::string why = group->explain();
  for (const char* word :
       {"step 4", "exchange 0", "worker 1 of 3", "timeout", "waiting for 2 of 3 workers: 0, 2"}) {
    EXPECT_NE(why.find(word), std::string::npos) << why;
  }
  EXPECT_EQ(mean, Floats(100, -7.0f));
  EXPECT_EQ(group->start(5, entries).error().code, Code::unavailable);
  EXPECT_EQ(group->advance().error().code, Code::unavailable);
  EXPECT_EQ(group->finish().error().code, Code::unavailable);
  EXPECT_EQ(group->explain(), why) << "the first cause stays";
}

TEST(Group, AWorkerThatComesLateMayNotReadTheMemoryOfAGroupThatIsGone) {
  const auto world = world_of(2);
  const auto codec = make_codec("f32");
  Floats values(100, 1.0f);
  const std::vector<BucketEntry> entries{{0, values, values}};
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    const auto group =
        group_of({.rank = rank, .workers = 2, .timeout = std::chrono::milliseconds(1)}, *codec,
                 world->port(rank), {{1, 1, 100}});
    ASSERT_TRUE(group->start(0, entries));
    EXPECT_FALSE(group->finish().has_value());
  }
}

// What is in flight lies in the group's memory, which the carrier would go on writing to.
TEST(Group, WhatIsInFlightIsAbandonedWithTheGroupAndAtAFailure) {
  const auto world = world_of(2);
  const auto codec = make_codec("f32");
  Noting port(world->port(0));
  Floats values(100, 1.0f);
  const std::vector<BucketEntry> entries{{0, values, values}};
  const GroupOptions options{.workers = 2, .timeout = std::chrono::milliseconds(1)};
  { const auto idle = group_of(options, *codec, port, {{1, 1, 100}}); }
  EXPECT_EQ(port.abandoned, 0);
  {
    const auto running = group_of(options, *codec, port, {{1, 1, 100}});
    ASSERT_TRUE(running->start(0, entries));
    ASSERT_FALSE(*running->advance());
  }
  EXPECT_EQ(port.abandoned, 1);
  {
    Noting other(world->port(1));
    const auto failing = group_of({.rank = 1, .workers = 2, .timeout = options.timeout}, *codec,
                                  other, {{1, 1, 100}});
    ASSERT_TRUE(failing->start(0, entries));
    ASSERT_FALSE(failing->finish().has_value());
    EXPECT_EQ(other.abandoned, 1) << "at once, not when the group goes";
  }
}

TEST(Group, ErrorFeedbackMakesTheRunningMeanConverge) {
  for (const std::string spec : {"thc:bits=3", "tide:bits=2,down=narrow"}) {
    Pair plain(spec);
    Pair fed(spec, {{.feedback = "ef"}, {.feedback = "ef"}});
    const std::vector<Floats> gradients{noise(1000, 0), noise(1000, 1)};
    std::vector<double> running_plain(1000);
    std::vector<double> running_fed(1000);
    const int steps = 50;
    for (int step = 0; step < steps; ++step) {
      std::vector<Floats> means(2, Floats(1000));
      ASSERT_TRUE(plain.step(static_cast<std::uint64_t>(step), gradients, means));
      for (std::size_t i = 0; i < 1000; ++i) running_plain[i] += means[0][i] / double{steps};
      ASSERT_TRUE(fed.step(static_cast<std::uint64_t>(step), gradients, means));
      for (std::size_t i = 0; i < 1000; ++i) running_fed[i] += means[1][i] / double{steps};
    }
    double worst_plain = 0;
    double worst_fed = 0;
    for (std::size_t i = 0; i < 1000; ++i) {
      const double mean = (double{gradients[0][i]} + double{gradients[1][i]}) / 2;
      worst_plain = std::max(worst_plain, std::fabs(running_plain[i] - mean));
      worst_fed = std::max(worst_fed, std::fabs(running_fed[i] - mean));
    }
    // What is left is the workers' last residuals, divided by the steps.
    double residual = 0;
    for (std::size_t i = 0; i < 1000; ++i) {
      residual = std::max(residual, std::fabs(double{fed.groups[0]->residual(0)[i]} +
                                              double{fed.groups[1]->residual(0)[i]}) /
                                        2);
    }
    EXPECT_LE(worst_fed, residual / steps + 1e-6) << spec;
    EXPECT_GT(worst_plain, 2 * worst_fed) << spec;
  }
}

TEST(Group, ResidualIsReadableAndEmptyWithoutFeedback) {
  Solo fed("fixed", {{1, 1, 3}}, {.feedback = "ef"});
  Floats gradient{0x1p-40f, 2, 3};
  Floats mean(3);
  ASSERT_TRUE(fed.step(0, {{0, gradient, mean}}));
  EXPECT_EQ(mean[0], 0.0f);
  EXPECT_EQ(fed.group->residual(0)[0], 0x1p-40f);
  EXPECT_EQ(fed.group->residual(0)[1], 0.0f);
  Solo plain("fixed", {{1, 1, 3}});
  EXPECT_TRUE(plain.group->residual(0).empty());
}

TEST(Group, StatsCountWhatTravelled) {
  struct Wanted {
    std::string spec;
    std::uint64_t bytes;
    std::uint64_t rounds;
  };
  // 1000 coordinates in chunks of 512: two chunks; fixed adds a byte per block of 256.
  for (const Wanted& wanted :
       {Wanted{"f32", 4000, 2}, Wanted{"bf16", 2000, 2}, Wanted{"fixed", 4004, 4}}) {
    Pair pair(wanted.spec, {{.chunk_count = 512}, {.chunk_count = 512}});
    std::vector<Floats> means(2, Floats(1000));
    for (std::uint64_t step = 0; step < 3; ++step) {
      ASSERT_TRUE(pair.step(step, {noise(1000, 0), noise(1000, 1)}, means));
    }
    for (const auto& group : pair.groups) {
      EXPECT_EQ(group->stats().bytes_up, 3 * wanted.bytes) << wanted.spec;
      EXPECT_EQ(group->stats().bytes_down, 3 * wanted.bytes) << wanted.spec;
      EXPECT_EQ(group->stats().rounds, 3 * wanted.rounds) << wanted.spec;
      EXPECT_EQ(group->stats().chunks, 6u) << wanted.spec;
      EXPECT_EQ(group->stats().contributors_min, 2u) << wanted.spec;
    }
  }
}

TEST(Group, TheMeanMayBeTheGradientsOwnMemory) {
  Pair apart("fixed");
  Pair same("fixed");
  const std::vector<Floats> gradients{noise(1000, 0), noise(1000, 1)};
  std::vector<Floats> means(2, Floats(1000));
  ASSERT_TRUE(apart.step(0, gradients, means));
  std::vector<Floats> both = gradients;
  ASSERT_TRUE(same.step(0, both, both));
  EXPECT_EQ(both, means);
}

TEST(Group, TheCallersRoundingModeChangesNothingAndIsGivenBack) {
  const Floats gradient = noise(1000, 3);
  Solo usual("bf16", {{1, 1, 1000}});
  Floats wanted(1000);
  ASSERT_TRUE(usual.step(0, {{0, gradient, wanted}}));
  Solo odd("bf16", {{1, 1, 1000}});
  Floats mean(1000);
  ASSERT_EQ(std::fesetround(FE_UPWARD), 0);
  const Status status = odd.step(0, {{0, gradient, mean}});
  EXPECT_EQ(std::fegetround(), FE_UPWARD);
  std::fesetround(FE_TONEAREST);
  ASSERT_TRUE(status.has_value());
  EXPECT_EQ(mean, wanted);
}

TEST(Group, ALostStepIsAnErrorThatWritesNothing) {
  const auto world = local::make_world({}, {.lost = [](const local::Arrival&) { return true; }});
  const auto codec = make_codec("f32");
  const auto group = group_of({}, *codec, (*world)->port(0), {{1, 1, 10}});
  Floats values(10, 3.0f);
  Floats mean(10, -7.0f);
  const std::vector<BucketEntry> entries{{0, values, mean}};
  ASSERT_TRUE(group->start(0, entries));
  EXPECT_EQ(group->finish().error().code, Code::lost);
  EXPECT_EQ(mean, Floats(10, -7.0f));
  EXPECT_NE(group->explain().find("lost"), std::string::npos) << group->explain();
}

}  // namespace
}  // namespace sluice
