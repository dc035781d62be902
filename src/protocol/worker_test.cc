#include "protocol/worker.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <string>

#include "base/bytes.h"
#include "base/random.h"
#include "protocol/aggregator.h"

namespace sluice::protocol {
namespace {

using std::chrono::milliseconds;
using wire::Kind;
using Bytes = std::vector<std::byte>;

constexpr std::array<std::uint16_t, 4> kTable{0, 3, 4, 90};

Bytes random_bytes(std::uint64_t seed, std::size_t size) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(mix(seed, i));
  return bytes;
}

struct Nowhere final : Outbox {
  void send(std::span<const Address>, std::span<const std::byte, wire::kHeaderSize>,
            std::span<const std::byte>) override {}
};

// What one worker hands in; lives until the answers are taken.
struct Step {
  std::vector<Reduction> whats;
  std::vector<Bytes> ups;
  std::vector<Bytes> downs;
  std::vector<Round> rounds;

  Step(std::vector<Reduction> reductions, std::uint32_t rank, std::uint32_t workers)
      : whats(std::move(reductions)) {
    for (std::size_t i = 0; i < whats.size(); ++i) {
      ups.push_back(random_bytes(mix(rank, i), up_size(whats[i])));
      downs.emplace_back(down_size_max(whats[i], workers));
    }
    for (std::size_t i = 0; i < whats.size(); ++i) rounds.push_back({whats[i], ups[i], downs[i]});
  }
  Step(const Step&) = delete;
  Step(Step&&) = default;
};

// Workers and aggregators on a network without delay that a test may cut.
class WorkerTest : public ::testing::Test, private Outbox {
 protected:
  void make(std::uint32_t workers, std::uint32_t aggregators = 1, std::uint32_t channels = 2) {
    for (std::uint32_t i = 0; i < aggregators; ++i) restart(i);
    for (std::uint32_t rank = 0; rank < workers; ++rank) {
      workers_.push_back(std::make_unique<Worker>(WorkerOptions{.link = {.rank = rank,
                                                                         .workers = workers,
                                                                         .job = 7,
                                                                         .life = 100 + rank,
                                                                         .terms = "sluice 1, test",
                                                                         .channels = channels,
                                                                         .slots = 16,
                                                                         .frame_size = 1472},
                                                                .aggregators = aggregators}));
      cut_.push_back(false);
    }
  }
  void restart(std::uint32_t index) {
    aggregators_.resize(std::max<std::size_t>(aggregators_.size(), index + 1));
    aggregators_[index] = std::make_unique<Aggregator>(AggregatorOptions{.secret = {++lives_, 1}});
  }
  // Carries frames until nobody has any at this time.
  void settle() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::uint32_t rank = 0; rank < workers_.size(); ++rank) moved |= flush(rank);
      while (!down_.empty()) {
        const Down one = std::move(down_.front());
        down_.pop_front();
        if (!cut_[one.rank]) workers_[one.rank]->receive(one.aggregator, one.bytes, now_);
        moved = true;
      }
    }
  }
  // Lets time go on from one event to the next.
  void settle_until(Time end) {
    settle();
    for (int events = 0;; ++events) {
      Time next = kNever;
      for (const auto& worker : workers_) next = std::min(next, worker->wake());
      if (next > end) break;
      ASSERT_LT(events, 100'000) << "somebody is due and has nothing to say";
      now_ = std::max(now_, next);
      settle();
    }
    now_ = end;
  }
  std::vector<Step> post_all(const Ticket& ticket, const std::vector<Reduction>& whats) {
    std::vector<Step> steps;
    steps.reserve(workers_.size());
    for (std::uint32_t rank = 0; rank < workers_.size(); ++rank) {
      steps.emplace_back(whats, rank, static_cast<std::uint32_t>(workers_.size()));
      EXPECT_TRUE(workers_[rank]->post(ticket, steps.back().rounds));
    }
    return steps;
  }
  void expect_answers(const Ticket& ticket, const std::vector<Step>& steps) {
    for (std::uint32_t rank = 0; rank < workers_.size(); ++rank) expect_answer(rank, ticket, steps);
  }
  void expect_answer(std::uint32_t rank, const Ticket& ticket, const std::vector<Step>& steps) {
    const auto workers = static_cast<std::uint32_t>(workers_.size());
    EXPECT_TRUE(workers_[rank]->is_any_ready());
    const auto answers = workers_[rank]->take(ticket);
    ASSERT_TRUE(answers) << answers.error().what;
    ASSERT_EQ(answers->size(), steps[rank].whats.size());
    for (std::size_t i = 0; i < answers->size(); ++i) {
      const Reduction& what = steps[rank].whats[i];
      std::vector<Contribution> contributions;
      for (std::uint32_t from = 0; from < workers; ++from) {
        contributions.push_back({from, steps[from].ups[i]});
      }
      AlignedBuffer scratch(scratch_size(what));
      Bytes expected(down_size_max(what, workers));
      expected.resize(
          combine(what, workers, 0, what.count, contributions, scratch.bytes(), expected));
      EXPECT_TRUE(std::ranges::equal((*answers)[i].down, expected)) << "round " << i;
    }
  }

  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<std::unique_ptr<Aggregator>> aggregators_;
  std::vector<bool> cut_;            // by rank: nothing goes in or out
  std::vector<std::uint64_t> sent_;  // by aggregator
  Time now_{0};

 private:
  struct Down {
    std::uint32_t rank;
    std::uint32_t aggregator;
    Bytes bytes;
  };

  bool flush(std::uint32_t rank) {
    bool any = false;
    std::array<Outgoing, 32> out;
    sent_.resize(aggregators_.size());
    for (std::uint32_t i = 0; i < aggregators_.size(); ++i) {
      const std::size_t count = workers_[rank]->send(i, now_, out);
      any |= count != 0;
      for (std::size_t k = 0; k < count && !cut_[rank]; ++k) {
        Bytes bytes(out[k].header.begin(), out[k].header.end());
        bytes.insert(bytes.end(), out[k].payload.begin(), out[k].payload.end());
        speaking_ = i;
        ++sent_[i];
        aggregators_[i]->receive({.low = rank}, bytes, now_, *this);
      }
    }
    return any;
  }
  void send(std::span<const Address> to, std::span<const std::byte, wire::kHeaderSize> header,
            std::span<const std::byte> payload) override {
    for (const Address& address : to) {
      Down& one = down_.emplace_back();
      one.rank = static_cast<std::uint32_t>(address.low);
      one.aggregator = speaking_;
      one.bytes.assign(header.begin(), header.end());
      one.bytes.insert(one.bytes.end(), payload.begin(), payload.end());
    }
  }

  std::deque<Down> down_;
  std::uint32_t speaking_ = 0;
  std::uint64_t lives_ = 0;
};

