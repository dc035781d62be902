// Waves: every rank makes the same ones, whatever is late where.
#include "group/waves.h"

#include <gtest/gtest.h>

#include <deque>
#include <optional>
#include <random>

#include "carrier/fused_port.h"
#include "device/device_memory.h"
#include "group/track.h"
#include "group/workers_test.h"
#include "tests/support/hall.h"

namespace sluice {
namespace {

using support::Hall;

const std::vector<Tensor> kShapes{{11, 4, 300}, {22, 1, 4097}, {33, 10, 20},
                                  {44, 1, 1},   {55, 3, 4096}, {66, 2, 700}};

// Collectives that are done some time after all have come.
class Slow final : public Collectives {
 public:
  Slow(Collectives& inner, std::mt19937& random, unsigned one_in)
      : inner_(inner), random_(random), one_in_(one_in) {}
  std::span<std::byte> reserve(Buffer buffer, std::size_t size) override {
    return inner_.reserve(buffer, size);
  }
  Status start(const Call& call) override { return inner_.start(call); }
  Result<bool> test() override { return random_() % one_in_ == 0 ? inner_.test() : false; }
  Status wait(std::chrono::nanoseconds timeout) override { return inner_.wait(timeout); }

 private:
  Collectives& inner_;
  std::mt19937& random_;
  unsigned one_in_;
};

// One rank's tracks, advanced by hand.
struct Rank {
  struct Served {
    Served(Memory& memory, Waves& waves, std::size_t index, Collectives& inner,
           std::mt19937& random)
        : slow(inner, random, 1u << random() % 4),
          port(memory.options().rank, memory.options().workers, slow),
          driver(memory, port, 0),
          track(waves, index, driver, &port),
          one_in(1u << random() % 5) {}
    Slow slow;
    FusedPort port;
    Driver driver;
    Track track;
    unsigned one_in;                    // how rarely it gets on
    std::optional<std::uint64_t> turn;  // that it is in
  };

  Rank(Memory& memory, std::span<const std::unique_ptr<Hall>> halls, std::uint64_t bound,
       std::mt19937& random)
      : waves(memory, {.tracks = halls.size(), .coordinates_max = bound}),
        one_in(1u << random() % 6) {
    for (std::size_t i = 0; i < halls.size(); ++i) {
      tracks.emplace_back(memory, waves, i, halls[i]->of(memory.options().rank), random);
    }
  }
  Waves waves;
  unsigned one_in;  // how rarely a bucket comes
  std::deque<Served> tracks;
  std::size_t put = 0;
  std::vector<std::uint64_t> done;
  std::vector<std::uint64_t> turns;
};

// Four ranks whose buckets come, and whose tracks get on, in an order that a seed chooses. Buckets
// are a tensor each; the fourth of what is put in a step is a turn.
class Chance {
 public:
  static constexpr std::size_t kTurn = 3;
  static constexpr std::size_t kUnits = 9;  // of a step

  Chance(std::uint32_t seed, std::size_t tracks, std::uint64_t bound)
      : random_(seed), workers("tide:bits=3", kShapes, {.feedback = "ef"}) {
    for (std::size_t i = 0; i < tracks; ++i) halls.push_back(std::make_unique<Hall>(4));
    for (const auto& memory : workers.memories) ranks.emplace_back(*memory, halls, bound, random_);
  }

  void put(std::size_t index) {
    Rank& rank = ranks[index];
    const std::size_t number = rank.put++;
    const std::size_t place = number % kUnits;
    if (place == kTurn) {
      ASSERT_EQ(*rank.waves.put_turn(), number);
      return;
    }
    const std::size_t tensor = place < kTurn ? place : place - 1;
    const auto entries = workers.entries(index, tensor, tensor + 1);
    ASSERT_EQ(*rank.waves.put({.step = kStep + number / kUnits}, entries), number);
  }

  // Whether something happened.
  void advance(std::size_t index, std::size_t track_index) {
    Rank& rank = ranks[index];
    Rank::Served& served = rank.tracks[track_index];
    Collectives& own = halls[track_index]->of(static_cast<std::uint32_t>(index));
    if (served.turn) {  // Its own collective, which the others of this turn must come to.
      if (!*own.test()) return;
      rank.turns.push_back(*served.turn);
      served.turn.reset();
    }
    const auto event = served.track.advance();
    ASSERT_TRUE(event.has_value()) << event.error().what << served.driver.explain();
    if (event->kind == Track::Event::Kind::bucket) rank.done.push_back(event->bucket.number);
    if (event->kind == Track::Event::Kind::turn) {
      served.turn = event->turn;
      own.reserve(Collectives::Buffer::send, 8);
      own.reserve(Collectives::Buffer::received, 32);
      ASSERT_TRUE(own.start({.kind = Collectives::Kind::all_gather, .count = 8}));
    }
  }

