#include "protocol/worker.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/assert.h"
#include "base/random.h"
#include "protocol/counters.h"

namespace sluice::protocol {
namespace {

// What a piece is, alike on all workers: an aggregator refuses to sum pieces of which this differs.
std::uint64_t digest_of_piece(const Ticket& ticket, std::uint32_t leg, const Piece& piece,
                              std::size_t index) {
  std::uint64_t digest = mix(ticket.digest, ticket.sequence);
  digest = mix(digest, leg);
  digest = mix(digest, piece.round);
  digest = mix(digest, index);
  return mix(digest, digest_of(piece.what));
}

constexpr std::size_t kSmallLeg = 4;  // pieces

constexpr Error kCannotGoOn{Code::lost, 0, "stream: the job cannot go on"};

}  // namespace

Worker::Worker(const WorkerOptions& options) : options_(options) {
  SLUICE_ASSERT(options.aggregators >= 1 && options.link.channels >= 1);
  for (std::uint32_t i = 0; i < options.aggregators; ++i) links_.emplace_back(options.link);
  for (std::uint32_t i = 0; i < options.link.channels; ++i) {
    channels_.emplace_back(options.link.workers, options.link.rank);
  }
}

bool Worker::has_joined() const {
  return std::all_of(links_.begin(), links_.end(),
                     [](const Link& link) { return link.was_open(); });
}

std::size_t Worker::send(std::uint32_t aggregator, Time now, std::span<Outgoing> out) {
  SLUICE_ASSERT(aggregator < links_.size());
  return links_[aggregator].send(now, out);
}

Time Worker::wake() const {
  Time wake = kNever;
  for (const Link& link : links_) wake = std::min(wake, link.wake());
  return wake;
}

void Worker::receive(std::uint32_t aggregator, std::span<const std::byte> datagram, Time now) {
  SLUICE_ASSERT(aggregator < links_.size());
  Link& link = links_[aggregator];
  const auto arrived = link.receive(datagram, now);
  if (!link.refusal().empty()) {
    fail(kCannotGoOn);
    return;
  }
  if (!arrived || abandoned_) return;
  SLUICE_ASSERT(arrived->channel < channels_.size());
  Channel& channel = channels_[arrived->channel];
  SLUICE_ASSERT(channel.busy && !channel.ready);
  const Status accepted =
      channel.assembly.accept(arrived->piece, arrived->payload, arrived->counted);
  if (!accepted) {
    fail(accepted.error());
    return;
  }
  if (channel.assembly.is_phase_done()) go_on(arrived->channel);
}

void Worker::go_on(std::uint32_t number) {
  Channel& channel = channels_[number];
  const Result<bool> done = channel.assembly.advance();
  if (!done) {
    fail(done.error());
  } else if (*done) {
    finish(channel, {});
  } else {
    ++channel.leg;
    distribute(number);
  }
}

void Worker::finish(Channel& channel, const Error& error) {
  if (!channel.busy || channel.ready) return;
  SLUICE_ASSERT(busy_ > 0);
  channel.error = error;
  channel.ready = true;
  ++ready_;
  --busy_;
}

// An aggregator that answers wrongly is no better than one that refuses: its slots and ours are no
// longer in step.
void Worker::fail(const Error& error) {
  if (failure_.code == Code::ok) failure_ = error;
  for (Link& link : links_) link.drop_items();
  for (Channel& channel : channels_) finish(channel, error);
}

void Worker::distribute(std::uint32_t number) {
  Channel& channel = channels_[number];
  SLUICE_ASSERT(channel.busy && !channel.ready);
  const auto pieces = channel.assembly.pieces();
  // Oldest first, but small legs before all: what they hold up is much more than they are.
  const std::uint64_t order = pieces.size() <= kSmallLeg ? 0 : 1 + channel.ticket.sequence;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const std::size_t target = (channel.ticket.sequence + i) % links_.size();
    links_[target].put({.what = pieces[i].what,
                        .up = pieces[i].up,
                        .only = pieces[i].only,
                        .digest = digest_of_piece(channel.ticket, channel.leg, pieces[i], i),
                        .channel = number,
                        .piece = static_cast<std::uint32_t>(i),
                        .order = order,
                        .is_sparse = pieces[i].is_sparse});
  }
}

