#include "protocol/aggregator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "base/bytes.h"
#include "base/random.h"
#include "protocol/assembly.h"

namespace sluice::protocol {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using wire::Kind;
using Bytes = std::vector<std::byte>;

constexpr std::uint64_t kJob = 0xABCD;
constexpr std::uint32_t kFrameSize = 1472;
constexpr std::array<std::uint16_t, 16> kTable{0,  1,  3,  5,  8,  9,  12, 20,
                                               21, 22, 23, 30, 31, 40, 41, 50};

Address at(std::uint32_t worker) { return {.low = worker, .port = 1000}; }

struct Sent {
  Address to;
  Bytes bytes;

  [[nodiscard]] wire::Frame frame() const {
    const auto parsed = wire::parse(bytes);
    EXPECT_TRUE(parsed) << parsed.error().what;
    return parsed ? *parsed : wire::Frame{};
  }
  [[nodiscard]] Kind kind() const { return frame().header.kind; }
  [[nodiscard]] std::string text() const {
    std::string text;
    for (const std::byte b : frame().payload) text += static_cast<char>(b);
    return text;
  }
};

class AggregatorTest : public ::testing::Test, private Outbox {
 protected:
  ~AggregatorTest() override {
    const Counters& c = aggregator_.counters();
    EXPECT_EQ(c.received, c.malformed + c.unexpected + c.strangers + c.gone + c.control +
                              c.accepted + c.again + c.stale + c.tableless + c.mismatched);
  }

  std::vector<Sent> say(const Address& from, const wire::Header& header,
                        std::span<const std::byte> payload = {}) {
    Bytes bytes(wire::kHeaderSize);
    wire::write_header(header, payload, std::span(bytes).first<wire::kHeaderSize>());
    bytes.insert(bytes.end(), payload.begin(), payload.end());
    return say_bytes(from, bytes);
  }
  std::vector<Sent> say_bytes(const Address& from, std::span<const std::byte> bytes) {
    sent_.clear();
    aggregator_.receive(from, bytes, now_, *this);
    return sent_;
  }
  std::vector<Sent> join(std::uint32_t worker, wire::Join wish, std::uint64_t job = kJob) {
    return join_from(at(worker), worker, wish, job);
  }
  std::vector<Sent> join_from(const Address& from, std::uint32_t worker, const wire::Join& wish,
                              std::uint64_t job = kJob) {
    std::string body;
    wire::write_join(wish, body);
    return say(from, {.kind = Kind::join, .worker = static_cast<std::uint16_t>(worker), .job = job},
               std::as_bytes(std::span(body)));
  }
  // All join; the epoch.
  std::uint32_t form(std::uint32_t workers, std::uint64_t job = kJob) {
    std::vector<Sent> last;
    for (std::uint32_t worker = 0; worker < workers; ++worker) {
      last = join(worker, wish(workers, worker), job);
    }
    EXPECT_FALSE(last.empty());
    return last.empty() ? 0 : last[0].frame().header.epoch;
  }
  static wire::Join wish(std::uint32_t workers, std::uint64_t life = 0,
                         std::uint16_t generation = 0) {
    return {.workers = static_cast<std::uint16_t>(workers),
            .slots = 8,
            .frame_size = kFrameSize,
            .token = wire::make_token(100 + life, generation),
            .terms = "sluice 1, test"};
  }

  Aggregator aggregator_{{.slots_max = 64, .seed = 5}};
  Time now_ = seconds(10);

 private:
  void send(std::span<const Address> to, std::span<const std::byte, wire::kHeaderSize> header,
            std::span<const std::byte> payload) override {
    for (const Address& address : to) {
      Sent& one = sent_.emplace_back();
      one.to = address;
      one.bytes.assign(header.begin(), header.end());
      one.bytes.insert(one.bytes.end(), payload.begin(), payload.end());
    }
  }

