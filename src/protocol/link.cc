#include "protocol/link.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "base/random.h"
#include "protocol/assembly.h"
#include "protocol/rank_bits.h"
#include "protocol/ring_rule.h"

namespace sluice::protocol {
namespace {

// Sizes that are tried for datagrams, in this order from the wanted one on: jumbo frames, plain
// Ethernet under IPv6 and IPv4 or in a tunnel, the least that IPv6 promises.
constexpr std::array<std::uint32_t, 5> kFrameSizes{8952, 4048, 1452, 1372, 1232};
// Times that all sizes are sent before the largest that came back will do: where one frame in five
// is lost each way, one job in a thousand has smaller frames than it could have.
constexpr unsigned kProbes = 7;
// A ring keeps one item at a time on its way, as a slot does. Fewer of them are used more often
// each, and silence pays from the second use on.
constexpr std::uint32_t kSlotsPerRing = 4;
constexpr Time kWatch = std::chrono::milliseconds(200);
// Between joins: an eighth of the time that they have taken, so a lost one costs little of it.
constexpr Time kJoinFirst = std::chrono::milliseconds(20);
constexpr Time kJoinMost = std::chrono::milliseconds(250);
constexpr Time kLeaveMost = std::chrono::seconds(3);
constexpr Time kStampMost = std::chrono::seconds(10);
constexpr unsigned kRestore = 3;           // times in vain that count from the start
constexpr std::size_t kHurriedLeaves = 3;  // nobody waits for an answer

}  // namespace

Link::Link(const LinkOptions& options) : options_(options) {
  SLUICE_ASSERT(options.workers >= 1 && options.workers <= wire::kWorkersMax);
  SLUICE_ASSERT(options.rank < options.workers && options.channels >= 1);
  SLUICE_ASSERT(options.slots >= options.channels && options.slots <= 32768);
  SLUICE_ASSERT(options.frame_size >= wire::kHeaderSize + kPayloadMin);
  channels_.resize(std::size_t{2} * options.channels);
  begin_attempt(Time{0});
}

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
  if (welcomed_ == 0) probes_ = 0;
  welcomed_ = std::max(welcomed_, size);
  // More than all others have, or than the aggregator takes, is of no use.
  if (welcomed_ >= std::min(options_.frame_size, welcome->frame_size)) settle(welcomed_, now);
}

// How long an answer takes is known where it can answer one join only.
void Link::learn_from_join(Time now) {
  if (join_sent_) round_trip_.sample(now - *join_sent_);
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
  congestion_.open(welcome.window, options_.workers);
  if (!is_first) open_again();
}

// Before anything says that the link is open: memory may be refused, and then it is not.
void Link::make_room(const wire::Welcome& welcome) {
  slots_per_channel_ = welcome.slots / options_.channels;
  rings_per_channel_ = std::max(1u, slots_per_channel_ / kSlotsPerRing);
  const std::size_t rings = std::size_t{rings_per_channel_} * options_.channels;
  kept_.resize(welcome.slots + rings * kRingDepth);
  results_ = AlignedBuffer(welcome.slots * (welcome.frame_size - wire::kHeaderSize));
  reset_queues(welcome.slots + rings);
  // Last, since whoever drops items has queues for so many.
  slots_.resize(welcome.slots + rings);
}

