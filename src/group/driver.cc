#include "group/driver.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/float_environment.h"
#include "base/stopwatch.h"

namespace sluice {

Driver::Driver(Memory& memory, Carrier& carrier, std::uint32_t window)
    : memory_(memory), carrier_(carrier), window_(window) {}

Driver::~Driver() {
  if (running_) carrier_.abandon();
}

Driver::Layout Driver::measure(std::span<const Load> loads) const {
  Layout layout;
  std::size_t chunks = 0;
  for (const Load& load : loads) {
    chunks += load.count();
    for (std::size_t i = load.first; i < load.last; ++i) {
      FlightSize one;
      one.cover(memory_.codec(load.bucket->choice(i)), load.bucket->extent(i),
                load.bucket->kind(i));
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
  const Layout layout = measure(loads);
  if (members_.size() < layout.members) members_.resize(layout.members);
  grow(host_, layout.total.host);
  grow(place_, layout.total.place);
  tally_.reset(memory_);
  loads_.reserve(loads.size());
  return layout;
}

void Driver::reserve(std::span<const Load> loads) { prepare(loads); }

Status Driver::start(std::span<const Load> loads) {
  if (dead_) return Error{Code::unavailable, 0, "dead after an error"};
  if (running_) return Error{Code::invalid_argument, 0, "something is in flight"};
  explanation_.clear();
  const Layout layout = prepare(loads);
  loads_.assign(loads.begin(), loads.end());
  for (Load& load : loads_) load.outcome = {};
  in_flight_ = layout.members;
  slots_ = layout.slots;
  each_ = layout.each;
  used_ = {};
  load_next_ = 0;
  index_next_ = loads_.empty() ? 0 : loads_[0].first;
  skip_empty();
  running_ = true;
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
  Arena arena(host_.bytes().subspan(host), place_.bytes().subspan(place));
  member.chunk = bucket.chunk(member.index, tally_);
  const Ticket ticket = bucket.ticket(sequence_next_++, member.index, member.chunk);
  const Status begun =
      member.flight.begin(memory_.codec(bucket.choice(member.index)), member.chunk,
                          bucket.kept(member.index), ticket, carrier_, stats_, arena);
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
  for (std::uint64_t i = sequence_base_; i < sequence_next_; ++i) {
    Member& one = member(i);
    if (!one.flight.busy()) continue;
    const Ticket ticket = one.flight.ticket();
    const Result<bool> went = one.flight.advance(carrier_, stats_);
    if (!went) return fail(went.error(), ticket);
    if (!one.flight.busy()) arrive(one);
    moved = moved || *went;
  }
  while (sequence_base_ < sequence_next_ && !member(sequence_base_).flight.busy()) {
    ++sequence_base_;
  }
  return moved;
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
    if (finished) return ok();
    const std::chrono::nanoseconds left = deadline - std::chrono::steady_clock::now();
    const bool glances = stop != nullptr && left > kGlance;
    Status waited = Error{Code::timeout, 0, "step timed out"};
    if (left.count() > 0) waited = wait(glances ? kGlance : left);
    if (!waited && glances && waited.error().code == Code::timeout) waited = ok();
    if (waited && stop != nullptr && stop->load()) waited = kElsewhere;
    if (!waited) return fail(waited.error(), oldest());
  }
}

void Driver::give_up() {
  dead_ = true;
  running_ = false;
  explanation_.clear();
  carrier_.abandon();
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
  carrier_.abandon();
  return error;
}

void Driver::end() {
  running_ = false;
  memory_.count(tally_);
  tally_.reset(memory_);
}

}  // namespace sluice