const std::vector<Reduction> kWhats{{.op = Op::wrap_sum, .bits = 32, .count = 2000},
                                    {.op = Op::lane_sum,
                                     .bits = 2,
                                     .down = Down::narrow,
                                     .count = 20000,
                                     .grain = 64,
                                     .table = kTable},
                                    {.op = Op::gather, .bits = 8, .count = 1500},
                                    {.op = Op::f32_sum, .bits = 32, .count = 1}};

TEST_F(WorkerTest, JoinsAndGetsTheBytesOfTheReference) {
  make(3);
  EXPECT_FALSE(workers_[0]->has_joined());
  settle();
  ASSERT_TRUE(workers_[0]->has_joined() && workers_[2]->has_joined());
  const Ticket ticket{0, 11};
  const auto steps = post_all(ticket, kWhats);
  EXPECT_EQ(workers_[0]->take(ticket).error().code, Code::pending);
  settle_until(milliseconds(500));
  expect_answers(ticket, steps);
  EXPECT_FALSE(workers_[0]->is_any_ready());
  EXPECT_EQ(workers_[0]->take(ticket).error().code, Code::invalid_argument) << "taken";
  EXPECT_EQ(workers_[0]->explain(), "nothing is on its way");
}

TEST_F(WorkerTest, SpreadsPiecesOverTheAggregators) {
  make(2, 3);
  settle();
  sent_.assign(3, 0);
  const auto steps = post_all({4, 4}, {{.op = Op::wrap_sum, .bits = 32, .count = 9 * 344}});
  settle_until(milliseconds(100));
  EXPECT_EQ(sent_, (std::vector<std::uint64_t>{6, 6, 6}));
  expect_answers({4, 4}, steps);
  EXPECT_EQ(workers_[0]->counters().results, 9u);
}

TEST_F(WorkerTest, StepsOfAnExchangeFollowEachOtherAndExchangesOverlap) {
  make(2);
  settle();
  for (std::uint64_t i = 0; i < 3; ++i) {
    const auto even = post_all({0, 5}, kWhats);
    const auto odd = post_all({1, 6}, kWhats);
    settle_until(now_ + milliseconds(500));
    expect_answers({1, 6}, odd);
    expect_answers({0, 5}, even);
  }
  EXPECT_EQ(aggregators_[0]->counters().mismatched, 0u);
}

