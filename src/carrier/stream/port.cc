#include "carrier/stream/port.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/assert.h"
#include "carrier/stream/clock.h"

namespace sluice::stream {
namespace {

using protocol::Time;

constexpr std::size_t kBurst = 64;  // frames that are sent before looking at what has come
// An aggregator that workers join is there before them, and answers at once. One that is just
// starting is waited for where the host says that nobody listens, or somebody else does.
constexpr std::chrono::seconds kSilenceMost{10};
constexpr std::chrono::seconds kStrangeMost{5};

}  // namespace

Checked<std::unique_ptr<Port>> Port::open(const protocol::LinkOptions& options,
                                          std::span<const SocketAddress> aggregators,
                                          int bell) {
  SLUICE_ASSERT(!aggregators.empty());
  protocol::LinkOptions fitted = options;
  std::vector<std::unique_ptr<Path>> paths;
  for (const SocketAddress& aggregator : aggregators) {
    SLUICE_TRY_ASSIGN(Socket socket, open_connected(aggregator));
    fitted.frame_size = std::min(fitted.frame_size, datagram_size(socket, aggregator));
    paths.push_back(std::make_unique<Path>(std::move(socket), aggregator, options.frame_size));
  }
  if (const std::size_t least = wire::kHeaderSize + protocol::kPayloadMin;
      fitted.frame_size < least) {
    return Problem{Code::unavailable,
                   fmt::format("datagrams of {} bytes; stream accepts {} or more",
                               fitted.frame_size, least)};
  }
  return std::make_unique<Port>(Token{}, fitted, std::move(paths), bell);
}

Port::Port(Token, const protocol::LinkOptions& options, std::vector<std::unique_ptr<Path>> paths,
           int bell)
    : worker_({.link = options, .aggregators = static_cast<std::uint32_t>(paths.size())}),
      paths_(std::move(paths)),
      outgoing_(kBurst),
      bell_(bell) {}

Port::~Port() {
  worker_.leave();
  send_due();
}

void Port::send_due() {
  for (std::uint32_t i = 0; i < paths_.size(); ++i) {
    Sender& sender = paths_[i]->sender;
    while (true) {
      const std::size_t count = worker_.send(i, now(), outgoing_);
      for (std::size_t k = 0; k < count; ++k) {
        sender.add(outgoing_[k].header, outgoing_[k].payload, nullptr);
      }
      if (count != 0) sender.flush();
      if (count < outgoing_.size()) break;
    }
  }
}

Status Port::pump() {
  for (std::uint32_t i = 0; i < paths_.size(); ++i) {
    while (true) {
      SLUICE_TRY_ASSIGN(const auto received, paths_[i]->receiver.receive());
      if (received.empty()) break;
      paths_[i]->received = true;
      const Time time = now();
      for (const Received& one : received) worker_.receive(i, one.bytes, time);
      // What has come makes room for more: no later than this.
      send_due();
    }
  }
  send_due();
  return ok();
}

Checked<bool> Port::try_join() {
  if (const Status pumped = pump(); !pumped) return Problem{Code::io, pumped.error().what};
  if (!refusal().empty()) return Problem{Code::mismatch, "stream: " + refusal()};
  return worker_.has_joined();
}

Verdict Port::check_answers(Time waited, bool is_last_look) const {
  for (std::uint32_t i = 0; i < paths_.size(); ++i) {
    const Path& path = *paths_[i];
    const bool refused = path.receiver.was_refused();
    const Time longest = refused || path.received ? kStrangeMost : kSilenceMost;
    const bool may_come = !is_last_look && waited < longest;
    if (worker_.was_answered(i) || may_come) continue;
    return Problem{Code::timeout,
                   fmt::format("stream: joining: the aggregator at {} does not answer ({}); "
                               "accepted: where sluiced of this version runs",
                               text_of(path.address),
                               path.received ? "what listens there is none"
                               : refused     ? "nothing listens there"
                                             : "no word from there")};
  }
  return Nothing{};
}

Verdict Port::join(std::chrono::nanoseconds timeout) {
  const Time began = now();
  const Time deadline = began + timeout;
  while (true) {
    SLUICE_TRY_ASSIGN(const bool joined, try_join());
    if (joined) return Nothing{};
    SLUICE_TRY(check_answers(now() - began, now() >= deadline));
    if (now() >= deadline) {
      return Problem{Code::timeout, "stream: joining: " + worker_.explain()};
    }
    // The answer wakes it before.
    const Status waited =
        wait(std::min<Time>(deadline - now(), std::chrono::milliseconds(50)));
    if (!waited && waited.error().code == Code::unavailable) {
      return Problem{Code::unavailable,
                     fmt::format("stream: joining: {}: {}", waited.error().what,
                                 worker_.explain())};
    }
  }
}

Status Port::post(const Ticket& ticket, const Place& place, std::span<const Round> step) {
  if (place.device) return Error{Code::unavailable, 0, "stream: bytes on a device"};
  SLUICE_TRY(worker_.post(ticket, step));
  send_due();
  return ok();
}

Result<std::span<const Answer>> Port::take(const Ticket& ticket) {
  auto answers = worker_.take(ticket);
  if (answers || answers.error().code != Code::pending) return answers;
  SLUICE_TRY(pump());
  return worker_.take(ticket);
}

Status Port::wait(std::chrono::nanoseconds timeout) {
  const Time deadline = now() + timeout;
  std::array<pollfd, 65> waiting{};  // the bell last; of a negative one the kernel takes no notice
  SLUICE_ASSERT(paths_.size() < waiting.size());
  while (true) {
    SLUICE_TRY(pump());
    if (worker_.is_any_ready() || !refusal().empty()) return ok();
    const Time time = now();
    if (time >= deadline) return Error{Code::timeout, 0, "no answer in time"};
    const Time until = std::min(deadline, worker_.wake());
    if (until <= time) continue;
    for (std::size_t i = 0; i < paths_.size(); ++i) {
      waiting[i] = {paths_[i]->socket.descriptor(), POLLIN, 0};
    }
    pollfd& bell = waiting[paths_.size()];
    bell = {bell_, POLLIN, 0};
    const Time left = until - time;
    const timespec pause{left.count() / 1'000'000'000, left.count() % 1'000'000'000};
    if (ppoll(waiting.data(), paths_.size() + 1, &pause, nullptr) < 0 && errno != EINTR) {
      return Error{Code::io, errno, "stream: poll"};
    }
    if (bell.revents != 0) return Error{Code::unavailable, 0, "the caller rang the bell"};
  }
}

void Port::abandon() { worker_.abandon(); }

std::string Port::explain(const Ticket&) { return worker_.explain(); }

}  // namespace sluice::stream
