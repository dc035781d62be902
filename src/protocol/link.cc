#include "protocol/link.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "base/random.h"
#include "protocol/assembly.h"
#include "protocol/ring_rule.h"

namespace sluice::protocol {
namespace {

// Sizes that are tried for datagrams, in this order from the wanted one on: jumbo frames, plain
// Ethernet under IPv6 and IPv4 or in a tunnel, the least that IPv6 promises.
constexpr std::array<std::uint32_t, 5> kFrameSizes{8952, 4048, 1452, 1372, 1232};
// Nobody answers them, and slots stay leased if none arrives.
constexpr std::size_t kLeaves = 3;
// A ring keeps one item at a time on its way, as a slot does. Fewer of them are used more often
// each, and silence pays from the second use on.
constexpr std::uint32_t kSlotsPerRing = 4;
constexpr Time kWatch = std::chrono::milliseconds(200);
constexpr Time kJoinFirst = std::chrono::milliseconds(20);
constexpr Time kJoinMost = std::chrono::milliseconds(500);

}  // namespace

Link::Link(const LinkOptions& options) : options_(options) {
  SLUICE_ASSERT(options.workers >= 1 && options.workers <= wire::kWorkersMax);
  SLUICE_ASSERT(options.rank < options.workers && options.channels >= 1);
  SLUICE_ASSERT(options.slots >= options.channels && options.slots <= 32768);
  SLUICE_ASSERT(options.frame_size >= wire::kHeaderSize + kPayloadMin);
  channels_.resize(std::size_t{2} * options.channels);
  add_join(options.slots, options.frame_size);
  for (const std::uint32_t size : kFrameSizes) {
    if (size < options.frame_size) add_join(options.slots, size);
  }
}

// --- joining ---

void Link::add_join(std::uint32_t slots, std::uint32_t frame_size) {
  wire::write_join({.workers = static_cast<std::uint16_t>(options_.workers),
                    .slots = static_cast<std::uint16_t>(slots),
                    .frame_size = frame_size,
                    .token = wire::make_token(options_.life, generation_),
                    .terms = options_.terms},
                   joins_.emplace_back());
}

void Link::take_welcome(const wire::Frame& frame, Time now) {
  if (state_ != State::joining) return;
  const Result<wire::Welcome> welcome = wire::parse_welcome(frame.payload);
  if (!welcome || welcome->frame_size < wire::kHeaderSize + kPayloadMin) return;
  joined_ = frame.header.workers;
  if (frame.header.epoch == 0) {
    join_next_ = std::min(join_next_, now + kJoinMost);
    return;
  }
  open(frame, *welcome);
}

void Link::open(const wire::Frame& frame, const wire::Welcome& welcome) {
  // Never more than was asked for: memory is taken by it.
  if (welcome.slots > options_.slots || welcome.frame_size > options_.frame_size ||
      welcome.workers != options_.workers) {
    ++counters_.ignored;
    return;
  }
  if (welcome.slots < options_.channels) {
    refuse(fmt::format("the aggregator leases {} slots; accepted: {} or more", welcome.slots,
                       options_.channels));
    return;
  }
  // Everything was cut to what the job began with. Late joins of the time before may have made
  // something else; who sent them will join again, and so does this worker.
  if (was_open() && (welcome.slots != terms_.slots || welcome.frame_size != terms_.frame_size)) {
    offered_ = welcome;
    return;
  }
  const bool is_first = !was_open();
  offered_.reset();
  terms_ = welcome;
  epoch_ = frame.header.epoch;
  state_ = State::open;
  ++counters_.joins;
  congestion_.open(welcome.window, options_.workers);
  if (!is_first) {
    open_again();
    return;
  }
  slots_per_channel_ = welcome.slots / options_.channels;
  rings_per_channel_ = std::max(1u, slots_per_channel_ / kSlotsPerRing);
  const std::size_t rings = std::size_t{rings_per_channel_} * options_.channels;
  slots_.resize(welcome.slots + rings);
  kept_.resize(welcome.slots + rings * kRingDepth);
  results_ = AlignedBuffer(welcome.slots * (welcome.frame_size - wire::kHeaderSize));
  reset_queues();
}

// The aggregator knows nothing: hands back what others may not have yet, sends everything again.
void Link::open_again() {
  restores_ = 0;
  for (Kept& kept : kept_) {
    kept.to_restore = kept.has;
    kept.restore_sent = -kNever;
    restores_ += kept.to_restore ? 1 : 0;
  }
  reset_queues();
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
  attempts_ = 0;
  join_next_ = now;
  // What the job began with: everything was cut to it.
  joins_.clear();
  ++generation_;
  add_join(terms_.slots, terms_.frame_size);
}

void Link::refuse(std::string why) {
  state_ = State::refused;
  refusal_ = std::move(why);
}

// Each is as long as the frames it asks for, so those that arrive say which frames do.
void Link::send_joins(Time now, std::span<Outgoing> out, std::size_t& count) {
  if (now < join_next_ || count + joins_.size() > out.size()) return;
  for (const std::string& join : joins_) {
    fill(out[count++], {.kind = wire::Kind::join}, std::as_bytes(std::span(join)));
  }
  const Time pause = std::min(kJoinMost, kJoinFirst * (1u << std::min(attempts_, 10u)));
  // Workers that start together shall not drown each other again and again.
  const auto spread = static_cast<std::uint32_t>(mix(options_.life + options_.rank, attempts_++));
  join_next_ = now + pause / 2 + pause * (spread % 1024) / 1024;
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
  if (state_ == State::leaving && was_open() && !out.empty()) {
    while (count < std::min(kLeaves, out.size())) {
      fill(out[count++], {.kind = wire::Kind::leave}, {});
    }
    state_ = State::left;
  }
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
    if (!kept.to_restore || now < kept.restore_sent + round_trip_.timeout(2)) continue;
    send_result_back(i, out[count++]);
    kept.restore_sent = now;
  }
}

