#include "protocol/link.h"

#include <algorithm>

#include "base/assert.h"
#include "protocol/assembly.h"

namespace sluice::protocol {
namespace {

// An idle link asks so often whether the aggregator still knows the job.
constexpr Time kWatch = std::chrono::milliseconds(200);

}  // namespace

Link::Link(const LinkOptions& options)
    : options_(options), slots_(options.channels), rings_(options.channels) {
  SLUICE_ASSERT(options.workers >= 1 && options.workers <= wire::kWorkersMax);
  SLUICE_ASSERT(options.rank < options.workers && options.channels >= 1);
  SLUICE_ASSERT(options.slots >= options.channels && options.slots <= 32768);
  SLUICE_ASSERT(options.frame_size >= wire::kHeaderSize + kPayloadMin);
  SLUICE_ASSERT(options.frame_size <= wire::kFrameSizeMax);
  SLUICE_ASSERT(options.life >> 48 == 0);  // a token has no room for more
  begin_attempt(Time{0});
}

// --- items ---

void Link::put(const Item& item) {
  SLUICE_ASSERT(item.channel < options_.channels && was_open());
  if (item.is_sparse) {
    rings_.put(item);
  } else {
    slots_.put(item);
  }
}

void Link::drop_items() {
  slots_.drop_items();
  rings_.drop_items();
  trips_.drop();
}

ItemPlaces& Link::places_of(std::uint32_t place) {
  if (is_ring(place)) return rings_;
  return slots_;
}

const ItemPlaces& Link::places_of(std::uint32_t place) const {
  if (is_ring(place)) return rings_;
  return slots_;
}

bool Link::waits_for(const wire::Header& header) const {
  return places_of(header.slot).waits_for(header);
}

std::size_t Link::to_restore() const { return slots_.to_restore() + rings_.to_restore(); }

// --- sending ---

std::size_t Link::send(Time now, std::span<Outgoing> frames) {
  OutgoingFrames out({options_.rank, options_.job, epoch_}, frames, counters_);
  if (state_ == State::joining) send_joins(now, out);
  if (leaving_ != Leaving::no && state_ != State::left) send_leave(now, out);
  if (state_ != State::open) return out.count();
  slots_.send_tables(out);
  slots_.send_restores(now, trips_, out);
  rings_.send_restores(now, trips_, out);
  send_asks(now, out);
  send_again(now, out);
  send_new(now, out);
  send_watch(now, out);
  return out.count();
}

void Link::send_asks(Time now, OutgoingFrames& out) {
  while (!out.is_full() && trips_.first_to_ask() != Trips::kNone) {
    send_ask(trips_.first_to_ask(), now, out);
  }
  for (unsigned tries = 0; tries < Timers::kTriesMax; ++tries) {
    while (!out.is_full() && trips_.due(tries) <= now) {
      send_due(trips_.first_waiting(tries), tries, now, out);
    }
  }
}

// About a place whose time is over.
void Link::send_due(std::uint32_t place, unsigned tries, Time now, OutgoingFrames& out) {
  const Trips::Trip& trip = trips_.at(place);
  // Of those that the aggregator has the oldest speaks for all: if the result of one behind it is
  // lost, the next ones overtake it. Where much is lost they do not, and as many speak as may be on
  // their way.
  if (trip.is_held && !trip.is_overtaken && !places_of(place).is_among_oldest(place, trips_)) {
    trips_.wait_again(place, tries, now);
    return;
  }
  const bool is_asked_about = trip.is_held || is_ring(place) || !slots_.is_small(place);
  trips_.timed_out(place, is_asked_about);
  ++counters_.timeouts;
  if (is_asked_about) {
    send_ask(place, now, out);
  } else {
    send_item(place, now, out);
  }
}

void Link::send_again(Time now, OutgoingFrames& out) {
  while (!out.is_full() && trips_.may_send(now) && trips_.first_to_send_again() != Trips::kNone) {
    send_item(trips_.first_to_send_again(), now, out);
  }
}

void Link::send_new(Time now, OutgoingFrames& out) {
  while (!out.is_full() && trips_.may_send(now)) {
    const auto slot = slots_.next_turn();
    const auto ring = rings_.next_turn();
    if (!slot && !ring) return;
    const bool is_sparse = !slot || (ring && ring->order < slot->order);
    const auto place = is_sparse ? rings_.begin(ring->channel, trips_, now)
                                 : slots_.begin(slot->channel, trips_, now);
    if (!place) continue;
    if (is_sparse && !rings_.must_speak(*place)) {
      trips_.keep_silent(*place, now);
    } else {
      send_item(*place, now, out);
    }
  }
}

// Asks now and then whether the aggregator still knows the job, where nothing is on its way that
// would be answered: others may wait there for what only this worker can restore.
void Link::send_watch(Time now, OutgoingFrames& out) {
  if (!is_idle() || leaving_ != Leaving::no) return;
  if (now < heard_ + kWatch || out.is_full()) return;
  out.add({.kind = wire::Kind::ask, .stamp = stamp_of(now)}, {});
  heard_ = now;
}

void Link::send_item(std::uint32_t place, Time now, OutgoingFrames& out) {
  counters_.retransmits += trips_.at(place).sends != 0 ? 1 : 0;
  if (is_ring(place)) {
    rings_.send_contribution(place, out);
  } else {
    slots_.send_contribution(place, out);
  }
  trips_.sent(place, now);
}

void Link::send_ask(std::uint32_t place, Time now, OutgoingFrames& out) {
  out.add(places_of(place).question_about(place, now), {});
  ++counters_.asks;
  if (is_ring(place)) rings_.asked(place);
  trips_.asked(place, now);
}

Time Link::wake() const {
  const bool is_leaving = leaving_ != Leaving::no && state_ != State::left;
  if (is_leaving && !leave_until_) return Time{0};
  Time wake = is_leaving ? *leave_until_ : kNever;
  if (state_ == State::joining) return std::min(wake, join_next_);
  if (state_ != State::open) return kNever;
  if (slots_.has_tables_to_send()) return Time{0};
  wake = std::min(wake, wake_for_items());
  if (is_idle()) wake = std::min(wake, is_leaving ? leave_next_ : heard_ + kWatch);
  return std::min({wake, slots_.wake_to_restore(trips_), rings_.wake_to_restore(trips_)});
}

Time Link::wake_for_items() const {
  if (trips_.first_to_ask() != Trips::kNone) return Time{0};
  const Time due = trips_.due();
  if (!trips_.has_room()) return due;
  const bool has_items =
      trips_.first_to_send_again() != Trips::kNone || slots_.next_turn() || rings_.next_turn();
  return has_items ? std::min(due, trips_.next()) : due;
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
  if (header.kind == wire::Kind::prove) {
    take_prove(*frame, now);
    return std::nullopt;
  }
  if (header.kind == wire::Kind::welcome) {
    take_welcome(*frame, now);
    return std::nullopt;
  }
  if (header.kind == wire::Kind::refused && state_ != State::refused && header.digest == token()) {
    take_refusal(*frame);
    return std::nullopt;
  }
  if (state_ != State::open || header.epoch != epoch_) {
    ++counters_.ignored;
    return std::nullopt;
  }
  heard_ = now;
  switch (header.kind) {
    case wire::Kind::result: return take_result(*frame, now);
    case wire::Kind::wait: take_wait(header, now); break;
    case wire::Kind::need_table: slots_.take_need(header.table, trips_, now); break;
    case wire::Kind::restored: take_restored(header); break;
    case wire::Kind::gone: lose(now); break;
    case wire::Kind::left: take_left(header); break;
    default: ++counters_.ignored; break;
  }
  return std::nullopt;
}

std::optional<Arrived> Link::take_result(const wire::Frame& frame, Time now) {
  const wire::Header& header = frame.header;
  std::optional<Arrived> arrived;
  if (waits_for(header)) {
    ItemPlaces& places = places_of(header.slot);
    trips_.learn_from_stamp(header.stamp, now);
    arrived = places.take_result(frame, trips_, now);
    const Trips::Trip& trip = trips_.at(header.slot);
    if (trip.sends <= 1 && (header.flags & wire::kRepeated) == 0) {
      places.find_overtaken_by(header.slot, trips_);
      find_last_overtaken(trip.serial);
    }
  } else {
    arrived = rings_.take_early(frame, trips_);
  }
  ++(arrived ? counters_.results : counters_.ignored);
  return arrived;
}

// The last items of a channel have few behind them; results of frames of any channel do as well.
void Link::find_last_overtaken(std::uint64_t answered) {
  const std::uint32_t place = trips_.overtaken_by_any(answered);
  if (place == Trips::kNone || !places_of(place).is_one_of_the_last(place)) return;
  trips_.overtaken(place);
}

void Link::take_wait(const wire::Header& header, Time now) {
  trips_.learn_from_stamp(header.stamp, now);
  if (header.slot == 0 && header.use == 0 && header.digest == 0) return;  // it watched
  if (!waits_for(header) || trips_.is_to_send_again(header.slot)) {
    ++counters_.ignored;
    return;
  }
  ++counters_.waits;
  const bool is_there = (header.workers >> options_.rank & 1) != 0;
  trips_.told_to_wait(header.slot, header.workers, is_there, now);
}

void Link::take_restored(const wire::Header& header) {
  ItemPlaces& places = places_of(header.slot);
  if (places.has(header.slot)) places.take_restored(header);
}

}  // namespace sluice::protocol
