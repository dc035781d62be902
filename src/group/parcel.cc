#include "group/parcel.h"

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/float_environment.h"

namespace sluice {
namespace {

// Steps this small (scales) take one trip instead of two; half a millisecond at 1 Gb/s.
constexpr std::uint64_t kWholeMax = std::uint64_t{64} << 10;

}  // namespace

Parcel::Parcel(Memory& memory, const Codec& exact, const Codec* sparse)
    : cargo_(memory, exact, sparse),
      fusion_(memory.options().rank, memory.options().workers, kWholeMax) {}

void Parcel::reserve() {
  std::size_t host = 0;
  std::size_t place = 0;
  for (std::size_t i = 0; i < cargo_.count(); ++i) {
    FlightSize one;
    one.cover(cargo_.codec(i), cargo_.piece(i));
    host += round_up(one.host, kAlignment);
    place += round_up(one.place, kAlignment);
  }
  grow(host_, host);
  grow(place_, place);
}

Verdict Parcel::load(const ParcelOrder& order, std::span<const Job> jobs) {
  if (busy_ != 0) {
    return Problem{Code::invalid_argument,
                   "parcel: one is in flight; accepted: begin after it finished"};
  }
  SLUICE_TRY(cargo_.load(order, jobs));
  reserve();
  return Nothing{};
}

Verdict Parcel::begin(const ParcelOrder& order, std::span<const Job> jobs) {
  SLUICE_TRY(load(order, jobs));
  if (const Status launched = launch(); !launched) {
    const std::string message = explain(launched.error());
    abandon();
    return Problem{launched.error().code, message};
  }
  return Nothing{};
}

Status Parcel::launch() {
  const FloatEnvironment environment;
  if (members_.size() < cargo_.count()) members_.resize(cargo_.count());
  std::span<std::byte> host = host_.bytes();
  std::span<std::byte> place = place_.bytes();
  busy_ = cargo_.count();
  for (std::size_t i = 0; i < cargo_.count(); ++i) {
    Member& member = members_[i];
    member.chunk = cargo_.chunk(i);
    Arena arena(host, place);
    SLUICE_TRY(member.flight.begin(cargo_.codec(i), member.chunk,
                                   {i, cargo_.digest(member.chunk), cargo_.topic(member.chunk)},
                                   fusion_, cargo_.report().stats, arena));
    host = host.subspan(round_up(arena.host_used(), kAlignment));
    place = place.subspan(round_up(arena.place_used(), kAlignment));
    if (!member.flight.busy()) finish(member);
  }
  if (busy_ == 0) cargo_.unload();
  return ok();
}

Status Parcel::advance() {
  const FloatEnvironment environment;
  for (std::size_t i = 0; i < cargo_.count(); ++i) {
    Member& member = members_[i];
    if (!member.flight.busy()) continue;
    SLUICE_TRY(member.flight.advance(fusion_, cargo_.report().stats));
    if (!member.flight.busy()) finish(member);
  }
  if (busy_ == 0) cargo_.unload();
  return ok();
}

void Parcel::finish(const Member& member) {
  --busy_;
  cargo_.arrived(member.chunk);
}

void Parcel::abandon() {
  fusion_.abandon();
  members_.clear();
  busy_ = 0;
}

std::string Parcel::explain(const Error& error) {
  const std::string cause = fusion_.explain({0, 0});
  const GroupOptions& options = cargo_.memory().options();
  return fmt::format("step {}, parcel {}, worker {} of {}, codec {}: {} ({}){}{}",
                     cargo_.order().step, cargo_.order().sequence, options.rank, options.workers,
                     cargo_.memory().spec(), error.what, name_of(error.code),
                     cause.empty() ? "" : ": ", cause);
}

}  // namespace sluice