TEST_F(WorkerTest, WrongPostsAreToldSo) {
  make(1, 1, 1);
  settle();
  Step step({{.op = Op::wrap_sum, .bits = 8, .count = 8}}, 0, 1);
  Round bad = step.rounds[0];
  bad.what.bits = 9;
  EXPECT_EQ(workers_[0]->post({0, 0}, {&bad, 1}).error().code, Code::invalid_argument);
  bad = step.rounds[0];
  bad.up = bad.up.first(7);
  EXPECT_FALSE(workers_[0]->post({0, 0}, {&bad, 1}));
  ASSERT_TRUE(workers_[0]->post({0, 0}, step.rounds));
  EXPECT_EQ(workers_[0]->post({1, 0}, step.rounds).error().code, Code::exhausted);
  EXPECT_EQ(workers_[0]->take({1, 0}).error().code, Code::invalid_argument);
  settle();
  EXPECT_TRUE(workers_[0]->take({0, 0}));
}

TEST_F(WorkerTest, AStepOfNoRoundsIsReadyAtOnce) {
  make(2);
  settle();
  ASSERT_TRUE(workers_[0]->post({0, 0}, {}));
  EXPECT_TRUE(workers_[0]->is_any_ready());
  EXPECT_TRUE(workers_[0]->take({0, 0})->empty());
}

TEST_F(WorkerTest, SaysWhoIsMissingAndGoesOnWhenItComes) {
  make(3);
  settle();
  cut_[1] = true;
  const auto steps = post_all({0, 0}, {{.op = Op::wrap_sum, .bits = 8, .count = 8}});
  settle_until(milliseconds(300));
  EXPECT_EQ(workers_[0]->explain(), "waiting for workers 1 (slot 0, use 1)");
  EXPECT_EQ(workers_[1]->explain().substr(0, 47),
            "the aggregator does not answer (slot 0, use 1, ");
  EXPECT_EQ(workers_[2]->take({0, 0}).error().code, Code::pending);
  cut_[1] = false;
  settle_until(milliseconds(1000));
  expect_answers({0, 0}, steps);
}

TEST_F(WorkerTest, AResultThatWasLostIsAskedForAgain) {
  make(2);
  settle();
  const auto steps = post_all({0, 0}, {{.op = Op::wrap_sum, .bits = 8, .count = 8}});
  std::array<Outgoing, 32> out;
  ASSERT_EQ(workers_[0]->send(0, now_, out), 1u) << "and lost on its way";
  settle();
  EXPECT_EQ(workers_[0]->take({0, 0}).error().code, Code::pending);
  settle_until(milliseconds(4) - Time{1});
  EXPECT_FALSE(workers_[0]->is_any_ready());
  settle_until(milliseconds(4));
  expect_answers({0, 0}, steps);
  EXPECT_EQ(workers_[0]->counters().retransmits, 1u);
}

TEST_F(WorkerTest, RanksThatReduceDifferentThingsAllFail) {
  make(2);
  settle();
  Step zero({{.op = Op::wrap_sum, .bits = 8, .count = 8}}, 0, 2);
  Step one({{.op = Op::wrap_sum, .bits = 8, .count = 16}}, 1, 2);
  ASSERT_TRUE(workers_[0]->post({0, 0}, zero.rounds));
  ASSERT_TRUE(workers_[1]->post({0, 0}, one.rounds));
  settle();
  for (const auto& worker : workers_) {
    EXPECT_TRUE(worker->refusal().starts_with(
        "worker 1 reduces something else than workers 0: slot 0, use 1: wrap_sum of 16 lanes"))
        << worker->refusal();
    EXPECT_EQ(worker->explain(), worker->refusal());
    EXPECT_TRUE(worker->is_any_ready());
    EXPECT_EQ(worker->take({0, 0}).error().code, Code::lost);
    EXPECT_EQ(worker->post({1, 0}, zero.rounds).error().code, Code::lost);
  }
}