  void run(std::size_t steps) {
    ASSERT_EQ(workers.tensors.size() + 1, kUnits);
    for (std::size_t step = 1; step <= steps; ++step) {
      run_until(step * kUnits);
      if (::testing::Test::HasFatalFailure()) return;
      for (const auto& memory : workers.memories) memory->end_step();
    }
  }

 private:
  void run_until(std::size_t all) {
    const auto is_done = [&](const Rank& rank) {
      return rank.done.size() + rank.turns.size() == all;
    };
    for (std::uint64_t moves = 0; !std::all_of(ranks.begin(), ranks.end(), is_done); ++moves) {
      ASSERT_LT(moves, 2'000'000u) << "hangs";
      const std::size_t index = random_() % ranks.size();
      Rank& rank = ranks[index];
      if (rank.put < all && random_() % rank.one_in == 0) put(index);
      const std::size_t track = random_() % rank.tracks.size();
      if (random_() % rank.tracks[track].one_in == 0) advance(index, track);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }

  std::mt19937 random_;

 public:
  Workers4 workers;
  std::vector<std::unique_ptr<Hall>> halls;
  std::deque<Rank> ranks;
};

TEST(Waves, AThousandSeedsOfDelaysNeitherHangNorChangeABit) {
  std::vector<std::vector<float>> expected;
  std::vector<float> residual;
  for (std::uint32_t seed = 0; seed < 1000; ++seed) {
    SCOPED_TRACE(seed);
    Chance chance(seed, 1 + seed % 3, seed % 5 == 0 ? 5000 : 1u << 21);
    chance.run(2);
    if (HasFatalFailure()) return;
    if (seed == 0) expected = chance.workers.means[0];
    for (const auto& means : chance.workers.means) ASSERT_EQ(means, expected);
    const auto kept = chance.workers.memories[2]->residual(4);
    if (seed == 0) residual.assign(kept.begin(), kept.end());
    ASSERT_TRUE(std::equal(residual.begin(), residual.end(), kept.begin(), kept.end()));
    for (const Rank& rank : chance.ranks) {
      ASSERT_EQ(rank.turns,
                (std::vector<std::uint64_t>{Chance::kTurn, Chance::kUnits + Chance::kTurn}));
    }
  }
}

// What is put, as a table of waves: numbers of buckets with their chunks, or a turn.
class Agreed : public ::testing::Test {
 protected:
  explicit Agreed(WavesOptions options = {.tracks = 2, .coordinates_max = 6 * 4096})
      : workers_("f32", {{1, 1, 4096 * 3}, {2, 1, 4096}, {3, 1, 4096}, {4, 1, 4096}}),
        waves_(*workers_.memories[0], options) {}

  std::uint64_t put(std::size_t tensor, std::uint64_t step = 1) {
    return *waves_.put({.step = step}, workers_.entries(0, tensor, tensor + 1));
  }
  // "0[0-3) 1[0-1)", "turn 2", "-".
  std::string take(std::size_t track) {
    switch (waves_.take(track, wave_)) {
      case Waves::Next::nothing: return "-";
      case Waves::Next::closed: return "closed";
      case Waves::Next::failed: return "failed";
      case Waves::Next::wave: break;
    }
    if (wave_.is_turn) return "turn " + std::to_string(wave_.turn);
    std::string text;
    for (const Load& load : wave_.loads) {
      text += (text.empty() ? "" : " ") + std::to_string(load.bucket->order().number) + "[" +
              std::to_string(load.first) + "-" + std::to_string(load.last) + ")";
    }
    return text;
  }

