// What tests of a link share: an aggregator that says frames to it and sees what it sends.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "base/bytes.h"
#include "protocol/link.h"
#include "protocol/round_trip.h"

namespace sluice::protocol {

using std::chrono::milliseconds;
using wire::Kind;
using Bytes = std::vector<std::byte>;

constexpr std::uint64_t kJob = 77;
inline constexpr std::uint32_t kEpoch = 9;
inline constexpr std::uint32_t kFrameSize = 1472;
inline constexpr std::uint64_t kCookie = 0xC00C1E;
inline const Bytes kUp{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};
inline const Bytes kDown{std::byte{5}, std::byte{6}, std::byte{7}, std::byte{8}};

struct Seen {
  wire::Header header;
  Bytes payload;
  Bytes bytes;
};

inline LinkOptions options_of(std::uint32_t channels = 1) {
  return {.rank = 0,
          .workers = 3,
          .job = kJob,
          .life = 5,
          .terms = "sluice 1, test",
          .channels = channels,
          .slots = 64,
          .frame_size = kFrameSize};
}

inline Item item_of(std::uint32_t piece, std::uint32_t channel = 0) {
  return {.what = {.op = Op::wrap_sum, .bits = 8, .count = 4},
          .up = kUp,
          .only = 0b111,
          .digest = 1000 + piece,
          .channel = channel,
          .piece = piece};
}

// Too long to be sent again where it may be asked about.
inline const Bytes kLargeUp(257, std::byte{9});
inline Item large_item_of(std::uint32_t piece, std::uint32_t channel = 0) {
  Item item = item_of(piece, channel);
  item.what.count = 257;
  item.up = kLargeUp;
  return item;
}

class LinkTest : public ::testing::Test {
 protected:
  std::vector<Seen> send(Time now, std::size_t most = 200) {
    std::vector<Outgoing> out(most);
    const std::size_t count = link_.send(now, out);
    std::vector<Seen> seen;
    for (std::size_t i = 0; i < count; ++i) {
      Bytes bytes(out[i].header.begin(), out[i].header.end());
      bytes.insert(bytes.end(), out[i].payload.begin(), out[i].payload.end());
      const auto frame = wire::parse(bytes);
      EXPECT_TRUE(frame) << frame.error().what;
      if (!frame) continue;
      EXPECT_EQ(frame->header.job, kJob);
      EXPECT_EQ(frame->header.worker, 0);
      if (frame->header.kind == Kind::join) token_ = wire::parse_join(frame->payload)->token;
      seen.push_back({frame->header, {frame->payload.begin(), frame->payload.end()}, bytes});
    }
    return seen;
  }
  std::optional<Arrived> hear(wire::Header header, Time now,
                              std::span<const std::byte> payload = {}) {
    header.job = kJob;
    datagram_.resize(wire::kHeaderSize);
    wire::write_header(header, payload, std::span(datagram_).first<wire::kHeaderSize>());
    datagram_.insert(datagram_.end(), payload.begin(), payload.end());
    return link_.receive(datagram_, now);
  }
  // Answers carry the token of the last join, unless it is said which.
  void prove(Time now, std::uint64_t cookie = kCookie) { prove(now, cookie, token_); }
  void prove(Time now, std::uint64_t cookie, std::uint64_t token) {
    std::string text;
    wire::write_cookie(cookie, text);
    hear({.kind = Kind::prove, .digest = token}, now, std::as_bytes(std::span(text)));
  }
  struct How {
    std::uint32_t epoch = kEpoch;
    std::uint64_t workers = 0b111;
    std::uint32_t size = 92;  // of the datagram
    std::optional<std::uint64_t> token = std::nullopt;
  };
  void welcome(Time now, wire::Welcome body, const How& how) {
    std::string text;
    wire::write_welcome(body, how.size - wire::kHeaderSize, text);
    hear({.kind = Kind::welcome,
          .epoch = how.epoch,
          .digest = how.token.value_or(token_),
          .workers = how.workers},
         now, std::as_bytes(std::span(text)));
  }
  void welcome(Time now, wire::Welcome body, std::uint32_t epoch = kEpoch) {
    welcome(now, body, How{.epoch = epoch});
  }
  void refuse(Time now, const std::string& why, std::uint64_t token, std::uint32_t epoch = 0) {
    hear({.kind = Kind::refused, .epoch = epoch, .digest = token}, now,
         std::as_bytes(std::span(why)));
  }
  // Up to the joins that say what fits; when they are sent.
  Time find_size(Time now, std::uint32_t size = kFrameSize, Time delay = Time{0}) {
    send(now);
    prove(now += delay);
    send(now);
    welcome(now += delay, {3, 1, size, 2}, How{.epoch = 0, .workers = 0, .size = size});
    send(now);
    return now;
  }
  // Without delay the time-out is the least.
  void open(std::uint16_t slots, std::uint32_t window, Time delay = Time{0}) {
    const Time now = find_size(Time{0}, kFrameSize, delay);
    welcome(now + delay, {3, slots, kFrameSize, window});
    ASSERT_TRUE(link_.is_open());
  }
  // What the link knows of round trips from joining.
  static RoundTrip trip_of_joining(Time delay = Time{0}) {
    RoundTrip trip;
    for (int i = 0; i < 3; ++i) trip.sample(delay);
    return trip;
  }
  void put(std::uint32_t items) {
    for (std::uint32_t i = 0; i < items; ++i) link_.put(item_of(i));
  }
  void put_large(std::uint32_t items) {
    for (std::uint32_t i = 0; i < items; ++i) link_.put(large_item_of(i));
  }
  static wire::Header result(std::uint16_t slot, std::uint32_t use, std::uint64_t digest,
                             std::uint32_t epoch = kEpoch) {
    return {.kind = Kind::result,
            .epoch = epoch,
            .slot = slot,
            .use = use,
            .digest = digest,
            .workers = 0b111,
            .what = {.op = Op::wrap_sum, .bits = 8, .count = 4}};
  }
  static wire::Header wait(std::uint16_t slot, std::uint32_t use, std::uint64_t workers) {
    return {.kind = Kind::wait,
            .epoch = kEpoch,
            .slot = slot,
            .use = use,
            .digest = 1000u + slot,
            .workers = workers};
  }

  Link link_{options_of()};
  std::uint64_t token_ = 0;  // of the last join

 private:
  Bytes datagram_;
};

}  // namespace sluice::protocol
