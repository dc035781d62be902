#include "group/relay.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"

namespace sluice {

Relay::Relay(Waves& waves, std::vector<End> ends) : waves_(waves) {
  SLUICE_ASSERT(!ends.empty());
  for (std::size_t i = 0; i < ends.size(); ++i) {
    runners_.push_back(std::make_unique<Runner>(waves, i, ends[i]));
  }
}

Relay::~Relay() {
  for (const auto& one : runners_) {
    one->end.port->tell(nullptr);
    one->end.port->allow(FusedPort::kFree);
  }
}

Error Relay::fail(const Runner& one, const Error& error) {
  failed_ = one.index();
  waves_.fail();
  return error;
}

Result<Relay::Event> Relay::serve(std::chrono::nanoseconds timeout) {
  if (std::exchange(in_turn_, false)) waves_.finish(turn_, {});
  while (events_.empty()) {
    if (owed_) return *std::exchange(owed_, {});
    if (const Status went = go_on(timeout); !went) owed_ = went.error();
  }
  Event event = std::move(events_.front());
  events_.pop_front();
  return event;
}

Status Relay::go_on(std::chrono::nanoseconds timeout) {
  if (!sending_.empty()) return tick(timeout);
  if (!ending_.empty()) return collect(true, timeout);
  Waves::Wave next;
  const Waves::Next what = waves_.wait_any(next);
  if (what == Waves::Next::failed) return Track::kElsewhere;
  if (what == Waves::Next::closed) {
    events_.push_back({{.kind = Track::Event::Kind::closed}});
    return ok();
  }
  if (next.is_turn) {
    turn_ = std::move(next);
    in_turn_ = true;
    events_.push_back({{.kind = Track::Event::Kind::turn, .turn = turn_.turn}});
    return ok();
  }
  SLUICE_TRY(join(std::move(next), timeout));
  return step(*sending_.back(), timeout);
}

namespace {

template <class T>
bool has(const std::deque<T*>& all, const T& one) {
  return std::find(all.begin(), all.end(), &one) != all.end();
}

}  // namespace

Status Relay::join(Waves::Wave wave, std::chrono::nanoseconds timeout) {
  Runner& one = next_runner();
  SLUICE_ASSERT(!has(sending_, one));
  while (has(ending_, one)) SLUICE_TRY(collect(true, timeout));
  ++joined_;
  one.wave = std::move(wave);
  one.leads = true;
  one.end.port->tell(&one);
  one.end.port->lead();
  one.end.port->allow(0);
  if (const Status begun = one.end.driver->start(one.wave.loads); !begun) {
    return fail(one, begun.error());
  }
  sending_.push_back(&one);
  const Result<bool> measuring = one.end.driver->advance();
  return measuring ? ok() : Status(fail(one, measuring.error()));
}

Status Relay::step(Runner& one, std::chrono::nanoseconds timeout) {
  Driver& driver = *one.end.driver;
  one.end.port->allow(1);
  // What it measures must be there before it leads; what it decodes takes its time.
  const Result<bool> done = one.leads ? Result<bool>(false) : driver.advance();
  if (!done) return fail(one, done.error());
  if (one.leads || !driver.waits_for_device_alone()) {
    if (const Status went = driver.finish(timeout); !went) return fail(one, went.error());
  }
  one.leads = false;
  if (driver.is_running() && one.end.port->is_held()) return ok();
  std::erase(sending_, &one);
  ending_.push_back(&one);
  return ok();
}

Status Relay::collect(bool one_at_least, std::chrono::nanoseconds timeout) {
  while (!ending_.empty()) {
    Runner& one = *ending_.front();
    const Result<bool> done = one.end.driver->advance();
    if (!done) return fail(one, done.error());
    if (!*done && !one_at_least) return ok();
    if (!*done) {
      if (const Status went = one.end.driver->finish(timeout); !went) {
        return fail(one, went.error());
      }
    }
    one_at_least = false;
    ending_.pop_front();
    finish(one);
  }
  return ok();
}

Status Relay::tick(std::chrono::nanoseconds timeout) {
  constexpr std::size_t kSending = 4;
  for (Runner* const one : sending_) {
    const Status heard = one->end.port->hear_host(timeout);
    if (!heard) return fail(*one, one->end.driver->give_up(heard.error()));
  }
  const std::vector<Runner*> turns(sending_.rbegin(), sending_.rend());
  // A wave joins where all ranks know that all have it.
  Waves::Wave next;
  const bool has_room = sending_.size() < kSending && !has(sending_, next_runner());
  if (has_room && waves_.take_agreed(next)) {
    SLUICE_TRY(join(std::move(next), timeout));
  }
  for (Runner* const one : turns) SLUICE_TRY(step(*one, timeout));
  return collect(false, timeout);
}

void Relay::finish(Runner& one) {
  one.end.port->tell(nullptr);
  one.end.port->allow(FusedPort::kFree);
  for (Waves::Finished& bucket : waves_.finish(one.wave, one.end.driver->loads())) {
    events_.push_back(
        {{.kind = Track::Event::Kind::bucket, .bucket = std::move(bucket)}, one.index()});
  }
}

}  // namespace sluice
