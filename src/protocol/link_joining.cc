// How a link joins a job and leaves it.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/assert.h"
#include "base/random.h"
#include "protocol/assembly.h"
#include "protocol/link.h"
#include "protocol/rank_bits.h"

namespace sluice::protocol {
namespace {

// Sizes that are tried for datagrams, in this order from the wanted one on: jumbo frames, plain
// Ethernet under IPv6 and IPv4 or in a tunnel, the least that IPv6 promises.
constexpr std::array<std::uint32_t, 5> kFrameSizes{8952, 4048, 1452, 1372, 1232};
// Times that all sizes are sent before the largest that came back will do: where one frame in five
// is lost each way, one job in a thousand has smaller frames than it could have.
constexpr unsigned kSizeTries = 7;
// Between joins: an eighth of the time that they have taken, so a lost one costs little of it.
constexpr Time kJoinFirst = std::chrono::milliseconds(20);
constexpr Time kJoinMost = std::chrono::milliseconds(250);
constexpr Time kLeaveMost = std::chrono::seconds(3);
constexpr std::size_t kHurriedLeaves = 3;  // nobody waits for an answer

}  // namespace

// --- joining ---

void Link::add_join(std::uint32_t frame_size) {
  wire::write_join({.workers = static_cast<std::uint16_t>(options_.workers),
                    .slots = static_cast<std::uint16_t>(was_open() ? terms_.slots : options_.slots),
                    .frame_size = frame_size,
                    .fits = fits_,
                    .is_bound = was_open(),
                    .token = token(),
                    .cookie = cookie_,
                    .terms = options_.terms},
                   joins_.emplace_back());
}

// First the aggregator has to know the address, then all sizes are tried, then one is told.
void Link::begin_attempt(Time now) {
  joins_.clear();
  join_next_ = now;
  join_sent_.reset();
  joins_of_attempt_ = 0;
  if (cookie_ == 0 || fits_ != 0) {
    add_join(wire::kFrameSizeMin);
    return;
  }
  add_join(options_.frame_size);
  for (const std::uint32_t size : kFrameSizes) {
    if (size < options_.frame_size) add_join(size);
  }
}

// The aggregator does not know this address, or has started again: everything that answers what
// was sent before is late.
void Link::take_prove(const wire::Frame& frame, Time now) {
  if (state_ != State::joining || frame.header.digest != token()) {
    ++counters_.ignored;
    return;
  }
  learn_from_join(now);
  cookie_ = wire::parse_cookie(frame.payload);
  SLUICE_ASSERT(cookie_ != 0);
  is_answered_ = true;
  ++attempt_;
  joined_ = 0;
  begin_attempt(now);
}

void Link::take_welcome(const wire::Frame& frame, Time now) {
  const Result<wire::Welcome> welcome = wire::parse_welcome(frame.payload);
  if (state_ != State::joining || frame.header.digest != token() || !welcome ||
      welcome->frame_size < wire::kHeaderSize + kPayloadMin) {
    ++counters_.ignored;
    return;
  }
  learn_from_join(now);
  joined_ = frame.header.workers;
  is_answered_ = true;
  if (frame.header.epoch != 0) {
    open(frame, *welcome);
    return;
  }
  const auto size = static_cast<std::uint32_t>(wire::kHeaderSize + frame.payload.size());
  if (fits_ != 0 || size > options_.frame_size || size < wire::kHeaderSize + kPayloadMin) return;
  if (welcomed_ == 0) size_tries_ = 0;
  welcomed_ = std::max(welcomed_, size);
  // More than all others have, or than the aggregator takes, is of no use.
  if (welcomed_ >= std::min(options_.frame_size, welcome->frame_size)) settle(welcomed_, now);
}

// How long an answer takes is known where it can answer one join only.
void Link::learn_from_join(Time now) {
  if (join_sent_) trips_.learn(now - *join_sent_);
  join_sent_.reset();
}

void Link::settle(std::uint32_t size, Time now) {
  SLUICE_ASSERT(size >= wire::kHeaderSize + kPayloadMin && size <= options_.frame_size);
  fits_ = size;
  begin_attempt(now);
}

void Link::open(const wire::Frame& frame, const wire::Welcome& welcome) {
  // Never more than was asked for: memory is taken by it. And what was cut for a job stays as it
  // is.
  const bool is_same = welcome.slots == terms_.slots && welcome.frame_size == terms_.frame_size;
  if (fits_ == 0 || welcome.slots > options_.slots || welcome.frame_size > fits_ ||
      welcome.workers != options_.workers || (was_open() && !is_same)) {
    ++counters_.ignored;
    return;
  }
  if (welcome.slots < options_.channels) {
    refuse(fmt::format("the aggregator leases {} slots; accepted: {} or more", welcome.slots,
                       options_.channels));
    return;
  }
  const bool is_first = !was_open();
  if (is_first) make_room(welcome);
  terms_ = welcome;
  fits_ = welcome.frame_size;
  epoch_ = frame.header.epoch;
  SLUICE_ASSERT(epoch_ != 0 && fits_ <= options_.frame_size);
  state_ = State::open;
  joining_since_.reset();
  ++counters_.joins;
  trips_.open(welcome.window, options_.workers);
  if (!is_first) open_again();
}

// Before anything says that the link is open: memory may be refused, and then it is not.
void Link::make_room(const wire::Welcome& welcome) {
  const std::uint32_t slots_each = welcome.slots / options_.channels;
  const std::uint32_t rings_each = LinkRings::each_beside(slots_each);
  const std::uint32_t rings = rings_each * options_.channels;
  const std::size_t payload_max = welcome.frame_size - wire::kHeaderSize;
  slots_.open(welcome.slots, slots_each, payload_max);
  rings_.open(welcome.slots, rings, rings_each, payload_max);
  trips_.make_places(std::size_t{welcome.slots} + rings);
}

// The aggregator knows nothing: hands back what others may not have yet, sends everything again.
void Link::open_again() {
  trips_.drop();
  slots_.open_again(trips_);
  rings_.open_again(trips_);
}

void Link::lose(Time now) {
  if (!options_.joins_again) {
    refuse("the aggregator has lost its memory of the job, and joining again is off");
    return;
  }
  state_ = State::joining;
  joined_ = 0;
  is_answered_ = false;
  ++attempt_;
  begin_attempt(now);
}

void Link::refuse(std::string why) {
  state_ = leaving_ == Leaving::no ? State::refused : State::left;
  refusal_ = std::move(why);
}

void Link::take_refusal(const wire::Frame& frame) {
  std::string why(frame.payload.size(), ' ');
  std::memcpy(why.data(), frame.payload.data(), why.size());
  refuse(std::move(why));
}

void Link::send_joins(Time now, OutgoingFrames& out) {
  if (now < join_next_ || joins_.size() > out.room()) return;
  if (!joining_since_) joining_since_ = now;
  if (welcomed_ != 0 && fits_ == 0 && ++size_tries_ > kSizeTries) settle(welcomed_, now);
  for (const std::string& join : joins_) {
    out.add({.kind = wire::Kind::join}, std::as_bytes(std::span(join)));
  }
  join_sent_.reset();
  if (joins_of_attempt_++ == 0) join_sent_ = now;
  const Time pause = std::clamp((now - *joining_since_) / 8, kJoinFirst, kJoinMost);
  // Workers that start together shall not drown each other again and again.
  const auto spread = static_cast<std::uint32_t>(mix(options_.life + options_.rank, joins_sent_++));
  join_next_ = now + pause / 2 + pause * (spread % 1024) / 1024;
}

// --- leaving ---

void Link::leave(bool in_a_hurry) {
  leaving_ = in_a_hurry ? Leaving::at_once : Leaving::when_nobody_needs_it;
  if (!was_open() || state_ == State::refused) state_ = State::left;
}

void Link::send_leave(Time now, OutgoingFrames& out) {
  if (!leave_until_) leave_until_ = now + kLeaveMost;
  const bool in_a_hurry = leaving_ == Leaving::at_once;
  if (state_ == State::open && to_restore() == 0 && (in_a_hurry || now >= leave_next_)) {
    for (std::size_t i = 0; i < (in_a_hurry ? kHurriedLeaves : 1) && !out.is_full(); ++i) {
      out.add({.kind = wire::Kind::leave}, {});
    }
    leave_next_ = now + trips_.timeout(leaves_++);
  }
  if (in_a_hurry || now >= *leave_until_) state_ = State::left;
}

void Link::take_left(const wire::Header& header) {
  if (leaving_ != Leaving::no && header.workers == everyone_of(options_.workers)) {
    state_ = State::left;
  }
}

}  // namespace sluice::protocol