  std::vector<Sent> sent_;
};

// Bytes of worker w for chunk c, 8 lanes of 8 bits.
Bytes lanes(std::uint32_t worker, std::uint32_t chunk) {
  Bytes bytes(8);
  for (std::size_t i = 0; i < 8; ++i) {
    bytes[i] = static_cast<std::byte>(mix(worker, chunk * 8 + i) % 60);
  }
  return bytes;
}

wire::Header contribution(std::uint32_t epoch, std::uint32_t worker, std::uint32_t chunk,
                          std::uint64_t workers = 0b111) {
  return {.kind = Kind::contribution,
          .worker = static_cast<std::uint16_t>(worker),
          .job = kJob,
          .epoch = epoch,
          .slot = 3,
          .chunk = chunk,
          .digest = 0xD1600 + chunk,
          .workers = workers,
          .what = {.op = Op::wrap_sum, .bits = 8, .count = 8}};
}

Bytes summed(std::uint32_t workers, std::uint32_t chunk, std::uint64_t only = ~0ull) {
  Bytes sum(8);
  for (std::uint32_t worker = 0; worker < workers; ++worker) {
    if ((only >> worker & 1) == 0) continue;
    for (std::size_t i = 0; i < 8; ++i) {
      sum[i] = static_cast<std::byte>(std::to_integer<int>(sum[i]) +
                                      std::to_integer<int>(lanes(worker, chunk)[i]));
    }
  }
  return sum;
}

Bytes payload_of(const Sent& sent) {
  return {sent.frame().payload.begin(), sent.frame().payload.end()};
}

// --- joining ---

TEST_F(AggregatorTest, WelcomesAllWithTheEpochWhenTheLastHasJoined) {
  auto sent = join(0, wish(3, 0));
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].kind(), Kind::welcome);
  EXPECT_EQ(sent[0].to, at(0));
  EXPECT_EQ(sent[0].frame().header.epoch, 0u);
  EXPECT_EQ(sent[0].frame().header.workers, 0b001u);
  sent = join(2, wish(3, 2));
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].frame().header.workers, 0b101u);
  sent = join(1, wish(3, 1));
  ASSERT_EQ(sent.size(), 3u);
  for (std::uint32_t worker = 0; worker < 3; ++worker) {
    EXPECT_EQ(sent[worker].to, at(worker));
    const wire::Header header = sent[worker].frame().header;
    EXPECT_EQ(header.workers, 0b111u);
    EXPECT_NE(header.epoch, 0u);
    EXPECT_EQ(header.epoch, sent[0].frame().header.epoch);
    const auto body = wire::parse_welcome(sent[worker].frame().payload);
    ASSERT_TRUE(body);
    EXPECT_EQ(body->workers, 3);
    EXPECT_EQ(body->slots, 8);
    EXPECT_EQ(body->frame_size, kFrameSize);
    EXPECT_EQ(body->window, (4u << 20) / (3 * (kFrameSize + 832)));
  }
  EXPECT_EQ(aggregator_.slots_leased(), 8u);
}

TEST_F(AggregatorTest, TakesTheLeastSlotsAndTheLeastOfTheLargestFramesThatArrived) {
  wire::Join small = wish(2, 0);
  small.frame_size = 1232;
  join(0, small);
  small.frame_size = 1452;
  join(0, small);
  wire::Join other = wish(2, 1);
  other.slots = 5;
  const auto sent = join(1, other);
  ASSERT_EQ(sent.size(), 2u);
  const auto body = wire::parse_welcome(sent[0].frame().payload);
  EXPECT_EQ(body->frame_size, 1452u);
  EXPECT_EQ(body->slots, 5);
}

TEST_F(AggregatorTest, ARepeatedJoinIsWelcomedWithTheSameEpoch) {
  const std::uint32_t epoch = form(2);
  EXPECT_EQ(join(0, wish(2, 0)).at(0).frame().header.epoch, epoch);
  EXPECT_EQ(aggregator_.counters().control, 3u);
}

void expect_refused(const std::vector<Sent>& sent, std::span<const Address> to,
                    const std::string& text) {
  ASSERT_EQ(sent.size(), to.size());
  for (std::size_t i = 0; i < to.size(); ++i) {
    EXPECT_EQ(sent[i].kind(), Kind::refused);
    EXPECT_EQ(sent[i].to, to[i]);
    EXPECT_EQ(sent[i].text(), text);
  }
}

TEST_F(AggregatorTest, OtherNumbersOfWorkersAreRefusedToBothSides) {
  join(0, wish(2, 0));
  expect_refused(join(1, wish(3, 1)), std::array{at(1), at(0)},
                 "worker 1 says the job has 3 workers, workers 0 say 2");
  expect_refused(join(0, wish(2, 0)), std::array{at(0)},
                 "worker 1 says the job has 3 workers, workers 0 say 2");
  EXPECT_EQ(aggregator_.counters().refused, 3u);
}

TEST_F(AggregatorTest, OtherTermsAreRefusedToBothSidesWithBothQuoted) {
  join(0, wish(2, 0));
  wire::Join other = wish(2, 1);
  other.terms = "sluice 1, else";
  expect_refused(join(1, other), std::array{at(1), at(0)},
                 "worker 1 wants 'sluice 1, else', workers 0 want 'sluice 1, test'");
}

