#include "group/flight.h"

#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <string>
#include <vector>

namespace sluice {
namespace {

// What the scripted exchange does at each call and what it was answered.
struct Script {
  std::vector<std::vector<std::uint32_t>> legs;  // lanes of the rounds of each leg
  Code fails_after_last = Code::ok;
  bool waits = false;
  std::vector<std::vector<std::size_t>> answered;  // bytes of the answers of each call
};

class ScriptedExchange final : public Exchange {
 public:
  ScriptedExchange(const Chunk& chunk, Arena& arena, Script& script)
      : script_(&script),
        memory_(arena.place<std::byte>(64)),
        extra_(arena.host<std::byte>(chunk.extent.count)) {}

  Result<Leg> next(std::span<const Answer> answers) override {
    std::vector<std::size_t> sizes;
    for (const Answer& answer : answers) sizes.push_back(answer.down.size());
    script_->answered.push_back(sizes);
    if (script_->waits) return Leg{Leg::Kind::wait, {}};
    if (at_ == script_->legs.size()) {
      if (script_->fails_after_last != Code::ok) {
        return Error{script_->fails_after_last, 0, "scripted"};
      }
      return done();
    }
    const auto& lanes = script_->legs[at_++];
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      rounds_[i] = {{.op = Op::wrap_sum, .bits = 8, .count = lanes[i]},
                    memory_.first(lanes[i]),
                    memory_.first(lanes[i]),
                    {}};
    }
    return ask(std::span(rounds_).first(lanes.size()));
  }

 private:
  Script* script_;
  std::span<std::byte> memory_;
  std::span<std::byte> extra_;
  std::size_t at_ = 0;
  std::array<Round, 4> rounds_{};
};

class ScriptedCodec final : public Codec {
 public:
  explicit ScriptedCodec(Script& script) : script_(script) {}
  [[nodiscard]] Traits traits(std::uint32_t) const override { return {}; }
  [[nodiscard]] Plan plan(const Tensor&, std::uint32_t) const override {
    return {.multiple_of = 1, .count_max = 100};
  }
  Exchange* begin(const Chunk& chunk, Arena& arena) const override {
    return arena.make<ScriptedExchange>(chunk, arena, script_);
  }

 private:
  Script& script_;
};

// Answers each leg with its own bytes when told to.
class FakeCarrier final : public Carrier {
 public:
  Status post(const Ticket& ticket, const Place&, std::span<const Round> leg) override {
    tickets.push_back(ticket.sequence);
    posted.assign(leg.begin(), leg.end());
    return post_code == Code::ok ? ok() : Status(Error{post_code, 0, "post"});
  }
  Result<std::span<const Answer>> take(const Ticket&) override {
    if (take_code != Code::ok) return Error{take_code, 0, "take"};
    if (ready == 0) return Error{Code::pending, 0, "later"};
    --ready;
    answers.clear();
    parts.assign(posted.size(), {});
    for (std::size_t i = 0; i < posted.size(); ++i) {
      const std::uint32_t half = posted[i].what.count / 2;
      parts[i] = {{{0, half, from.view()}, {half, half, from_later.view()}}};
      answers.push_back({posted[i].down, parts[i]});
    }
    answers.resize(answers.size() - missing);
    return std::span<const Answer>(answers);
  }
  Status wait(std::chrono::nanoseconds) override { return ok(); }
  void abandon() override {}
  std::string explain(const Ticket&) override { return ""; }

  int ready = 0;
  std::size_t missing = 0;
  Code post_code = Code::ok;
  Code take_code = Code::ok;
  WorkerSet from = WorkerSet::all(3);        // whom the first half of a round counts …
  WorkerSet from_later = WorkerSet::all(3);  // … and whom the second
  std::vector<std::uint64_t> tickets;
  std::vector<Round> posted;
  std::vector<std::array<Part, 2>> parts;
  std::vector<Answer> answers;
};

using LanesOfLegs = std::vector<std::vector<std::uint32_t>>;

struct Case {
  explicit Case(LanesOfLegs legs) : codec(script) {
    script.legs = std::move(legs);
    FlightSize size;
    chunk.extent = {{1, 1, 10}, 0, 10, 0, 3};
    size.cover(codec, chunk.extent);
    flight = std::make_unique<Flight>(size);
    script.answered.clear();
  }
  Status begin() { return flight->begin(codec, chunk, {}, {42, 1}, carrier, stats); }
  Result<bool> advance() { return flight->advance(carrier, stats); }

