#include "protocol/link.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/random.h"
#include "protocol/assembly.h"
#include "protocol/non_finite.h"

namespace sluice::protocol {
namespace {

// Sizes that are tried for datagrams, in this order from the wanted one on: jumbo frames, plain
// Ethernet under IPv6 and IPv4 or in a tunnel, the least that IPv6 promises.
constexpr std::array<std::uint32_t, 5> kFrameSizes{8952, 4048, 1452, 1372, 1232};
// Results of later items of a channel after which one is presumed lost.
constexpr std::uint64_t kOvertakenBy = 3;
// Queues on the way beyond this gain nothing.
constexpr Time kQueueMost = std::chrono::milliseconds(2);
constexpr Time kWatch = std::chrono::milliseconds(200);
constexpr Time kJoinFirst = std::chrono::milliseconds(20);
constexpr Time kJoinMost = std::chrono::milliseconds(500);

}  // namespace

Link::Link(const LinkOptions& options) : options_(options) {
  SLUICE_ASSERT(options.workers >= 1 && options.workers <= wire::kWorkersMax);
  SLUICE_ASSERT(options.rank < options.workers && options.channels >= 1);
  SLUICE_ASSERT(options.slots >= options.channels && options.slots <= 65535);
  SLUICE_ASSERT(options.frame_size >= wire::kHeaderSize + kPayloadMin);
  channels_.resize(options.channels);
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
  congestion_.open(welcome.window);
  if (!is_first) {
    open_again();
    return;
  }
  slots_per_channel_ = welcome.slots / options_.channels;
  const std::size_t slots = std::size_t{slots_per_channel_} * options_.channels;
  slots_.resize(slots);
  results_ = AlignedBuffer(slots * (welcome.frame_size - wire::kHeaderSize));
  flying_.reset(slots);
  held_.reset(slots);
  again_.reset(slots);
}

// The aggregator knows nothing: hands back what others may not have yet, sends everything again.
void Link::open_again() {
  restores_ = 0;
  flying_.reset(slots_.size());
  held_.reset(slots_.size());
  again_.reset(slots_.size());
  for (std::uint32_t index = 0; index < slots_.size(); ++index) {
    Slot& slot = slots_[index];
    slot.to_restore = slot.has_result;
    slot.restore_sent = -kNever;
    restores_ += slot.to_restore ? 1 : 0;
    if (!slot.busy) continue;
    slot.sends = 0;
    slot.seen = 0;
    slot.waits = 0;
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

void Link::put(const Item& item) {
  SLUICE_ASSERT(item.channel < channels_.size() && was_open());
  Channel& channel = channels_[item.channel];
  if (channel.queue_first == channel.queue.size()) {
    channel.queue.clear();
    channel.queue_first = 0;
  }
  channel.queue.push_back(item);
  if (!item.what.table.empty()) tables_[wire::table_name(item.what.table)] = item.what.table;
}

void Link::drop_items() {
  for (Slot& slot : slots_) {
    slot.busy = false;
    slot.item = {};
  }
  for (Channel& channel : channels_) {
    channel.queue.clear();
    channel.queue_first = 0;
  }
  flying_.reset(slots_.size());
  held_.reset(slots_.size());
  again_.reset(slots_.size());
  tables_.clear();
}

std::size_t Link::send(Time now, std::span<Outgoing> out) {
  std::size_t count = 0;
  if (state_ == State::joining) send_joins(now, out, count);
  if (state_ == State::leaving && was_open() && !out.empty()) {
    fill(out[count++], {.kind = wire::Kind::leave}, {});
    state_ = State::left;
  }
  if (state_ != State::open) return count;
  send_tables(out, count);
  send_restores(now, out, count);
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
         std::as_bytes(found->second));
  }
}

void Link::send_restores(Time now, std::span<Outgoing> out, std::size_t& count) {
  if (restores_ == 0) return;
  for (std::uint32_t index = 0; index < slots_.size() && count < out.size(); ++index) {
    Slot& slot = slots_[index];
    if (!slot.to_restore || now < slot.restore_sent + round_trip_.timeout(2)) continue;
    send_result_back(index, out[count++]);
    slot.restore_sent = now;
  }
}

void Link::send_result_back(std::uint32_t index, Outgoing& out) {
  wire::Header header = slots_[index].result;
  header.kind = wire::Kind::restore;
  fill(out, header, result_room(index).first(slots_[index].result_size));
}

// Nothing is on its way that would be answered anyway.
bool Link::may_watch() const {
  return is_watching_ && flying_.count() == 0 && held_.count() == 0 && again_.count() == 0 &&
         restores_ == 0;
}

void Link::send_watch(Time now, std::span<Outgoing> out, std::size_t& count) {
  if (!may_watch() || now < heard_ + kWatch || count == out.size()) return;
  if (slot_last_ != SlotQueue::kNone && slots_[slot_last_].has_result) {
    send_result_back(slot_last_, out[count++]);
  } else {
    fill(out[count++], {.kind = wire::Kind::join}, std::as_bytes(std::span(joins_.front())));
  }
  heard_ = now;
}

// All workers send the items of a channel in the same order, so their results come in that order
// too, where none is lost. Once for each: after that only time tells.
void Link::find_overtaken(std::uint32_t number, std::uint64_t answered) {
  Channel& channel = channels_[number];
  for (; channel.checked + kOvertakenBy <= answered; ++channel.checked) {
    const std::uint32_t index = slot_of(number, channel.checked);
    const Slot& slot = slots_[index];
    if (!slot.busy || slot.number != channel.checked || !flying_.has(index)) continue;
    congestion_.lost(slot.serial, serial_next_);
    flying_.remove(index);
    again_.push(index);
  }
}

Time Link::due(const Slot& slot, bool is_held) const {
  SLUICE_DASSERT(slot.sends >= 1);
  return slot.sent + round_trip_.timeout(is_held ? slot.waits - 1 : slot.sends - 1);
}

void Link::send_again(Time now, std::span<Outgoing> out, std::size_t& count) {
  while (count < out.size() && flying_.first() != SlotQueue::kNone) {
    const std::uint32_t index = flying_.first();
    const Slot& slot = slots_[index];
    if (now < due(slot, false)) break;
    congestion_.lost(slot.serial, serial_next_);
    ++counters_.timeouts;
    send_item(index, now, out[count++]);
  }
  while (count < out.size() && held_.first() != SlotQueue::kNone) {
    const std::uint32_t index = held_.first();
    if (now < due(slots_[index], true)) break;
    send_item(index, now, out[count++]);
  }
}

std::uint32_t Link::slot_of(std::uint32_t channel, std::uint64_t number) const {
  return channel * slots_per_channel_ + static_cast<std::uint32_t>(number % slots_per_channel_);
}

std::optional<std::uint32_t> Link::free_slot(std::uint32_t channel) const {
  const std::uint32_t index = slot_of(channel, channels_[channel].begun);
  return slots_[index].busy ? std::nullopt : std::optional(index);
}

void Link::send_new(Time now, std::span<Outgoing> out, std::size_t& count) {
  while (again_.first() != SlotQueue::kNone) {
    if (count == out.size() || flying_.count() >= congestion_.window()) return;
    send_item(again_.first(), now, out[count++]);
  }
  for (std::uint32_t number = 0; number < channels_.size(); ++number) {
    Channel& channel = channels_[number];
    while (channel.queue_first < channel.queue.size()) {
      if (count == out.size() || flying_.count() >= congestion_.window()) return;
      const auto index = free_slot(number);
      if (!index) break;
      Slot& slot = slots_[*index];
      slot.busy = true;
      slot.item = channel.queue[channel.queue_first++];
      ++slot.chunk;
      slot.sends = 0;
      slot.seen = 0;
      slot.waits = 0;
      slot.number = channel.begun++;
      send_item(*index, now, out[count++]);
    }
  }
}

void Link::send_item(std::uint32_t index, Time now, Outgoing& out) {
  Slot& slot = slots_[index];
  SLUICE_DASSERT(slot.busy);
  const Item& item = slot.item;
  wire::Header header{.kind = wire::Kind::contribution,
                      .slot = static_cast<std::uint16_t>(index),
                      .chunk = slot.chunk,
                      .digest = item.digest,
                      .workers = item.only,
                      .what = item.what,
                      .table = item.what.table.empty() ? 0 : wire::table_name(item.what.table)};
  header.what.table = {};
  if (is_non_finite(item.what.op, item.up)) header.flags |= wire::kNonFinite;
  fill(out, header, item.up);
  counters_.retransmits += slot.sends != 0 ? 1 : 0;
  ++slot.sends;
  slot.sent = now;
  slot.serial = serial_next_++;
  flying_.remove(index);
  held_.remove(index);
  again_.remove(index);
  flying_.push(index);
}

Time Link::wake() const {
  if (state_ == State::joining) return join_next_;
  if (state_ == State::leaving) return Time{0};
  if (state_ != State::open) return kNever;
  if (!tables_wanted_.empty()) return Time{0};
  Time wake = kNever;
  if (again_.count() != 0 && flying_.count() < congestion_.window()) return Time{0};
  for (std::uint32_t number = 0; number < channels_.size(); ++number) {
    const Channel& channel = channels_[number];
    const bool waits = channel.queue_first < channel.queue.size();
    if (waits && flying_.count() < congestion_.window() && free_slot(number)) return Time{0};
  }
  if (flying_.first() != SlotQueue::kNone) {
    const Slot& slot = slots_[flying_.first()];
    wake = std::min(wake, due(slot, false));
  }
  if (held_.first() != SlotQueue::kNone) wake = std::min(wake, due(slots_[held_.first()], true));
  if (may_watch()) wake = std::min(wake, heard_ + kWatch);
  if (restores_ == 0) return wake;
  for (const Slot& slot : slots_) {
    if (slot.to_restore) wake = std::min(wake, slot.restore_sent + round_trip_.timeout(2));
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
      if (tables_wanted_.size() < 64) tables_wanted_.push_back(header.table);
      break;
    case wire::Kind::restored:
      if (header.slot < slots_.size() && slots_[header.slot].to_restore &&
          slots_[header.slot].result.chunk == header.chunk) {
        slots_[header.slot].to_restore = false;
        --restores_;
      }
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

std::optional<Arrived> Link::take_result(const wire::Frame& frame, Time now) {
  const wire::Header& header = frame.header;
  if (header.slot >= slots_.size() || !slots_[header.slot].busy ||
      slots_[header.slot].chunk != header.chunk ||
      slots_[header.slot].item.digest != header.digest) {
    ++counters_.ignored;
    return std::nullopt;
  }
  Slot& slot = slots_[header.slot];
  // Only of frames that were sent once is it known which of them was answered.
  if (slot.sends == 1) round_trip_.sample(now - slot.sent);
  if (round_trip_.mean() < 3 * round_trip_.least() + kQueueMost) congestion_.answered();
  flying_.remove(header.slot);
  held_.remove(header.slot);
  again_.remove(header.slot);
  slot.busy = false;
  const Item item = slot.item;
  slot.item = {};
  ++counters_.results;
  slot_last_ = header.slot;
  keep_result(slot, header.slot, frame);
  if (slot.sends == 1) find_overtaken(item.channel, slot.number);
  return Arrived{item.channel, item.piece, frame.payload, header.workers,
                 (header.flags & wire::kNonFinite) != 0};
}

void Link::take_wait(const wire::Frame& frame, Time now) {
  const wire::Header& header = frame.header;
  if (header.slot >= slots_.size() || !slots_[header.slot].busy ||
      slots_[header.slot].chunk != header.chunk) {
    ++counters_.ignored;
    return;
  }
  Slot& slot = slots_[header.slot];
  ++counters_.waits;
  slot.seen = header.workers;
  ++slot.waits;
  slot.sent = now;
  congestion_.spurious();
  flying_.remove(header.slot);
  held_.remove(header.slot);
  held_.push(header.slot);
}

std::span<std::byte> Link::result_room(std::uint32_t slot) {
  const std::size_t size = terms_.frame_size - wire::kHeaderSize;
  return results_.bytes().subspan(slot * size, size);
}

void Link::keep_result(Slot& slot, std::uint32_t index, const wire::Frame& frame) {
  SLUICE_DASSERT(index < slots_.size());
  const auto room = result_room(index);
  slot.has_result = frame.payload.size() <= room.size();
  if (!slot.has_result) return;
  slot.result = frame.header;
  slot.result_size = static_cast<std::uint32_t>(frame.payload.size());
  std::copy(frame.payload.begin(), frame.payload.end(), room.begin());
  if (slot.to_restore) {
    slot.to_restore = false;
    --restores_;
  }
}

}  // namespace sluice::protocol