TEST_F(AggregatorTest, TwoLivesOfOneRankAreRefusedBoth) {
  join(0, wish(2, 0));
  expect_refused(join_from(at(7), 0, wish(2, 7)), std::array{at(7), at(0)},
                 "two workers say that they are rank 0");
}

TEST_F(AggregatorTest, ARankBeyondTheJobIsRefusedAlone) {
  expect_refused(join(5, wish(2, 5)), std::array{at(5)}, "rank 5 of 2 workers; accepted: 0 to 1");
  EXPECT_NE(form(2), 0u);
}

TEST_F(AggregatorTest, ARunningJobGoesOnWhenAnotherLifeKnocks) {
  const std::uint32_t epoch = form(2);
  expect_refused(join_from(at(7), 0, wish(2, 7)), std::array{at(7)},
                 "two workers say that they are rank 0");
  say(at(0), contribution(epoch, 0, 1, 0b11), lanes(0, 1));
  EXPECT_EQ(say(at(1), contribution(epoch, 1, 1, 0b11), lanes(1, 1)).size(), 2u);
}

TEST_F(AggregatorTest, ASilentJobGivesWayToTheNextLife) {
  const std::uint32_t epoch = form(2);
  EXPECT_EQ(join_from(at(7), 0, wish(2, 7))[0].kind(), Kind::refused);
  now_ += seconds(2);
  EXPECT_EQ(join_from(at(7), 0, wish(2, 7))[0].kind(), Kind::welcome);
  const auto sent = join_from(at(8), 1, wish(2, 8));
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_NE(sent[0].frame().header.epoch, epoch);
  EXPECT_EQ(say(at(1), contribution(epoch, 1, 1, 0b11), lanes(1, 1))[0].kind(), Kind::gone);
}

TEST_F(AggregatorTest, TheNextGenerationFormsTheJobAnewAndAnEarlierOneIsIgnored) {
  const std::uint32_t epoch = form(2);
  auto sent = join(0, wish(2, 0, 1));
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].frame().header.epoch, 0u);
  EXPECT_TRUE(join(0, wish(2, 0, 0)).empty()) << "late, from before";
  EXPECT_EQ(say(at(1), contribution(epoch, 1, 1, 0b11), lanes(1, 1))[0].kind(), Kind::gone);
  sent = join(1, wish(2, 1, 1));
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_NE(sent[0].frame().header.epoch, 0u);
  EXPECT_NE(sent[0].frame().header.epoch, epoch);
}

TEST_F(AggregatorTest, AFullOneRefusesAndSaysHowFull) {
  aggregator_ = Aggregator({.jobs_max = 1, .slots_max = 64, .seed = 1});
  form(2);
  expect_refused(join(0, wish(2), kJob + 1), std::array{at(0)},
                 "this aggregator is full: 1 of 1 jobs, 8 of 64 slots");
  aggregator_ = Aggregator({.slots_max = 8, .seed = 1});
  form(2);
  expect_refused(join(0, wish(2), kJob + 1), std::array{at(0)},
                 "this aggregator is full: 1 of 64 jobs, 8 of 8 slots");
}

TEST_F(AggregatorTest, JoinsOfTooSmallFramesAreDropped) {
  wire::Join tiny = wish(2);
  tiny.frame_size = 600;
  EXPECT_TRUE(join(0, tiny).empty()) << "frames must hold everybody's sizes";
  EXPECT_EQ(aggregator_.counters().malformed, 1u);
  EXPECT_TRUE(aggregator_.reports().empty());
}

// --- who may speak ---

TEST_F(AggregatorTest, DropsNoiseAndFramesThatWorkersDoNotSend) {
  EXPECT_TRUE(say_bytes(at(0), {}).empty());
  EXPECT_TRUE(say_bytes(at(0), Bytes(200, std::byte{7})).empty());
  EXPECT_EQ(aggregator_.counters().malformed, 2u);
  const std::uint32_t epoch = form(2);
  for (const Kind kind : {Kind::result, Kind::wait, Kind::restored, Kind::need_table, Kind::gone}) {
    wire::Header header = contribution(epoch, 0, 1, 0b11);
    header.kind = kind;
    header.table = kind == Kind::need_table ? 5 : 0;
    EXPECT_TRUE(say(at(0), header).empty());
  }
  EXPECT_EQ(aggregator_.counters().unexpected, 5u);
}