  Script script;
  ScriptedCodec codec;
  Chunk chunk;
  FakeCarrier carrier;
  Stats stats;
  std::unique_ptr<Flight> flight;
};

using Sizes = std::vector<std::vector<std::size_t>>;

TEST(FlightSize, CoversTheLargestPieceOfAll) {
  Script script;
  const ScriptedCodec codec(script);
  FlightSize size;
  size.cover(codec, {{1, 1, 100}, 0, 100, 0, 3});
  const FlightSize large = size;
  size.cover(codec, {{1, 1, 100}, 0, 7, 0, 3});
  EXPECT_EQ(size.host, large.host);
  EXPECT_EQ(size.place, 64u);
  EXPECT_GE(size.host, 100 + sizeof(ScriptedExchange));
}

TEST(Flight, GoesThroughTheStepsAsAnswersCome) {
  Case test(LanesOfLegs{{8, 16}, {4}});
  ASSERT_TRUE(test.begin().has_value());
  EXPECT_TRUE(test.flight->busy());
  EXPECT_EQ(test.flight->ticket().sequence, 42u);
  EXPECT_FALSE(*test.advance()) << "pending: nothing moved";
  test.carrier.ready = 1;
  EXPECT_TRUE(*test.advance());
  EXPECT_TRUE(test.flight->busy());
  test.carrier.ready = 1;
  EXPECT_TRUE(*test.advance());
  EXPECT_FALSE(test.flight->busy());
  EXPECT_FALSE(*test.advance()) << "nothing in flight: nothing moves";
  EXPECT_EQ(test.script.answered, (Sizes{{}, {8, 16}, {4}}));
  EXPECT_EQ(test.carrier.tickets, (std::vector<std::uint64_t>{42, 42}));
}

TEST(Flight, RunsThroughAllStepsWhenTheAnswersAreThere) {
  Case test(LanesOfLegs{{8}, {8}, {8}});
  test.carrier.ready = 3;
  ASSERT_TRUE(test.begin().has_value());
  EXPECT_TRUE(*test.advance());
  EXPECT_FALSE(test.flight->busy());
}

TEST(Flight, CountsRoundsBytesChunksAndTheFewestContributors) {
  Case test(LanesOfLegs{{8, 16}, {4}});
  test.carrier.ready = 1;
  ASSERT_TRUE(test.begin().has_value());
  EXPECT_EQ(test.stats.rounds, 2u);
  EXPECT_EQ(test.stats.bytes_up, 24u);
  EXPECT_EQ(test.stats.bytes_down, 0u);
  ASSERT_TRUE(test.advance().has_value());
  EXPECT_EQ(test.stats.contributors_min, 3u);
  test.carrier.from_later.erase(1);
  test.carrier.ready = 1;
  ASSERT_TRUE(test.advance().has_value());
  EXPECT_EQ(test.stats.rounds, 3u);
  EXPECT_EQ(test.stats.bytes_up, 28u);
  EXPECT_EQ(test.stats.bytes_down, 28u);
  EXPECT_EQ(test.stats.chunks, 1u);
  EXPECT_EQ(test.stats.contributors_min, 2u);
  EXPECT_GE(test.stats.encode_seconds, 0.0);
  EXPECT_GE(test.stats.decode_seconds, 0.0);
}

TEST(Flight, AnyPartMayHaveTheFewestContributors) {
  for (const bool later : {false, true}) {
    Case test(LanesOfLegs{{16}});
    WorkerSet& fewer = later ? test.carrier.from_later : test.carrier.from;
    fewer.erase(0);
    fewer.erase(2);
    test.carrier.ready = 1;
    ASSERT_TRUE(test.begin().has_value());
    ASSERT_TRUE(test.advance().has_value());
    EXPECT_EQ(test.stats.contributors_min, 1u) << later;
  }
}

TEST(Flight, RoundsOfNoLanesAreNotPostedAndAnsweredByNothing) {
  Case test(LanesOfLegs{{0, 8, 0, 4}});
  test.carrier.ready = 1;
  ASSERT_TRUE(test.begin().has_value());
  EXPECT_EQ(test.carrier.posted.size(), 2u);
  EXPECT_EQ(test.stats.rounds, 2u);
  ASSERT_TRUE(test.advance().has_value());
  EXPECT_EQ(test.script.answered, (Sizes{{}, {0, 8, 0, 4}}));
}

TEST(Flight, StepsOfNoLanesAtAllDoNotTouchTheCarrier) {
  Case test(LanesOfLegs{{0}, {0, 0}});
  ASSERT_TRUE(test.begin().has_value());
  EXPECT_FALSE(test.flight->busy());
  EXPECT_TRUE(test.carrier.tickets.empty());
  EXPECT_EQ(test.script.answered, (Sizes{{}, {0}, {0, 0}}));
  EXPECT_EQ(test.stats.chunks, 1u);
}

TEST(Flight, AnExchangeWithoutRoundsIsDoneAtOnce) {
  Case test(LanesOfLegs{});
  ASSERT_TRUE(test.begin().has_value());
  EXPECT_FALSE(test.flight->busy());
  EXPECT_EQ(test.stats.rounds, 0u);
  EXPECT_EQ(test.stats.contributors_min, 0xffffffffu);
}

TEST(Flight, IsUsedAgainForTheNextExchange) {
  Case test(LanesOfLegs{{8}});
  for (int i = 0; i < 3; ++i) {
    test.carrier.ready = 1;
    ASSERT_TRUE(test.begin().has_value());
    ASSERT_TRUE(test.advance().has_value());
    EXPECT_FALSE(test.flight->busy());
  }
  EXPECT_EQ(test.stats.chunks, 3u);
}

TEST(Flight, AnErrorOfTheCarrierEndsTheExchange) {
  Case refused(LanesOfLegs{{8}});
  refused.carrier.post_code = Code::exhausted;
  EXPECT_EQ(refused.begin().error().code, Code::exhausted);
  EXPECT_FALSE(refused.flight->busy());

  Case lost(LanesOfLegs{{8}});
  ASSERT_TRUE(lost.begin().has_value());
  lost.carrier.take_code = Code::lost;
  EXPECT_EQ(lost.advance().error().code, Code::lost);
  EXPECT_FALSE(lost.flight->busy());
  EXPECT_EQ(lost.stats.chunks, 0u);
}

TEST(Flight, AnErrorOfTheExchangeEndsIt) {
  Case test(LanesOfLegs{{8}});
  test.script.fails_after_last = Code::malformed;
  test.carrier.ready = 1;
  ASSERT_TRUE(test.begin().has_value());
  EXPECT_EQ(test.advance().error().code, Code::malformed);
  EXPECT_FALSE(test.flight->busy());
  EXPECT_EQ(test.stats.chunks, 0u);
}

TEST(Flight, AnExchangeThatWaitsForADeviceGoesOnWhenItIsTold) {
  Case test(LanesOfLegs{{8}});
  test.script.waits = true;
  test.carrier.ready = 1;
  ASSERT_TRUE(test.begin().has_value());
  EXPECT_TRUE(test.flight->busy() && test.flight->waits());
  EXPECT_FALSE(*test.advance()) << "no answer of a carrier moves it";
  EXPECT_EQ(test.carrier.ready, 1);
  EXPECT_TRUE(test.carrier.tickets.empty());
  test.script.waits = false;
  ASSERT_TRUE(test.flight->go_on(test.carrier, test.stats).has_value());
  EXPECT_FALSE(test.flight->waits());
  EXPECT_TRUE(*test.advance());
  EXPECT_FALSE(test.flight->busy());
  EXPECT_EQ(test.script.answered, (Sizes{{}, {}, {8}}));
}

TEST(Flight, AnAnswerTooFewIsMalformed) {
  Case test(LanesOfLegs{{8, 16}});
  test.carrier.ready = 1;
  test.carrier.missing = 1;
  ASSERT_TRUE(test.begin().has_value());
  const Result<bool> went = test.advance();
  ASSERT_FALSE(went.has_value());
  EXPECT_EQ(went.error().code, Code::malformed);
}

}  // namespace
}  // namespace sluice