TEST_F(WorkerTest, OtherTicketsUnderOneSequenceAreMismatches) {
  make(2);
  settle();
  Step zero({{.op = Op::wrap_sum, .bits = 8, .count = 8}}, 0, 2);
  Step one({{.op = Op::wrap_sum, .bits = 8, .count = 8}}, 1, 2);
  ASSERT_TRUE(workers_[0]->post({0, 1}, zero.rounds));
  ASSERT_TRUE(workers_[1]->post({0, 2}, one.rounds));
  settle();
  EXPECT_NE(workers_[0]->refusal().find("with digest"), std::string::npos);
  EXPECT_EQ(workers_[0]->refusal(), workers_[1]->refusal());
}

TEST_F(WorkerTest, SurvivesAnAggregatorThatForgetsEverythingAtAnyTime) {
  make(3);
  settle();
  const auto first = post_all({0, 0}, kWhats);
  settle_until(milliseconds(500));
  expect_answers({0, 0}, first);
  // One worker is ahead: it has the result that the others lost with the aggregator.
  cut_[1] = cut_[2] = true;
  const auto second = post_all({1, 0}, kWhats);
  settle_until(milliseconds(600));
  restart(0);
  cut_[1] = cut_[2] = false;
  settle_until(milliseconds(5000));
  expect_answers({1, 0}, second);
  EXPECT_EQ(workers_[0]->counters().joins, 2u);
}

TEST_F(WorkerTest, WhoLeavesRestoresWhatOthersStillNeed) {
  make(2);
  settle();
  const auto steps = post_all({0, 0}, {{.op = Op::wrap_sum, .bits = 8, .count = 8}});
  std::array<Outgoing, 32> out;
  ASSERT_EQ(workers_[1]->send(0, now_, out), 1u);
  Bytes bytes(out[0].header.begin(), out[0].header.end());
  bytes.insert(bytes.end(), out[0].payload.begin(), out[0].payload.end());
  Nowhere nowhere;
  aggregators_[0]->receive({.low = 1}, bytes, now_, nowhere);
  cut_[1] = true;
  settle();
  ASSERT_TRUE(workers_[0]->is_any_ready()) << "worker 1's copy of the result was lost";
  restart(0);
  cut_[1] = false;
  expect_answer(0, {0, 0}, steps);
  workers_[0]->leave();
  settle_until(milliseconds(300));
  expect_answer(1, {0, 0}, steps);
  EXPECT_FALSE(workers_[0]->has_left()) << "worker 1 has not watched twice";
  settle_until(milliseconds(2000));
  EXPECT_TRUE(workers_[0]->has_left());
  EXPECT_FALSE(workers_[1]->has_left());
}

TEST_F(WorkerTest, AbandonForgetsMemoryAndStopsAsking) {
  make(2);
  settle();
  cut_[1] = true;
  {
    const auto steps = post_all({0, 0}, kWhats);
    settle();
    for (const auto& worker : workers_) worker->abandon();
  }
  const LinkCounters before = workers_[0]->counters();
  settle_until(milliseconds(2000));
  EXPECT_EQ(workers_[0]->counters().asks, before.asks);
  EXPECT_EQ(workers_[0]->counters().retransmits, before.retransmits);
  EXPECT_FALSE(workers_[0]->is_any_ready());
  EXPECT_EQ(workers_[0]->take({0, 0}).error().code, Code::unavailable);
  EXPECT_EQ(workers_[0]->post({1, 0}, {}).error().code, Code::unavailable);
}

TEST_F(WorkerTest, AFailureFromOutsideIsForThoseWhoWaitAndThoseWhoComeNext) {
  make(2);
  settle();
  const auto steps = post_all({0, 0}, kWhats);
  EXPECT_EQ(workers_[0]->failure().code, Code::ok);
  EXPECT_FALSE(workers_[0]->is_any_ready());
  workers_[0]->fail({Code::out_of_memory, 0, "no memory"});
  EXPECT_EQ(workers_[0]->failure().code, Code::out_of_memory);
  EXPECT_TRUE(workers_[0]->is_any_ready()) << "nobody waits for the other worker";
  EXPECT_EQ(workers_[0]->take({0, 0}).error().code, Code::out_of_memory);
  EXPECT_EQ(workers_[0]->post({1, 0}, steps[0].rounds).error().code, Code::out_of_memory);
  settle();
  EXPECT_FALSE(workers_[0]->is_any_ready()) << "what answers the step is late";
  workers_[0]->leave();
  settle();
  EXPECT_TRUE(workers_[0]->has_left());
}

// While it joins, too, when there are no slots yet.
TEST_F(WorkerTest, AFailureBeforeAllHaveJoinedStays) {
  make(2);
  workers_[0]->fail({Code::out_of_memory, 0, "no memory"});
  workers_[0]->fail({Code::malformed, 0, "a second one"});
  settle();
  EXPECT_EQ(workers_[0]->failure().code, Code::out_of_memory);
}