TEST_F(AggregatorTest, TellsWhoKnowsAnotherEpochOrJobThatItIsGone) {
  const std::uint32_t epoch = form(2);
  for (const std::uint32_t wrong : {epoch + 2, 0u}) {
    const auto sent = say(at(1), contribution(wrong, 1, 1, 0b11), lanes(1, 1));
    ASSERT_EQ(sent.size(), 1u);
    EXPECT_EQ(sent[0].kind(), Kind::gone);
    EXPECT_EQ(sent[0].frame().header.epoch, wrong);
    EXPECT_EQ(sent[0].frame().header.worker, 1);
    EXPECT_EQ(sent[0].frame().header.job, kJob);
  }
  wire::Header header = contribution(epoch, 0, 1, 0b11);
  header.job = kJob + 1;
  const auto sent = say(at(9), header, lanes(0, 1));
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].to, at(9));
  EXPECT_EQ(sent[0].frame().header.job, kJob + 1);
  EXPECT_TRUE(say(at(0), {.kind = Kind::leave, .job = kJob, .epoch = epoch + 2}).empty())
      << "who leaves wants no answer";
  EXPECT_EQ(aggregator_.counters().gone, 4u);
}

TEST_F(AggregatorTest, StrangersChangeNothing) {
  const std::uint32_t epoch = form(2);
  EXPECT_TRUE(say(at(9), contribution(epoch, 0, 1, 0b11), lanes(5, 5)).empty());
  EXPECT_TRUE(say(at(9), contribution(epoch, 9, 1, 0b11), lanes(5, 5)).empty());
  EXPECT_EQ(aggregator_.counters().strangers, 2u);
  say(at(0), contribution(epoch, 0, 1, 0b11), lanes(0, 1));
  const auto sent = say(at(1), contribution(epoch, 1, 1, 0b11), lanes(1, 1));
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(payload_of(sent[0]), summed(2, 1));
}

// Counted as a stranger and as control: what was received does not add up.
TEST_F(AggregatorTest, StrangersThatLeaveRestoreOrBringTablesAreCountedOnce) {
  const std::uint32_t epoch = form(2);
  say(at(9), {.kind = Kind::leave, .worker = 0, .job = kJob, .epoch = epoch});
  say(at(9), {.kind = Kind::table, .job = kJob, .epoch = epoch, .table = wire::table_name(kTable)},
      std::as_bytes(std::span(kTable)));
  wire::Header restore = contribution(epoch, 0, 1, 0b11);
  restore.kind = Kind::restore;
  say(at(9), restore, lanes(0, 1));
  EXPECT_EQ(aggregator_.counters().strangers, 3u);
  EXPECT_EQ(aggregator_.counters().control, 2u) << "the joins";
}

// Counted as control and as malformed or mismatched.
TEST_F(AggregatorTest, RestoresThatAreDroppedAreCountedOnce) {
  const std::uint32_t epoch = form(2);
  wire::Header restore = contribution(epoch, 0, 1, 0b11);
  restore.kind = Kind::restore;
  restore.slot = 8;
  say(at(0), restore, lanes(0, 1));
  EXPECT_EQ(aggregator_.counters().malformed, 1u);
  say(at(1), contribution(epoch, 1, 1, 0b11), lanes(1, 1));
  restore.slot = 3;
  restore.digest += 1;
  say(at(0), restore, lanes(0, 1));
  EXPECT_EQ(aggregator_.counters().mismatched, 1u);
  EXPECT_EQ(aggregator_.counters().control, 2u) << "the joins";
}

// --- contributions ---

