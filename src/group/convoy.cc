#include "group/convoy.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/assert.h"
#include "base/float_environment.h"

namespace sluice {

Convoy::Convoy(Memory& memory, const Codec& exact, Carrier& carrier, std::uint32_t window,
               const Codec* sparse)
    : cargo_(memory, exact, sparse), carrier_(carrier), members_(window) {
  SLUICE_ASSERT(window >= 1);
}

// Every member can take every chunk: which takes which depends on what came before.
void Convoy::reserve() {
  FlightSize size = size_;
  for (std::size_t i = 0; i < cargo_.count(); ++i) size.cover(cargo_.codec(i), cargo_.piece(i));
  const bool is_enough = size.host == size_.host && size.place == size_.place;
  size_ = size;
  for (Member& one : members_) {
    if (!is_enough || one.flight == nullptr) one.flight = std::make_unique<Flight>(size_);
  }
}

Verdict Convoy::run(const ParcelOrder& order, std::span<const Job> jobs,
                    std::chrono::nanoseconds timeout) {
  if (dead_) {
    return Problem{Code::unavailable, "stream: a parcel failed before; accepted: a new port"};
  }
  SLUICE_TRY(cargo_.load(order, jobs));
  reserve();
  next_ = 0;
  const FloatEnvironment environment;
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (true) {
    const Result<bool> finished = advance();
    if (!finished) return fail(finished.error(), {sequence_base_, 0});
    if (*finished) break;
    const auto left = deadline - std::chrono::steady_clock::now();
    const Status waited = left.count() <= 0 ? Status(Error{Code::timeout, 0, "parcel timed out"})
                                            : carrier_.wait(left);
    if (!waited) return fail(waited.error(), member(sequence_base_).flight->ticket());
  }
  cargo_.unload();
  return Nothing{};
}

// Begins chunks while the window has room; whether there were any.
Result<bool> Convoy::admit() {
  bool moved = false;
  while (next_ < cargo_.count() && sequence_next_ < sequence_base_ + members_.size()) {
    Member& one = member(sequence_next_);
    one.chunk = cargo_.chunk(next_);
    SLUICE_TRY(
        one.flight->begin(cargo_.codec(next_), one.chunk,
                          {sequence_next_, cargo_.digest(one.chunk), cargo_.topic(one.chunk)},
                          carrier_, cargo_.report().stats));
    ++next_;
    ++sequence_next_;
    if (!one.flight->busy()) cargo_.arrived(one.chunk);
    moved = true;
  }
  return moved;
}

// As far as it goes without waiting; true when all means are written.
Result<bool> Convoy::advance() {
  while (true) {
    SLUICE_TRY_ASSIGN(bool moved, admit());
    for (std::uint64_t i = sequence_base_; i < sequence_next_; ++i) {
      Member& one = member(i);
      if (!one.flight->busy()) continue;
      SLUICE_TRY_ASSIGN(const bool went, one.flight->advance(carrier_, cargo_.report().stats));
      if (!one.flight->busy()) cargo_.arrived(one.chunk);
      moved = moved || went;
    }
    while (sequence_base_ < sequence_next_ && !member(sequence_base_).flight->busy()) {
      ++sequence_base_;
    }
    if (sequence_base_ == sequence_next_ && next_ == cargo_.count()) return true;
    if (!moved) return false;
  }
}

void Convoy::give_up() {
  dead_ = true;
  carrier_.abandon();
}

Problem Convoy::fail(const Error& error, const Ticket& ticket) {
  dead_ = true;
  const std::string cause = carrier_.explain(ticket);
  carrier_.abandon();
  const GroupOptions& options = cargo_.memory().options();
  return {error.code, fmt::format("step {}, parcel {}, worker {} of {}, codec {}: {} ({}){}{}",
                                  cargo_.order().step, cargo_.order().sequence, options.rank,
                                  options.workers, cargo_.memory().spec(), error.what,
                                  name_of(error.code), cause.empty() ? "" : ": ", cause)};
}

}  // namespace sluice