  Workers4 workers_;
  Waves waves_;
  Waves::Wave wave_;
};

TEST_F(Agreed, NothingKnownIsTheNextOneAlone) {
  EXPECT_EQ(take(0), "-");
  put(0);
  put(1);
  EXPECT_EQ(take(1), "-") << "the first wave is track 0's";
  EXPECT_EQ(take(0), "0[0-3)");
  EXPECT_EQ(take(1), "-") << "nobody knows yet what the next one is";
}

TEST_F(Agreed, WhatEverybodyHasGoesTogetherOnTheNextLane) {
  for (const std::size_t tensor : {0u, 1u, 2u, 3u}) put(tensor);
  EXPECT_EQ(take(0), "0[0-3)");
  waves_.hear(wave_, 4, false);
  EXPECT_EQ(take(1), "-") << "scales settle nothing";
  waves_.hear(wave_, 3, true);
  waves_.hear(wave_, 4, true);
  EXPECT_EQ(take(0), "-");
  EXPECT_EQ(take(1), "1[0-1) 2[0-1)") << "what the first bulk said holds";
}

TEST_F(Agreed, TheEndOfAWaveSettlesWithWhatWasHeardLast) {
  for (const std::size_t tensor : {0u, 1u, 2u, 3u}) put(tensor);
  EXPECT_EQ(take(0), "0[0-3)");
  waves_.hear(wave_, 2, false);
  waves_.hear(wave_, 3, false);
  waves_.finish(wave_, wave_.loads);
  EXPECT_EQ(take(1), "1[0-1) 2[0-1)");
}

TEST_F(Agreed, WhereNothingIsToldTheLastAgreedValueHolds) {
  for (const std::size_t tensor : {0u, 1u, 2u, 3u}) put(tensor);
  EXPECT_EQ(take(0), "0[0-3)");
  waves_.hear(wave_, std::nullopt, true);
  EXPECT_EQ(take(1), "1[0-1)");
  waves_.finish(wave_, wave_.loads);
  EXPECT_EQ(take(0), "2[0-1)");
}

TEST_F(Agreed, ASmallWaveSettlesAtItsEnd) {
  put(1);
  EXPECT_EQ(take(0), "0[0-1)");
  for (const std::size_t tensor : {0u, 2u, 3u}) put(tensor);
  waves_.hear(wave_, 1, true);
  EXPECT_EQ(take(1), "-");
  waves_.hear(wave_, 4, true);
  EXPECT_EQ(take(1), "-");
  waves_.finish(wave_, wave_.loads);
  EXPECT_EQ(take(1), "1[0-3) 2[0-1) 3[0-1)") << "with what was heard last";
}

// Numbers 0 to 2 are the step before, of as many units.
TEST_F(Agreed, ASmallWaveSettlesAtOnceWhereEverybodyHasTheRestOfTheStep) {
  for (const std::size_t tensor : {1u, 2u, 3u}) put(tensor);
  for (const std::size_t track : {0u, 1u, 0u}) {
    ASSERT_NE(take(track), "-");
    waves_.finish(wave_, wave_.loads);
  }
  put(1, 2);
  EXPECT_EQ(take(1), "3[0-1)");
  put(2, 2);
  waves_.hear(wave_, 5, true);
  EXPECT_EQ(take(0), "-") << "one more will come";
  put(3, 2);
  waves_.hear(wave_, 6, true);
  EXPECT_EQ(take(0), "4[0-1) 5[0-1)");
}

TEST_F(Agreed, ATurnIsAWaveByItself) {
  put(0);
  EXPECT_EQ(*waves_.put_turn(), 1u);
  put(1);
  put(2);
  EXPECT_EQ(take(0), "0[0-3)");
  waves_.hear(wave_, 4, true);
  EXPECT_EQ(take(1), "turn 1");
  EXPECT_EQ(take(0), "2[0-1) 3[0-1)") << "it does not wait for the turn";
}

TEST_F(Agreed, MoreThanWeHaveIsNotBelieved) {
  put(0);
  put(1);
  EXPECT_EQ(take(0), "0[0-3)");
  waves_.hear(wave_, 1u << 30, true);
  EXPECT_EQ(take(1), "1[0-1)");
}

TEST_F(Agreed, ClosedWhenAllIsTakenOrAtOnce) {
  put(0);
  waves_.close(false);
  EXPECT_EQ(take(1), "-");
  EXPECT_EQ(take(0), "0[0-3)");
  EXPECT_EQ(take(1), "closed");
  EXPECT_FALSE(waves_.put_turn().has_value());
  EXPECT_FALSE(waves_.put({.step = 1}, workers_.entries(0, 1, 2)).has_value());
}

TEST_F(Agreed, ClosedAtOnceThoughThereIsMore) {
  put(0);
  waves_.close(true);
  EXPECT_EQ(take(0), "closed");
}

TEST_F(Agreed, AFailureIsEverybodys) {
  put(0);
  waves_.fail();
  EXPECT_EQ(take(0), "failed");
  EXPECT_EQ(take(1), "failed");
}

TEST_F(Agreed, JobsThatDoNotFitTakeNoNumber) {
  auto entries = workers_.entries(0, 0, 1);
  entries[0].tensor = 99;
  EXPECT_FALSE(waves_.put({.step = 1}, entries).has_value());
  EXPECT_EQ(put(1), 0u);
}

TEST_F(Agreed, ATensorOfAnUnfinishedBucketIsRefusedAndTakesNoNumber) {
  put(0);
  put(1);
  const auto refused = waves_.put({.step = 2}, workers_.entries(0, 1, 3));
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message.find("tensor 1 is in bucket 1 of step 1"), std::string::npos)
      << refused.error().message;
  EXPECT_EQ(put(2), 2u) << "of what was refused nothing is taken";
  EXPECT_EQ(take(0), "0[0-3)");
  EXPECT_FALSE(waves_.put({.step = 2}, workers_.entries(0, 0, 1)).has_value());
  waves_.finish(wave_, wave_.loads);
  EXPECT_EQ(put(0, 2), 3u);
}

class Bounded : public Agreed {
 protected:
  Bounded() : Agreed({.tracks = 1, .coordinates_max = 2 * 4096}) {}
};

TEST_F(Bounded, ALargeBucketIsSeveralWaves) {
  for (const std::size_t tensor : {0u, 1u, 2u, 3u}) put(tensor);
  EXPECT_EQ(take(0), "0[0-2)");
  waves_.hear(wave_, 4, true);
  auto finished = waves_.finish(wave_, wave_.loads);
  EXPECT_TRUE(finished.empty());
  EXPECT_EQ(take(0), "0[2-3) 1[0-1)");
  finished = waves_.finish(wave_, wave_.loads);
  ASSERT_EQ(finished.size(), 2u);
  EXPECT_EQ(finished[1].number, 1u);
  EXPECT_EQ(take(0), "2[0-1) 3[0-1)");
}

class Unagreed : public Agreed {
 protected:
  Unagreed() : Agreed({.tracks = 2, .coordinates_max = 2 * 4096, .agreed = false}) {}
};

TEST_F(Unagreed, EveryLaneGetsItsShareAtOnce) {
  for (const std::size_t tensor : {0u, 1u}) put(tensor);
  EXPECT_EQ(take(0), "0[0-2)");
  EXPECT_EQ(take(1), "0[2-3)");
  EXPECT_EQ(take(1), "-");
  EXPECT_EQ(take(0), "1[0-1)");
}

// A driver runs one kind at a time.
TEST(Waves, OfADeviceAndOfTheHostDoNotMix) {
  const device::Accelerator device{&device::emulated(), 0};
  Workers4 workers("f32", kShapes, {.accelerator = &device}, 1);
  Memory& memory = *workers.memories[0];
  const std::vector<Tensor> rows{{90, 8, 2}, {91, 8, 2}};
  ASSERT_TRUE(memory.add_rows(rows, offered(memory, "f32")));
  const auto first_of_rows = static_cast<std::uint32_t>(workers.tensors.size());
  Waves waves(memory, {.tracks = 2});
  std::vector<float> few(4);
  const auto put = [&](std::size_t tensor) {
    ASSERT_TRUE(waves.put({.on_device = true}, workers.entries(0, tensor, tensor + 1)));
  };
  const auto put_rows = [&](std::uint32_t which) {
    const BucketEntry entry{first_of_rows + which, few, few};
    ASSERT_TRUE(waves.put({}, {&entry, 1}));
  };
  put(0);
  put(1);
  put_rows(0);
  put_rows(1);
  put(2);
  waves.agree(waves.ready());
  std::vector<std::size_t> buckets;
  Waves::Wave wave;
  while (waves.take_agreed(wave)) {
    buckets.push_back(wave.loads.size());
    for (const Load& load : wave.loads) {
      EXPECT_EQ(load.bucket->order().on_device, wave.loads[0].bucket->order().on_device);
    }
  }
  EXPECT_EQ(buckets, (std::vector<std::size_t>{2, 2, 1}));
}

}  // namespace
}  // namespace sluice