void Link::send_result_back(std::size_t kept, Outgoing& out) {
  wire::Header header = kept_[kept].header;
  header.kind = wire::Kind::restore;
  fill(out, header, result_room(kept).first(kept_[kept].size));
}

// Nothing is on its way that would be answered anyway.
bool Link::may_watch() const { return is_watching_ && busy_ == 0 && restores_ == 0; }

void Link::send_watch(Time now, std::span<Outgoing> out, std::size_t& count) {
  if (!may_watch() || now < heard_ + kWatch || count == out.size()) return;
  if (kept_last_ && kept_[*kept_last_].has) {
    send_result_back(*kept_last_, out[count++]);
  } else {
    fill(out[count++], {.kind = wire::Kind::join}, std::as_bytes(std::span(joins_.front())));
  }
  heard_ = now;
}

Time Link::wake() const {
  if (state_ == State::joining) return join_next_;
  if (state_ == State::leaving) return Time{0};
  if (state_ != State::open) return kNever;
  if (!tables_wanted_.empty()) return Time{0};
  Time wake = wake_for_items();
  if (may_watch()) wake = std::min(wake, heard_ + kWatch);
  if (restores_ == 0) return wake;
  for (const Kept& kept : kept_) {
    if (kept.to_restore) wake = std::min(wake, kept.restore_sent + round_trip_.timeout(2));
  }
  return wake;
}

// --- receiving ---

std::optional<Arrived> Link::receive(std::span<const std::byte> datagram, Time now) {
  ++counters_.received;
  counters_.received_bytes += datagram.size();
  const auto frame = wire::parse(datagram);
  if (!frame || frame->header.job != options_.job) {
    ++counters_.ignored;
    return std::nullopt;
  }
  const wire::Header& header = frame->header;
  if (header.kind == wire::Kind::welcome) {
    take_welcome(*frame, now);
    return std::nullopt;
  }
  const bool is_ours = header.epoch == epoch_ || header.epoch == 0 || state_ == State::joining;
  if (header.kind == wire::Kind::refused && state_ != State::refused && is_ours) {
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
    case wire::Kind::result:
      return take_result(*frame, now);
    case wire::Kind::wait:
      take_wait(*frame, now);
      break;
    case wire::Kind::need_table:
      take_need(header.table, now);
      break;
    case wire::Kind::restored:
      take_restored(header);
      break;
    case wire::Kind::gone:
      lose(now);
      break;
    default:
      ++counters_.ignored;
      break;
  }
  return std::nullopt;
}

}  // namespace sluice::protocol