Status Worker::post(const Ticket& ticket, std::span<const Round> leg) {
  if (abandoned_) return Error{Code::unavailable, 0, "stream: this end was abandoned"};
  if (failure_.code != Code::ok) return failure_;
  SLUICE_ASSERT(has_joined());
  const auto number = static_cast<std::uint32_t>(ticket.sequence % channels_.size());
  Channel& channel = channels_[number];
  if (channel.busy) return Error{Code::exhausted, 0, "stream: more exchanges than channels"};
  for (const Round& round : leg) {
    SLUICE_TRY(check(round.what, options_.link.workers));
    SLUICE_TRY(check_up(round.what, round.up));
  }
  if (payload_max_ == 0) {
    const auto least = std::min_element(
        links_.begin(), links_.end(),
        [](const Link& a, const Link& b) { return a.frame_size() < b.frame_size(); });
    payload_max_ = least->frame_size() - wire::kHeaderSize;
  }
  SLUICE_ASSERT(payload_max_ >= kPayloadMin);
  const bool is_next = channel.ticket.sequence == ticket.sequence && channel.leg != 0;
  channel.leg = is_next ? channel.leg + 1 : 1;
  channel.ticket = ticket;
  channel.busy = true;
  channel.ready = false;
  channel.error = {};
  ++busy_;
  channel.assembly.begin(leg, payload_max_);
  if (channel.assembly.pieces().empty()) {
    go_on(number);
  } else {
    distribute(number);
  }
  return ok();
}

Result<std::span<const Answer>> Worker::take(const Ticket& ticket) {
  if (abandoned_) return Error{Code::unavailable, 0, "stream: this end was abandoned"};
  Channel& channel = channels_[ticket.sequence % channels_.size()];
  if (!channel.busy || channel.ticket.sequence != ticket.sequence) {
    return Error{Code::invalid_argument, 0, "stream: nothing posted under this ticket"};
  }
  if (!channel.ready) return Error{Code::pending, 0, "not all have answered"};
  SLUICE_ASSERT(ready_ > 0);
  channel.busy = false;
  channel.ready = false;
  SLUICE_DASSERT(channel.error.code != Code::ok || channel.assembly.is_phase_done());
  --ready_;
  if (channel.error.code != Code::ok) return channel.error;
  return channel.assembly.answers();
}

void Worker::abandon() {
  abandoned_ = true;
  for (Link& link : links_) link.drop_items();
  for (Channel& channel : channels_) channel.busy = channel.ready = false;
  ready_ = busy_ = 0;
}

void Worker::leave() {
  // Whoever breaks off is not waited for, and waits for nobody.
  const bool in_a_hurry = abandoned_ || busy_ != 0 || failure_.code != Code::ok;
  abandon();
  for (Link& link : links_) link.leave(in_a_hurry);
}

bool Worker::has_left() const {
  return std::all_of(links_.begin(), links_.end(),
                     [](const Link& link) { return link.has_left(); });
}

const std::string& Worker::refusal() const {
  for (const Link& link : links_) {
    if (!link.refusal().empty()) return link.refusal();
  }
  return links_.front().refusal();
}

std::string Worker::explain() const {
  std::string text;
  for (std::size_t i = 0; i < links_.size(); ++i) {
    const std::string one = links_[i].explain();
    if (one.empty()) continue;
    const std::string where = links_.size() == 1 ? "" : fmt::format("aggregator {}: ", i);
    text += fmt::format("{}{}{}", text.empty() ? "" : "; ", where, one);
  }
  return text.empty() ? "nothing is on its way" : text;
}

LinkCounters Worker::counters() const {
  LinkCounters sum;
  for (const Link& link : links_) add(link.counters(), sum);
  return sum;
}

}  // namespace sluice::protocol
