#include "tests/support/recording_carrier.h"

#include <fmt/format.h>

#include "base/limits.h"
#include "base/random.h"
#include "tests/support/digest.h"

namespace sluice::support {

void RecordingCarrier::complain(const Ticket& ticket, std::string what) {
  if (!complaint_.empty()) return;
  complaint_ = fmt::format("exchange {}: {}", ticket.sequence, what);
}

void RecordingCarrier::check_round(const Ticket& ticket, const Round& round) {
  const Reduction& what = round.what;
  if (what.count == 0) complain(ticket, "a round of zero lanes reached the carrier");
  if (const Status status = check(what, workers_); !status) {
    return complain(ticket, fmt::format("a reduction that cannot be: {}", status.error().what));
  }
  const std::size_t up = up_size(what);
  if (is_list(what.op) ? round.up.size() > up : round.up.size() != up) {
    complain(ticket, fmt::format("{}: {} bytes up, promised are {}", name_of(what.op),
                                 round.up.size(), up));
  }
  if (round.down.size() < down_size_max(what, workers_)) {
    complain(ticket, fmt::format("{}: room for {} bytes down, needed are {}", name_of(what.op),
                                 round.down.size(), down_size_max(what, workers_)));
  }
  if (!round.only.unrestricted() && (!round.only.fits(workers_) || round.only.count() == 0)) {
    complain(ticket, fmt::format("{}: a set of workers that cannot be", name_of(what.op)));
  }
}

Status RecordingCarrier::post(const Ticket& ticket, const Place& place,
                              std::span<const Round> leg) {
  if (leg.empty() || leg.size() > kLegRoundsMax) {
    complain(ticket, fmt::format("a leg of {} rounds", leg.size()));
  }
  if (rounds_ == 0 && !leg.empty()) {
    first_ = leg[0].what;
    first_.table = {};
  }
  Seen& seen = exchanges_[ticket.sequence];
  for (std::size_t i = 0; i < leg.size(); ++i) {
    check_round(ticket, leg[i]);
    const std::uint64_t name = mix(mix(mix(ticket.sequence, ticket.digest), seen.legs), i);
    wire_ += digest_bytes(mix(name, digest_of(leg[i].what)), leg[i].up);
    bytes_up_ += leg[i].up.size();
  }
  rounds_ += leg.size();
  ++seen.legs;
  return inner_.post(ticket, place, leg);
}

Result<std::span<const Answer>> RecordingCarrier::take(const Ticket& ticket) {
  auto answers = inner_.take(ticket);
  if (!answers) return answers;
  auto& sizes = exchanges_[ticket.sequence].down_sizes.emplace_back();
  for (const Answer& answer : *answers) sizes.push_back(answer.down.size());
  return answers;
}

}  // namespace sluice::support