// The aggregator knows nothing: hands back what others may not have yet, sends everything again.
void Link::open_again() {
  restores_ = 0;
  for (Kept& kept : kept_) {
    kept.to_restore = kept.has;
    kept.restore_sent = -kNever;
    restores_ += kept.to_restore ? 1 : 0;
  }
  reset_queues(slots_.size());
  for (std::uint32_t index = 0; index < slots_.size(); ++index) {
    Slot& slot = slots_[index];
    slot.is_announced = false;
    if (!slot.busy) continue;
    slot.sends = 0;
    slot.in_vain = 0;
    slot.seen = 0;
    slot.is_held = false;
    again_.push(index);
  }
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

void Link::send_joins(Time now, std::span<Outgoing> out, std::size_t& count) {
  if (now < join_next_ || count + joins_.size() > out.size()) return;
  if (!joining_since_) joining_since_ = now;
  if (welcomed_ != 0 && fits_ == 0 && ++probes_ > kProbes) settle(welcomed_, now);
  for (const std::string& join : joins_) {
    fill(out[count++], {.kind = wire::Kind::join}, std::as_bytes(std::span(join)));
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

void Link::send_leave(Time now, std::span<Outgoing> out, std::size_t& count) {
  if (!leave_until_) leave_until_ = now + kLeaveMost;
  const bool in_a_hurry = leaving_ == Leaving::at_once;
  if (state_ == State::open && restores_ == 0 && (in_a_hurry || now >= leave_next_)) {
    for (std::size_t i = 0; i < (in_a_hurry ? kHurriedLeaves : 1) && count < out.size(); ++i) {
      fill(out[count++], {.kind = wire::Kind::leave}, {});
    }
    leave_next_ = now + round_trip_.timeout(leaves_++);
  }
  if (in_a_hurry || now >= *leave_until_) state_ = State::left;
}

// --- sending ---

void Link::fill(Outgoing& out, wire::Header header, std::span<const std::byte> payload) {
  header.worker = static_cast<std::uint16_t>(options_.rank);
  header.job = options_.job;
  if (header.kind != wire::Kind::join) header.epoch = epoch_;
  wire::write_header(header, payload, out.header);
  out.payload = payload;
  ++counters_.sent;
  counters_.sent_bytes += wire::kHeaderSize + payload.size();
}

std::size_t Link::send(Time now, std::span<Outgoing> out) {
  std::size_t count = 0;
  if (state_ == State::joining) send_joins(now, out, count);
  if (leaving_ != Leaving::no && state_ != State::left) send_leave(now, out, count);
  if (state_ != State::open) return count;
  send_tables(out, count);
  send_restores(now, out, count);
  send_asks(now, out, count);
  send_again(now, out, count);
  send_new(now, out, count);
  send_watch(now, out, count);
  return count;
}

void Link::send_tables(std::span<Outgoing> out, std::size_t& count) {
  while (!tables_wanted_.empty() && count < out.size()) {
    const auto found = tables_.find(tables_wanted_.back());
    tables_wanted_.pop_back();
    if (found == tables_.end()) continue;
    fill(out[count++], {.kind = wire::Kind::table, .table = found->first},
         std::as_bytes(found->second.entries));
  }
}

void Link::send_restores(Time now, std::span<Outgoing> out, std::size_t& count) {
  if (restores_ == 0) return;
  for (std::size_t i = 0; i < kept_.size() && count < out.size(); ++i) {
    Kept& kept = kept_[i];
    if (!kept.to_restore || now < kept.restore_sent + round_trip_.timeout(kRestore)) continue;
    send_result_back(i, out[count++]);
    kept.restore_sent = now;
  }
}

void Link::send_result_back(std::size_t kept, Outgoing& out) {
  wire::Header header = kept_[kept].header;
  header.kind = wire::Kind::restore;
  fill(out, header, result_room(kept).first(kept_[kept].size));
}

// Asks now and then whether the aggregator still knows the job, where nothing is on its way that
// would be answered: others may wait there for what only this worker can restore.
void Link::send_watch(Time now, std::span<Outgoing> out, std::size_t& count) {
  if (!is_idle() || leaving_ != Leaving::no) return;
  if (now < heard_ + kWatch || count == out.size()) return;
  fill(out[count++], {.kind = wire::Kind::ask, .stamp = stamp_of(now)}, {});
  heard_ = now;
}

Time Link::wake() const {
  const bool is_leaving = leaving_ != Leaving::no && state_ != State::left;
  if (is_leaving && !leave_until_) return Time{0};
  Time wake = is_leaving ? *leave_until_ : kNever;
  if (state_ == State::joining) return std::min(wake, join_next_);
  if (state_ != State::open) return kNever;
  if (!tables_wanted_.empty()) return Time{0};
  wake = std::min(wake, wake_for_items());
  if (is_idle()) wake = std::min(wake, is_leaving ? leave_next_ : heard_ + kWatch);
  if (restores_ == 0) return wake;
  for (const Kept& kept : kept_) {
    if (kept.to_restore) wake = std::min(wake, kept.restore_sent + round_trip_.timeout(kRestore));
  }
  return wake;
}

// --- receiving ---

// An answer took so long, whatever was lost before it.
void Link::learn_from_stamp(std::uint32_t stamp, Time now) {
  if (stamp == 0) return;
  const std::chrono::microseconds took(std::uint32_t{stamp_of(now) - stamp});
  if (took < kStampMost) round_trip_.sample(took);
}

std::optional<Arrived> Link::receive(std::span<const std::byte> datagram, Time now) {
  ++counters_.received;
  counters_.received_bytes += datagram.size();
  const auto frame = wire::parse(datagram);
  if (!frame || frame->header.job != options_.job) {
    ++counters_.ignored;
    return std::nullopt;
  }
  const wire::Header& header = frame->header;
  if (header.kind == wire::Kind::prove) {
    take_prove(*frame, now);
    return std::nullopt;
  }
  if (header.kind == wire::Kind::welcome) {
    take_welcome(*frame, now);
    return std::nullopt;
  }
  if (header.kind == wire::Kind::refused && state_ != State::refused && header.digest == token()) {
    std::string why(frame->payload.size(), ' ');
    std::memcpy(why.data(), frame->payload.data(), why.size());
    refuse(std::move(why));
    return std::nullopt;
  }
  if (state_ != State::open || header.epoch != epoch_) {
    ++counters_.ignored;
    return std::nullopt;
  }
  heard_ = now;
  switch (header.kind) {
    case wire::Kind::result: return take_result(*frame, now);
    case wire::Kind::wait: take_wait(*frame, now); break;
    case wire::Kind::need_table: take_need(header.table, now); break;
    case wire::Kind::restored: take_restored(header); break;
    case wire::Kind::gone: lose(now); break;
    case wire::Kind::left:
      if (leaving_ != Leaving::no && header.workers == everyone_of(options_.workers)) {
        state_ = State::left;
      }
      break;
    default: ++counters_.ignored; break;
  }
  return std::nullopt;
}

}  // namespace sluice::protocol
