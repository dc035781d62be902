#include "group/track.h"

namespace sluice {

Track::Track(Waves& waves, std::size_t index, Driver& driver, FusedPort* fused)
    : waves_(waves), index_(index), driver_(driver), fused_(fused) {}

Track::~Track() {
  if (fused_ != nullptr) fused_->tell(nullptr);
}

Track::Event Track::tell() {
  if (finished_.empty()) return {};
  Event event{.kind = Event::Kind::bucket, .bucket = std::move(finished_.front())};
  finished_.pop_front();
  return event;
}

Error Track::fail(const Error& error) {
  waves_.fail();
  return error;
}

void Track::end_turn() {
  if (!in_turn_) return;
  in_turn_ = false;
  waves_.finish(wave_, {});
}

Status Track::begin() {
  if (fused_ != nullptr) fused_->tell(this);
  return driver_.start(wave_.loads);
}

void Track::end_wave() {
  // What runs in a turn is not a wave, and tells nobody anything.
  if (fused_ != nullptr) fused_->tell(nullptr);
  for (Waves::Finished& one : waves_.finish(wave_, driver_.loads())) {
    finished_.push_back(std::move(one));
  }
}

Result<Track::Event> Track::advance() {
  end_turn();
  while (true) {
    if (driver_.is_running()) {
      const Result<bool> done = driver_.advance();
      if (!done) return fail(done.error());
      if (!*done) return Event{};
      end_wave();
    }
    if (!finished_.empty()) return tell();
    switch (waves_.take(index_, wave_)) {
      case Waves::Next::nothing: return Event{};
      case Waves::Next::closed: return Event{.kind = Event::Kind::closed};
      case Waves::Next::failed: return kElsewhere;
      case Waves::Next::wave: break;
    }
    in_turn_ = wave_.is_turn;
    if (in_turn_) return Event{.kind = Event::Kind::turn, .turn = wave_.turn};
    if (const Status begun = begin(); !begun) return fail(begun.error());
  }
}

Result<Track::Event> Track::serve(std::chrono::nanoseconds timeout) {
  end_turn();
  while (finished_.empty()) {
    switch (waves_.wait(index_, wave_)) {
      case Waves::Next::nothing: break;
      case Waves::Next::closed: return Event{.kind = Event::Kind::closed};
      case Waves::Next::failed: return kElsewhere;
      case Waves::Next::wave: {
        in_turn_ = wave_.is_turn;
        if (in_turn_) return Event{.kind = Event::Kind::turn, .turn = wave_.turn};
        const Status begun = begin();
        const Status done = begun ? driver_.finish(timeout) : begun;
        if (!done) return fail(done.error());
        end_wave();
      }
    }
  }
  return tell();
}

}  // namespace sluice