TEST_F(AggregatorTest, InAnyOrderTheResultHasTheSameBytesAndGoesToAll) {
  const std::uint32_t epoch = form(3);
  std::array<std::uint32_t, 3> order{0, 1, 2};
  std::uint32_t chunk = 0;
  do {
    ++chunk;
    EXPECT_TRUE(
        say(at(order[0]), contribution(epoch, order[0], chunk), lanes(order[0], chunk)).empty());
    EXPECT_TRUE(
        say(at(order[1]), contribution(epoch, order[1], chunk), lanes(order[1], chunk)).empty());
    const auto sent =
        say(at(order[2]), contribution(epoch, order[2], chunk), lanes(order[2], chunk));
    ASSERT_EQ(sent.size(), 3u);
    for (std::uint32_t worker = 0; worker < 3; ++worker) {
      EXPECT_EQ(sent[worker].to, at(worker));
      EXPECT_EQ(sent[worker].bytes, sent[0].bytes);
    }
    const wire::Header header = sent[0].frame().header;
    EXPECT_EQ(header.kind, Kind::result);
    EXPECT_EQ(header.epoch, epoch);
    EXPECT_TRUE(header.slot == 3 && header.chunk == chunk);
    EXPECT_EQ(header.digest, 0xD1600 + chunk);
    EXPECT_EQ(header.workers, 0b111u);
    EXPECT_EQ(header.flags, 0);
    EXPECT_TRUE(header.what == contribution(epoch, 0, 1).what);
    EXPECT_EQ(payload_of(sent[0]), summed(3, chunk));
  } while (std::ranges::next_permutation(order).found);
  const Counters& counters = aggregator_.counters();
  EXPECT_EQ(counters.completed, 6u);
  EXPECT_EQ(counters.accepted, 18u);
  EXPECT_EQ(counters.results, 18u);
  EXPECT_EQ(counters.up_bytes, 18u * 8);
  EXPECT_EQ(counters.down_bytes, 18u * 8);
}

TEST_F(AggregatorTest, FloatSumsAreMadeInRankOrderWhateverOrderTheyCameIn) {
  const std::uint32_t epoch = form(3);
  const std::array<float, 3> values{1e8f, 1.0f, -1e8f};
  wire::Header header = contribution(epoch, 0, 1);
  header.what = {.op = Op::f32_sum, .bits = 32, .count = 1};
  std::vector<Sent> sent;
  for (const std::uint16_t worker : std::array<std::uint16_t, 3>{2, 0, 1}) {
    Bytes bytes(4);
    store_le(std::span(bytes), 0, values[worker]);
    header.worker = worker;
    header.flags = worker == 0 ? wire::kNonFinite : 0;
    sent = say(at(worker), header, bytes);
  }
  ASSERT_EQ(sent.size(), 3u);
  EXPECT_EQ(load_le<float>(sent[0].frame().payload), 0.0f) << "(1e8 + 1) - 1e8 in float32";
  EXPECT_EQ(sent[0].frame().header.flags, wire::kNonFinite) << "united, whoever set it";
  EXPECT_EQ(aggregator_.counters().non_finite, 1u);
}

TEST_F(AggregatorTest, OnlyTheNamedAreCountedButAllMustHaveSent) {
  const std::uint32_t epoch = form(3);
  EXPECT_TRUE(say(at(0), contribution(epoch, 0, 1, 0b101), lanes(0, 1)).empty());
  EXPECT_TRUE(say(at(2), contribution(epoch, 2, 1, 0b101), lanes(2, 1)).empty());
  const auto sent = say(at(1), contribution(epoch, 1, 1, 0b101), lanes(1, 1));
  ASSERT_EQ(sent.size(), 3u);
  EXPECT_EQ(sent[1].frame().header.workers, 0b101u);
  EXPECT_EQ(payload_of(sent[1]), summed(3, 1, 0b101));
}

TEST_F(AggregatorTest, ARepetitionIsToldWhoIsHereThenGetsTheResult) {
  const std::uint32_t epoch = form(3);
  say(at(0), contribution(epoch, 0, 1), lanes(0, 1));
  say(at(2), contribution(epoch, 2, 1), lanes(2, 1));
  auto sent = say(at(2), contribution(epoch, 2, 1), lanes(2, 1));
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].to, at(2));
  const wire::Header header = sent[0].frame().header;
  EXPECT_EQ(header.kind, Kind::wait);
  EXPECT_TRUE(header.worker == 2 && header.slot == 3 && header.chunk == 1);
  EXPECT_EQ(header.digest, 0xD1601u);
  EXPECT_EQ(header.workers, 0b101u);
  const auto all = say(at(1), contribution(epoch, 1, 1), lanes(1, 1));
  ASSERT_EQ(all.size(), 3u);
  sent = say(at(2), contribution(epoch, 2, 1), lanes(2, 1));
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].to, at(2));
  EXPECT_EQ(sent[0].bytes, all[2].bytes) << "never added again";
  EXPECT_TRUE(aggregator_.counters().again == 2 && aggregator_.counters().waits == 1);
  EXPECT_EQ(aggregator_.counters().accepted, 3u);
}

