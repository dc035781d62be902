#include "group/driver.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/float_environment.h"
#include "base/stopwatch.h"
#include "device/bench.h"

namespace sluice {

namespace {

using Room = DriverRoom::Kind;

const device::Accelerator* accelerator_of(const Place& place) {
  return place.on_device() ? &place.bench->on() : nullptr;
}

Room place_kind(const Place& place) {
  if (!place.on_device()) return Room::host;
  return place.is_shared ? Room::shared : Room::device;
}

}  // namespace

Driver::Driver(Memory& memory, Carrier& carrier, std::uint32_t window, const Place& place)
    : memory_(memory),
      carrier_(carrier),
      window_(window),
      place_(place),
      // A device writes there what the host looks at.
      host_room_(place.on_device() ? Room::shared : Room::host, accelerator_of(place)),
      place_room_(place_kind(place), accelerator_of(place)),
      plain_host_room_(Room::host, nullptr),
      plain_place_room_(Room::host, nullptr) {}

Driver::~Driver() {
  if (running_) drop();
  // Kernels may still write to this driver's memory.
  if (place_.on_device()) static_cast<void>(place_.bench->wait());
}

Driver::Layout Driver::measure(std::span<const Load> loads) const {
  Layout layout;
  std::size_t chunks = 0;
  for (const Load& load : loads) {
    chunks += load.count();
    for (std::size_t i = load.first; i < load.last; ++i) {
      FlightSize one;
      one.cover(memory_.codec(load.bucket->choice(i)), load.bucket->extent(i), load.bucket->kind(i),
                place_now());
      one.host = round_up(one.host, kAlignment);
      one.place = round_up(one.place, kAlignment);
      layout.each.host = std::max(layout.each.host, one.host);
      layout.each.place = std::max(layout.each.place, one.place);
      layout.total.host += one.host;
      layout.total.place += one.place;
    }
  }
  layout.slots = window_ != 0 && chunks > window_;
  layout.members = layout.slots ? window_ : std::max<std::size_t>(1, chunks);
  if (layout.slots) {
    layout.total = {layout.members * layout.each.host, layout.members * layout.each.place};
  }
  return layout;
}

Driver::Layout Driver::prepare(std::span<const Load> loads) {
  on_device_ = !loads.empty() && loads.front().bucket->order().on_device;
  const Layout layout = measure(loads);
  if (members_.size() < layout.members) members_.resize(layout.members);
  const bool host_grew = host_room().fit(layout.total.host);
  const bool place_grew = place_room().fit(layout.total.place);
  if (on_device_ && (host_grew || place_grew)) ++grown_;
  tally_.reset(memory_);
  loads_.reserve(loads.size());
  return layout;
}

void Driver::reserve(std::span<const Load> loads) {
  const std::uint64_t before = grown_;
  prepare(loads);
  grown_ = before;
}

Status Driver::reserve_waves(const WaveRoom& room) {
  SLUICE_ASSERT(!running_ && place_.on_device());
  host_room_.fit(room.host);
  place_room_.fit(room.place);
  return place_.bench->reserve(room.table, room.bench, place_.is_shared);
}

Status Driver::start(std::span<const Load> loads) {
  if (dead_) return Error{Code::unavailable, 0, "dead after an error"};
  if (running_) return Error{Code::invalid_argument, 0, "something is in flight"};
  for (const Load& load : loads) {
    const bool on_device = load.bucket->order().on_device;
    if (on_device && !place_.on_device()) {
      return Error{Code::invalid_argument, 0, "a bucket on a device, at a port of the host"};
    }
    if (on_device != loads.front().bucket->order().on_device) {
      return Error{Code::invalid_argument, 0, "buckets of a device and of the host in one wave"};
    }
  }
  explanation_.clear();
  const Layout layout = prepare(loads);
  loads_.assign(loads.begin(), loads.end());
  for (Load& load : loads_) load.outcome = {};
  in_flight_ = layout.members;
  slots_ = layout.slots;
  each_ = layout.each;
  used_ = {};
  device_busy_ = device_done_ = device_alone_ = false;  // The wave before may have been a device's.
  load_next_ = 0;
  index_next_ = loads_.empty() ? 0 : loads_[0].first;
  skip_empty();
  if (on_device_) SLUICE_TRY(begin_on_device());
  running_ = true;
  return ok();
}

// What is recorded from here on comes after the gradients.
Status Driver::begin_on_device() {
  SLUICE_TRY(place_.bench->begin());
  for (const Load& load : loads_) SLUICE_TRY(place_.bench->after(load.bucket->order().ready));
  return ok();
}

void Driver::skip_empty() {
  while (!all_begun() && index_next_ >= loads_[load_next_].last) {
    ++load_next_;
    if (!all_begun()) index_next_ = loads_[load_next_].first;
  }
}

// Starts chunks while the window has room; true if any was. The window slides: no chunk starts
// before the one a window earlier is finished, so slots of a carrier can be reused in turn.
Result<bool> Driver::admit() {
  bool moved = false;
  while (!all_begun() && sequence_next_ < sequence_base_ + in_flight_) {
    Member& one = member(sequence_next_);
    one.load = load_next_;
    one.index = index_next_++;
    skip_empty();
    SLUICE_TRY(launch(one));
    moved = true;
  }
  return moved;
}

Status Driver::launch(Member& member) {
  Bucket& bucket = *loads_[member.load].bucket;
  const std::size_t slot = sequence_next_ % in_flight_;
  const std::size_t host = slots_ ? slot * each_.host : used_.host;
  const std::size_t place = slots_ ? slot * each_.place : used_.place;
  Arena arena(host_room().bytes().subspan(host), place_room().bytes().subspan(place));
  member.chunk = bucket.chunk(member.index, tally_);
  member.chunk.place = place_now();
  const Ticket ticket = bucket.ticket(sequence_next_++, member.index, member.chunk);
  const Kept kept = bucket.kept(member.index);
  if (kept.there_before != nullptr) {
    place_.bench->add(warp::Copy{reinterpret_cast<const std::byte*>(kept.there),
                                 reinterpret_cast<std::byte*>(kept.there_before),
                                 sizeof(float) * member.chunk.extent.count});
  }
  const Status begun = member.flight.begin(memory_.codec(bucket.choice(member.index)), member.chunk,
                                           kept, ticket, carrier_, stats_, arena);
  used_.host += round_up(arena.host_used(), kAlignment);
  used_.place += round_up(arena.place_used(), kAlignment);
  if (!begun) return fail(begun.error(), ticket);
  if (!member.flight.busy()) arrive(member);
  return ok();
}

void Driver::arrive(Member& member) {
  Load& load = loads_[member.load];
  load.outcome.add(load.bucket->arrived(member.index, member.chunk));
}

// Everything once; whether anything moved.
Result<bool> Driver::pass() {
  SLUICE_TRY_ASSIGN(bool moved, admit());
  if (moved) device_done_ = false;  // What was just recorded is not even submitted.
  for (std::uint64_t i = sequence_base_; i < sequence_next_; ++i) {
    Member& one = member(i);
    if (!one.flight.busy()) continue;
    SLUICE_TRY_ASSIGN(const bool went, turn(one));
    moved = moved || went;
  }
  device_done_ = false;
  while (sequence_base_ < sequence_next_ && !member(sequence_base_).flight.busy()) {
    ++sequence_base_;
  }
  return moved;
}

Result<bool> Driver::turn(Member& one) {
  const Ticket ticket = one.flight.ticket();
  Result<bool> went = false;
  if (!one.flight.waits()) {
    went = one.flight.advance(carrier_, stats_);
  } else if (!device_done_) {
    return false;  // What it waits for is not there yet.
  } else {
    const Status gone = one.flight.go_on(carrier_, stats_);
    went = gone ? Result<bool>(true) : Result<bool>(gone.error());
  }
  if (!went) return fail(went.error(), ticket);
  if (!one.flight.busy()) arrive(one);
  return went;
}

// Submits what exchanges have recorded, all at once. Those that wait for it go on together.
Result<Driver::Device> Driver::submit() {
  if (place_.bench->has_work()) SLUICE_TRY(place_.bench->submit());
  bool waits = false;
  bool others = !all_begun();
  for (std::uint64_t i = sequence_base_; i < sequence_next_; ++i) {
    const Flight& flight = member(i).flight;
    waits = waits || (flight.busy() && flight.waits());
    others = others || (flight.busy() && !flight.waits());
  }
  device_alone_ = waits && !others;
  device_busy_ = false;
  if (!waits) return Device::free;
  SLUICE_TRY_ASSIGN(device_done_, place_.bench->is_done());
  device_busy_ = !device_done_;
  return device_done_ ? Device::done : Device::busy;
}

// An event cannot be waited for with a time-out, so it is asked, at first often.
Status Driver::await_device(std::chrono::nanoseconds timeout) {
  constexpr std::chrono::nanoseconds kEager = std::chrono::microseconds(300);
  constexpr std::chrono::nanoseconds kPause = std::chrono::microseconds(20);
  const Stopwatch watch(stats_.encode_seconds);
  const auto start = std::chrono::steady_clock::now();
  while (true) {
    SLUICE_TRY_ASSIGN(const bool done, place_.bench->is_done());
    if (done) return ok();
    // What its stream waits for may never come, such as a gradient behind somebody's collective.
    if (place_.bench->is_stopped()) return device::kGivenUp;
    const auto took = std::chrono::steady_clock::now() - start;
    if (took > timeout) return Error{Code::timeout, 0, "the device waits for others"};
    if (took > kEager) std::this_thread::sleep_for(kPause);
  }
}

Result<bool> Driver::advance() {
  if (dead_) return Error{Code::unavailable, 0, "dead after an error"};
  if (!running_) return true;
  const FloatEnvironment environment;
  while (true) {
    SLUICE_TRY_ASSIGN(const bool moved, pass());
    if (sequence_base_ == sequence_next_ && all_begun()) {
      end();
      return true;
    }
    if (moved) continue;
    if (on_device_) {
      const Result<Device> device = submit();
      if (!device) return fail(device.error(), oldest());
      if (*device == Device::busy) return false;
      if (*device == Device::done) continue;
    }
    const Result<bool> flushed = flush();
    if (!flushed) return fail(flushed.error(), oldest());
    if (!*flushed) return false;
  }
}

Result<bool> Driver::flush() {
  const Stopwatch watch(stats_.carrier_seconds);
  return carrier_.flush();
}

Status Driver::wait(std::chrono::nanoseconds timeout) {
  const Stopwatch watch(stats_.carrier_seconds);
  return carrier_.wait(timeout);
}

Ticket Driver::oldest() const {
  return sequence_base_ < sequence_next_ ? members_[sequence_base_ % in_flight_].flight.ticket()
                                         : Ticket{};
}

Status Driver::finish(std::chrono::nanoseconds timeout, const std::atomic<bool>* stop) {
  constexpr std::chrono::nanoseconds kGlance = std::chrono::milliseconds(20);
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (true) {
    SLUICE_TRY_ASSIGN(const bool finished, advance());
    if (finished || (carrier_.is_held() && !device_busy_)) return ok();
    const std::chrono::nanoseconds left = deadline - std::chrono::steady_clock::now();
    const bool glances = stop != nullptr && left > kGlance;
    Status waited = Error{Code::timeout, 0, "step timed out"};
    if (left.count() > 0) {
      const std::chrono::nanoseconds patience = glances ? kGlance : left;
      waited = device_busy_ ? await_device(patience) : wait(patience);
    }
    if (!waited && glances && waited.error().code == Code::timeout) waited = ok();
    if (waited && stop != nullptr && stop->load()) waited = kElsewhere;
    if (!waited) return fail(waited.error(), oldest());
  }
}

// What is on the device already must not decode: it may wait there for bytes that never come.
void Driver::drop() {
  if (place_.on_device()) static_cast<void>(place_.bench->stop());
  carrier_.abandon();
}

void Driver::give_up() {
  dead_ = true;
  running_ = false;
  explanation_.clear();
  drop();
}

Error Driver::fail(const Error& error, const Ticket& ticket) {
  dead_ = true;
  running_ = false;
  const std::string cause = carrier_.explain(ticket);
  const GroupOptions& options = memory_.options();
  explanation_ =
      fmt::format("step {}, bucket {}, exchange {}, worker {} of {}, codec {}: {} ({}){}{}",
                  ticket.topic.step, ticket.topic.bucket, ticket.sequence, options.rank,
                  options.workers, memory_.spec_named(ticket.topic.codec), error.what,
                  name_of(error.code), cause.empty() ? "" : ": ", cause);
  drop();
  return error;
}

void Driver::end() {
  running_ = false;
  // Counted for the whole wave: nobody asks whose they are.
  if (on_device_) {
    loads_.front().outcome.infinite += place_.bench->said().infinite;
  }
  memory_.count(tally_);
  tally_.reset(memory_);
}

}  // namespace sluice