TEST_F(WorkerTest, AllLeaveAndNobodyIsLeftBehind) {
  make(3, 2);
  settle();
  const auto steps = post_all({0, 0}, kWhats);
  settle_until(milliseconds(500));
  expect_answers({0, 0}, steps);
  for (const auto& worker : workers_) worker->leave();
  settle();
  for (const auto& worker : workers_) {
    EXPECT_TRUE(worker->has_left());
    EXPECT_EQ(worker->wake(), kNever);
  }
  for (const auto& aggregator : aggregators_) EXPECT_EQ(aggregator->taken().memory, 0u);
}

TEST_F(WorkerTest, WhoBreaksOffIsGoneAtOnce) {
  make(2);
  settle();
  const auto steps = post_all({0, 0}, kWhats);
  workers_[0]->leave();
  settle();
  EXPECT_TRUE(workers_[0]->has_left());
  EXPECT_EQ(workers_[1]->refusal(), "worker 0 has left the job");
}

TEST_F(WorkerTest, WhoLeavesIsNamedToThoseWhoWaitForIt) {
  make(2);
  settle();
  workers_[1]->leave();
  settle();
  Step step({{.op = Op::wrap_sum, .bits = 8, .count = 8}}, 0, 2);
  ASSERT_TRUE(workers_[0]->post({0, 0}, step.rounds));
  settle();
  EXPECT_EQ(workers_[0]->refusal(), "worker 1 has left the job");
  EXPECT_EQ(workers_[0]->take({0, 0}).error().code, Code::lost);
}

TEST_F(WorkerTest, SaysWhichAggregatorIsSilent) {
  make(1, 2);
  EXPECT_EQ(workers_[0]->explain(),
            "aggregator 0: the aggregator does not answer; "
            "aggregator 1: the aggregator does not answer");
}

// An answer with the right digest and the wrong workers, as a broken aggregator may send.
class BadAnswer : public WorkerTest {
 protected:
  void answer(const Outgoing& to, std::uint64_t workers) {
    Bytes bytes(to.header.begin(), to.header.end());
    bytes.insert(bytes.end(), to.payload.begin(), to.payload.end());
    wire::Header header = wire::parse(bytes)->header;
    const Bytes payload(to.payload.begin(), to.payload.end());
    header.kind = Kind::result;
    header.workers = workers;
    wire::write_header(header, payload, std::span(bytes).first<wire::kHeaderSize>());
    workers_[0]->receive(0, bytes, now_);
  }
};

// The aggregator's slots and the worker's are no longer in step.
TEST_F(BadAnswer, FailsAllExchangesAndThoseThatFollow) {
  make(1);
  settle();
  const auto steps = post_all({0, 0}, {{.op = Op::wrap_sum, .bits = 8, .count = 8}});
  const auto other = post_all({1, 0}, {{.op = Op::wrap_sum, .bits = 8, .count = 8}});
  std::array<Outgoing, 32> out;
  ASSERT_EQ(workers_[0]->send(0, now_, out), 2u);
  answer(out[0], 0b10);
  EXPECT_EQ(workers_[0]->take({0, 0}).error().code, Code::malformed);
  EXPECT_EQ(workers_[0]->take({1, 0}).error().code, Code::malformed);
  std::array<std::byte, 8> bytes{};
  const Round round{{.op = Op::max, .bits = 8, .count = 8}, bytes, bytes, {}};
  EXPECT_EQ(workers_[0]->post({2, 0}, std::span(&round, 1)).error().code, Code::malformed);
}

// Their memory, too: its owner has it back.
TEST_F(BadAnswer, TheAnswersThatFollowItAreIgnored) {
  make(1);
  settle();
  const auto steps = post_all({0, 0}, {{.op = Op::wrap_sum, .bits = 8, .count = 3000}});
  std::array<Outgoing, 32> out;
  ASSERT_EQ(workers_[0]->send(0, now_, out), 3u);
  answer(out[0], 0b10);
  answer(out[1], 0b01);
  EXPECT_EQ(workers_[0]->take({0, 0}).error().code, Code::malformed);
  answer(out[2], 0b01);
  EXPECT_EQ(workers_[0]->send(0, milliseconds(50), out), 0u) << "forgotten";
}

}  // namespace
}  // namespace sluice::protocol