TEST_F(AggregatorTest, AStaleOneGetsNoAnswerAndChangesNothing) {
  const std::uint32_t epoch = form(2);
  for (const std::uint32_t chunk : {1u, 2u}) {
    say(at(0), contribution(epoch, 0, chunk, 0b11), lanes(0, chunk));
    say(at(1), contribution(epoch, 1, chunk, 0b11), lanes(1, chunk));
  }
  say(at(0), contribution(epoch, 0, 3, 0b11), lanes(0, 3));
  EXPECT_TRUE(say(at(1), contribution(epoch, 1, 1, 0b11), lanes(1, 1)).empty());
  EXPECT_EQ(aggregator_.counters().stale, 1u);
  const auto sent = say(at(1), contribution(epoch, 1, 3, 0b11), lanes(1, 3));
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(payload_of(sent[0]), summed(2, 3));
}

TEST_F(AggregatorTest, WhatCannotBeReducedIsMalformedAndChangesNothing) {
  const std::uint32_t epoch = form(2);
  std::vector<wire::Header> bad(8, contribution(epoch, 0, 1, 0b11));
  bad[0].slot = 8;
  bad[1].workers = 0;
  bad[2].workers = 0b101;
  bad[3].what.count = 9;
  bad[4].what.count = 0;
  bad[5].what.bits = 9;
  bad[6].what = {.op = Op::gather, .bits = 8, .count = 7};
  bad[7].what = {.op = Op::block_sum, .bits = 8, .count = 8, .grain = 8};
  for (const wire::Header& header : bad) {
    EXPECT_TRUE(say(at(0), header, Bytes(8, std::byte{0xff})).empty());
  }
  const std::uint32_t payload_max = kFrameSize - wire::kHeaderSize;
  wire::Header large = contribution(epoch, 0, 1, 0b11);
  large.what.count = payload_max + 1;
  EXPECT_TRUE(say(at(0), large, Bytes(payload_max + 1)).empty()) << "does not fit up";
  large.what = {.op = Op::lane_sum, .bits = 8, .count = payload_max};
  EXPECT_TRUE(say(at(0), large, Bytes(payload_max)).empty()) << "does not fit down";
  EXPECT_EQ(aggregator_.counters().malformed, 10u);
  say(at(0), contribution(epoch, 0, 1, 0b11), lanes(0, 1));
  const auto sent = say(at(1), contribution(epoch, 1, 1, 0b11), lanes(1, 1));
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(payload_of(sent[0]), summed(2, 1));
}

TEST_F(AggregatorTest, AnUnknownTableIsAskedForAndThenUsed) {
  const std::uint32_t epoch = form(2);
  wire::Header header = contribution(epoch, 0, 1, 0b11);
  header.what = {.op = Op::lane_sum, .bits = 4, .count = 2};
  header.table = wire::table_name(kTable);
  const Bytes codes{std::byte{0x7f}};
  auto sent = say(at(0), header, codes);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].kind(), Kind::need_table);
  EXPECT_EQ(sent[0].to, at(0));
  EXPECT_EQ(sent[0].frame().header.table, header.table);
  EXPECT_EQ(aggregator_.counters().tableless, 1u);
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(say(at(0),
                    {.kind = Kind::table, .job = kJob, .epoch = epoch, .table = header.table},
                    std::as_bytes(std::span(kTable)))
                    .empty());
  }
  EXPECT_TRUE(say(at(0), header, codes).empty());
  header.worker = 1;
  sent = say(at(1), header, codes);
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[0].frame().header.table, header.table);
  // 2 * 50 and 2 * 20 at the 7 bits that 2 * 50 needs.
  EXPECT_EQ(payload_of(sent[0]), (Bytes{std::byte{100}, std::byte{20}}));
}

TEST_F(AggregatorTest, DigestsThatDifferEndTheJobNamingBothSides) {
  const std::uint32_t epoch = form(3);
  say(at(0), contribution(epoch, 0, 1), lanes(0, 1));
  say(at(2), contribution(epoch, 2, 1), lanes(2, 1));
  wire::Header other = contribution(epoch, 1, 1);
  other.digest = 0xBAD;
  other.what = {.op = Op::max, .bits = 8, .count = 7};
  const std::string text =
      "worker 1 reduces something else than workers 0, 2: slot 3, chunk 1: max of 7 lanes with "
      "digest 0000000000000bad, wrap_sum of 8 lanes with digest 00000000000d1601";
  const auto sent = say(at(1), other, Bytes(7));
  expect_refused(sent, std::array{at(0), at(1), at(2)}, text);
  EXPECT_EQ(sent[1].frame().header.worker, 1);
  EXPECT_EQ(sent[1].frame().header.epoch, epoch);
  expect_refused(say(at(0), contribution(epoch, 0, 2), lanes(0, 2)), std::array{at(0)}, text);
  expect_refused(join(2, wish(3, 2)), std::array{at(2)}, text);
  EXPECT_EQ(aggregator_.counters().mismatched, 2u);
  EXPECT_EQ(aggregator_.counters().accepted, 2u);
}

