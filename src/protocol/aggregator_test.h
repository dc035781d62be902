// What tests of an aggregator share: workers that say frames to it and see its answers.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "base/bytes.h"
#include "base/random.h"
#include "protocol/aggregator.h"
#include "protocol/assembly.h"

namespace sluice::protocol {

using std::chrono::milliseconds;
using std::chrono::seconds;
using wire::Kind;
using Bytes = std::vector<std::byte>;

constexpr std::uint64_t kJob = 0xABCD;
inline constexpr std::uint32_t kFrameSize = 1472;
inline constexpr std::array<std::uint16_t, 16> kTable{0,  1,  3,  5,  8,  9,  12, 20,
                                                      21, 22, 23, 30, 31, 40, 41, 50};

inline Address at(std::uint32_t worker) { return {.low = worker, .port = 1000}; }

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
    EXPECT_EQ(c.received, c.malformed + c.unexpected + c.strangers + c.unproven + c.gone +
                              c.control + c.accepted + c.again + c.passed + c.blocked + c.asked +
                              c.stale + c.tableless + c.mismatched);
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
  std::vector<Sent> join(std::uint32_t worker, const wire::Join& wish, std::uint64_t job = kJob) {
    return join_from(at(worker), worker, wish, job);
  }
  // With the cookie of this address.
  std::vector<Sent> join_from(const Address& from, std::uint32_t worker, wire::Join wish,
                              std::uint64_t job = kJob) {
    wish.cookie = cookie_of(from);
    return join_as_said(from, worker, wish, job);
  }
  // What the aggregator gives who joins without one.
  std::uint64_t cookie_of(const Address& from) {
    const auto sent = join_as_said(from, 0, wish(1));
    EXPECT_EQ(sent.size(), 1u);
    if (sent.size() != 1 || sent[0].kind() != Kind::prove) return 0;
    EXPECT_EQ(sent[0].to, from);
    return wire::parse_cookie(sent[0].frame().payload);
  }
  std::vector<Sent> join_as_said(const Address& from, std::uint32_t worker, const wire::Join& wish,
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
  // Of one who knows which frames pass both ways.
  static wire::Join wish(std::uint32_t workers, std::uint64_t life = 0, std::uint16_t attempt = 0) {
    return {.workers = static_cast<std::uint16_t>(workers),
            .slots = 8,
            .frame_size = wire::kFrameSizeMin,
            .fits = kFrameSize,
            .token = wire::make_token(100 + life, attempt),
            .terms = "sluice 1, test"};
  }

  static wire::Join bound(wire::Join wish) {
    wish.is_bound = true;
    return wish;
  }
  std::vector<Sent> leave(std::uint32_t worker, std::uint32_t epoch, std::uint64_t job = kJob) {
    return say(at(worker), {.kind = Kind::leave,
                            .worker = static_cast<std::uint16_t>(worker),
                            .job = job,
                            .epoch = epoch});
  }
  // A question about nothing.
  std::vector<Sent> watch(std::uint32_t worker, std::uint32_t epoch) {
    return say(at(worker), {.kind = Kind::ask,
                            .worker = static_cast<std::uint16_t>(worker),
                            .job = kJob,
                            .epoch = epoch});
  }

  static AggregatorOptions options_of(const Limits& limits, std::uint64_t start = 5) {
    return {.limits = limits, .secret = {start, 77}};
  }

  Aggregator aggregator_{options_of({.slots_max = 64})};
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

// Bytes of worker w for use c, 8 lanes of 8 bits.
inline Bytes lanes(std::uint32_t worker, std::uint32_t use) {
  Bytes bytes(8);
  for (std::size_t i = 0; i < 8; ++i) {
    bytes[i] = static_cast<std::byte>(mix(worker, std::uint64_t{use} * 8 + i) % 60);
  }
  return bytes;
}

inline wire::Header contribution(std::uint32_t epoch, std::uint32_t worker, std::uint32_t use,
                                 std::uint64_t workers = 0b111) {
  return {.kind = Kind::contribution,
          .worker = static_cast<std::uint16_t>(worker),
          .job = kJob,
          .epoch = epoch,
          .slot = 3,
          .use = use,
          .digest = 0xD1600 + use,
          .workers = workers,
          .what = {.op = Op::wrap_sum, .bits = 8, .count = 8}};
}

inline Bytes summed(std::uint32_t workers, std::uint32_t use, std::uint64_t only = ~0ull) {
  Bytes sum(8);
  for (std::uint32_t worker = 0; worker < workers; ++worker) {
    if ((only >> worker & 1) == 0) continue;
    for (std::size_t i = 0; i < 8; ++i) {
      sum[i] = static_cast<std::byte>(std::to_integer<int>(sum[i]) +
                                      std::to_integer<int>(lanes(worker, use)[i]));
    }
  }
  return sum;
}

inline Bytes payload_of(const Sent& sent) {
  return {sent.frame().payload.begin(), sent.frame().payload.end()};
}

inline void expect_refused(const std::vector<Sent>& sent, std::span<const Address> to,
                           const std::string& text) {
  ASSERT_EQ(sent.size(), to.size());
  for (std::size_t i = 0; i < to.size(); ++i) {
    EXPECT_EQ(sent[i].kind(), Kind::refused);
    EXPECT_EQ(sent[i].to, to[i]);
    EXPECT_EQ(sent[i].text(), text);
  }
}

}  // namespace sluice::protocol