TEST_F(AggregatorTest, OtherSetsAndTablesOfOneChunkAreMismatchesToo) {
  const std::uint32_t epoch = form(3);
  say(at(0), contribution(epoch, 0, 1), lanes(0, 1));
  EXPECT_EQ(say(at(1), contribution(epoch, 1, 1, 0b011), lanes(1, 1)).size(), 3u);
  EXPECT_EQ(aggregator_.counters().mismatched, 1u);
}

// --- leaving ---

TEST_F(AggregatorTest, AfterALeaveWhoeverWaitsForItIsTold) {
  const std::uint32_t epoch = form(3);
  for (const std::uint32_t worker : {0u, 1u, 2u}) {
    say(at(worker), contribution(epoch, worker, 1), lanes(worker, 1));
  }
  for (const std::uint16_t worker : std::array<std::uint16_t, 2>{1, 2}) {
    EXPECT_TRUE(
        say(at(worker), {.kind = Kind::leave, .worker = worker, .job = kJob, .epoch = epoch})
            .empty());
  }
  EXPECT_EQ(say(at(0), contribution(epoch, 0, 1), lanes(0, 1))[0].kind(), Kind::result)
      << "what is complete is still here";
  for (int i = 0; i < 2; ++i) {
    expect_refused(say(at(0), contribution(epoch, 0, 2), lanes(0, 2)), std::array{at(0)},
                   "worker 1, 2 has left the job");
  }
}

TEST_F(AggregatorTest, WhenAllHaveLeftTheSlotsAreFree) {
  const std::uint32_t epoch = form(2);
  say(at(0), {.kind = Kind::leave, .worker = 0, .job = kJob, .epoch = epoch});
  aggregator_.expire(now_);
  EXPECT_EQ(aggregator_.slots_leased(), 8u);
  say(at(1), {.kind = Kind::leave, .worker = 1, .job = kJob, .epoch = epoch});
  aggregator_.expire(now_);
  EXPECT_EQ(aggregator_.slots_leased(), 0u);
  EXPECT_TRUE(aggregator_.reports().empty());
}

TEST_F(AggregatorTest, ASilentJobIsForgottenWhenItsLeaseIsOver) {
  const std::uint32_t epoch = form(2);
  now_ += seconds(59);
  say(at(0), contribution(epoch, 0, 1, 0b11), lanes(0, 1));
  now_ += seconds(60) - milliseconds(1);
  say(at(9), contribution(epoch, 0, 1, 0b11), lanes(0, 1));
  aggregator_.expire(now_);
  EXPECT_EQ(aggregator_.slots_leased(), 8u);
  now_ += milliseconds(1);
  aggregator_.expire(now_);
  EXPECT_EQ(aggregator_.slots_leased(), 0u) << "a stranger's word does not count";
  EXPECT_EQ(say(at(0), contribution(epoch, 0, 1, 0b11), lanes(0, 1))[0].kind(), Kind::gone);
}

// --- after a loss of memory ---

wire::Header restore_of(std::uint32_t epoch, std::uint32_t worker, std::uint32_t chunk) {
  wire::Header header = contribution(epoch, worker, chunk, 0b11);
  header.kind = Kind::restore;
  return header;
}

TEST_F(AggregatorTest, ARestoredResultCompletesTheChunkThatOthersWaitFor) {
  const std::uint32_t epoch = form(2);
  say(at(1), contribution(epoch, 1, 5, 0b11), lanes(1, 5));
  auto sent = say(at(0), restore_of(epoch, 0, 5), summed(2, 5));
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[0].kind(), Kind::result);
  EXPECT_EQ(sent[0].to, at(1));
  EXPECT_EQ(payload_of(sent[0]), summed(2, 5));
  EXPECT_EQ(sent[1].kind(), Kind::restored);
  EXPECT_TRUE(sent[1].frame().header.slot == 3 && sent[1].frame().header.chunk == 5);
  sent = say(at(1), contribution(epoch, 1, 5, 0b11), lanes(1, 5));
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(payload_of(sent[0]), summed(2, 5));
}

TEST_F(AggregatorTest, WhoContributesToARestoredChunkGetsItAndWhatIsThereIsNotReplaced) {
  const std::uint32_t epoch = form(2);
  ASSERT_EQ(say(at(0), restore_of(epoch, 0, 5), summed(2, 5)).size(), 1u);
  const auto again = say(at(1), restore_of(epoch, 1, 5), Bytes(8));
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].kind(), Kind::restored);
  EXPECT_EQ(say(at(1), restore_of(epoch, 1, 3), Bytes(8))[0].kind(), Kind::restored) << "stale";
  const auto sent = say(at(1), contribution(epoch, 1, 5, 0b11), lanes(1, 5));
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].kind(), Kind::result);
  EXPECT_EQ(payload_of(sent[0]), summed(2, 5));
  EXPECT_EQ(aggregator_.counters().accepted, 0u);
}

// The table is left out when the answer's size is judged, so 9 bits are asked for instead of 2.
TEST_F(AggregatorTest, AResultThroughATableOfSmallEntriesIsRestored) {
  const std::uint32_t epoch = form(2);
  std::vector<std::uint16_t> small(256);
  small[1] = 1;
  wire::Header header = restore_of(epoch, 0, 1);
  header.what = {.op = Op::lane_sum, .bits = 8, .count = kFrameSize - wire::kHeaderSize};
  header.table = wire::table_name(small);
  say(at(0), {.kind = Kind::table, .job = kJob, .epoch = epoch, .table = header.table},
      std::as_bytes(std::span(small)));
  const auto sent = say(at(0), header, Bytes(header.what.count / 4));
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].kind(), Kind::restored);
}

// Workers would find it malformed, each for itself, long after.
TEST_F(AggregatorTest, ARestoreOfAnotherSizeThanItsReductionAsksForIsMalformed) {
  const std::uint32_t epoch = form(2);
  EXPECT_TRUE(say(at(0), restore_of(epoch, 0, 1), Bytes(7)).empty());
}

// --- several jobs, reports ---

TEST_F(AggregatorTest, TwoJobsDoNotTouchEachOther) {
  const std::uint32_t epoch = form(2);
  std::uint32_t other_epoch = 0;
  for (std::uint32_t worker = 0; worker < 2; ++worker) {
    const auto sent = join_from(at(10 + worker), worker, wish(2, 10 + worker), kJob + 1);
    other_epoch = sent[0].frame().header.epoch;
  }
  EXPECT_NE(other_epoch, epoch);
  EXPECT_EQ(aggregator_.slots_leased(), 16u);
  wire::Header other = contribution(other_epoch, 0, 1, 0b11);
  other.job = kJob + 1;
  other.digest = 1;
  say(at(0), contribution(epoch, 0, 1, 0b11), lanes(0, 1));
  EXPECT_TRUE(say(at(10), other, lanes(7, 7)).empty());
  const auto sent = say(at(1), contribution(epoch, 1, 1, 0b11), lanes(1, 1));
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_TRUE(sent[0].to == at(0) && sent[1].to == at(1));
  EXPECT_EQ(payload_of(sent[0]), summed(2, 1));
  other.worker = 1;
  other.digest = 2;
  const auto refused = say(at(11), other, lanes(7, 7));
  ASSERT_EQ(refused.size(), 2u);
  EXPECT_EQ(refused[0].to, at(10));
  say(at(0), contribution(epoch, 0, 2, 0b11), lanes(0, 2));
  EXPECT_EQ(say(at(1), contribution(epoch, 1, 2, 0b11), lanes(1, 2)).size(), 2u);
}

TEST_F(AggregatorTest, ReportsWhoIsWaitedForInTheOldestChunk) {
  join(1, wish(3, 1));
  auto report = aggregator_.reports().at(0);
  EXPECT_TRUE(report.is_forming);
  EXPECT_EQ(report.missing, 0b101u);
  EXPECT_EQ(report.terms, "sluice 1, test");
  const std::uint32_t epoch = form(3);
  EXPECT_FALSE(aggregator_.reports().at(0).is_waiting);
  say(at(2), contribution(epoch, 2, 1), lanes(2, 1));
  now_ += seconds(1);
  wire::Header later = contribution(epoch, 0, 1);
  later.slot = 1;
  say(at(0), later, lanes(0, 1));
  report = aggregator_.reports().at(0);
  EXPECT_TRUE(report.is_waiting && !report.is_forming);
  EXPECT_TRUE(report.slot == 3 && report.chunk == 1);
  EXPECT_EQ(report.missing, 0b011u);
  EXPECT_EQ(report.since, seconds(10));
}

}  // namespace
}  // namespace sluice::protocol
