#include "carrier/stream/stream_port.h"

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
// After which nobody is in a port that was used, and how often one is looked at that nobody is in.
constexpr std::chrono::milliseconds kIdle{50};
constexpr const char* kRang = "the caller rang the bell";
constexpr Error kNoMemory{Code::out_of_memory, 0, "stream: out of memory between two steps"};

}  // namespace

Checked<std::unique_ptr<Port>> Port::open(const protocol::LinkOptions& options,
                                          std::span<const SocketAddress> aggregators,
                                          Caretaker caretaker, int bell) {
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
    return Problem{
        Code::unavailable,
        fmt::format("datagrams of {} bytes; stream accepts {} or more", fitted.frame_size, least)};
  }
  return std::make_unique<Port>(Token{}, fitted, std::move(paths), caretaker, bell);
}

Port::Port(Token, const protocol::LinkOptions& options, std::vector<std::unique_ptr<Path>> paths,
           Caretaker caretaker, int bell)
    : worker_({.link = options, .aggregators = static_cast<std::uint32_t>(paths.size())}),
      paths_(std::move(paths)),
      outgoing_(kBurst),
      bell_(bell),
      used_(now()),
      has_caretaker_(caretaker) {
  if (caretaker == Caretaker::yes) caretaker_ = std::thread([this] { keep(); });
}

Port::~Port() {
  if (caretaker_.joinable()) {
    {
      const std::lock_guard lock(mutex_);
      has_ended_ = true;
    }
    ended_.notify_all();
    caretaker_.join();
  }
  try {
    leave();
  } catch (const std::exception&) {  // No memory to say good-bye: the others find out by silence.
  }
}

void Port::leave() {
  if (has_caretaker_ == Caretaker::no) worker_.abandon();
  worker_.leave();
  send_due();
  while (!worker_.has_left()) {
    Port* const self = this;
    static_cast<void>(poll_until(std::span(&self, 1), worker_.wake()));
    if (!pump()) return;
  }
}

void Port::keep() {
  std::unique_lock lock(mutex_);
  while (!has_ended_) {
    ended_.wait_for(lock, kIdle);
    // Errors are for whoever waits here next.
    if (has_ended_ || now() < used_ + kIdle) continue;
    try {
      static_cast<void>(pump());
    } catch (const std::exception&) {  // In the middle of something, and nobody is here to tell.
      worker_.fail(kNoMemory);
    }
  }
}

protocol::LinkCounters Port::counters() const {
  const std::lock_guard lock(mutex_);
  return worker_.counters();
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
  const std::lock_guard lock(mutex_);
  used_ = now();
  if (const Status pumped = pump(); !pumped) return Problem{Code::io, pumped.error().what};
  if (!refusal().empty()) return Problem{Code::mismatch, "stream: " + refusal()};
  if (const Error& failure = worker_.failure(); failure.code != Code::ok) {
    return Problem{failure.code, failure.what};
  }
  return worker_.has_joined();
}

Verdict Port::check_answers(Time waited, bool is_last_look) const {
  const std::lock_guard lock(mutex_);
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
  Port* const self = this;
  return join_all(std::span(&self, 1), timeout);
}

Verdict Port::join_all(std::span<Port* const> ports, std::chrono::nanoseconds timeout) {
  const Time began = now();
  const Time deadline = began + timeout;
  while (true) {
    Port* late = nullptr;
    Time until = std::min(deadline, now() + kIdle / 2);
    for (Port* const port : ports) {
      SLUICE_TRY_ASSIGN(const bool joined, port->try_join());
      if (!joined && late == nullptr) late = port;
      const std::lock_guard lock(port->mutex_);
      until = std::min(until, port->worker_.wake());
    }
    if (late == nullptr) return Nothing{};
    SLUICE_TRY(late->check_answers(now() - began, now() >= deadline));
    if (now() >= deadline) return Problem{Code::timeout, "stream: joining: " + late->explain({})};
    const Result<bool> rang = poll_until(ports, until);
    if (!rang) return Problem{Code::io, rang.error().what};
    if (*rang) {
      return Problem{Code::unavailable,
                     fmt::format("stream: joining: {}: {}", kRang, late->explain({}))};
    }
  }
}

Status Port::post(const Ticket& ticket, const Place& place, std::span<const Round> leg) {
  if (place.on_device()) return Error{Code::unavailable, 0, "stream: bytes on a device"};
  const std::lock_guard lock(mutex_);
  used_ = now();
  SLUICE_TRY(worker_.post(ticket, leg));
  send_due();
  return ok();
}

Result<std::span<const Answer>> Port::take(const Ticket& ticket) {
  const std::lock_guard lock(mutex_);
  auto answers = worker_.take(ticket);
  if (answers || answers.error().code != Code::pending) return answers;
  SLUICE_TRY(pump());
  used_ = now();
  return worker_.take(ticket);
}

Result<bool> Port::poll_until(std::span<Port* const> ports, Time until) {
  // Bells last; of negative ones the kernel takes no notice.
  std::array<pollfd, std::size_t{2} * 65> waiting{};
  std::size_t count = 0;
  for (const Port* const port : ports) {
    SLUICE_ASSERT(count + port->paths_.size() + ports.size() <= waiting.size());
    for (const auto& path : port->paths_) waiting[count++] = {path->socket.descriptor(), POLLIN, 0};
  }
  const std::size_t bells = count;
  for (const Port* const port : ports) waiting[count++] = {port->bell_, POLLIN, 0};
  const Time left = std::max(until - now(), Time{0});
  const timespec pause{left.count() / 1'000'000'000, left.count() % 1'000'000'000};
  if (ppoll(waiting.data(), count, &pause, nullptr) < 0 && errno != EINTR) {
    return Error{Code::io, errno, "stream: poll"};
  }
  return std::any_of(waiting.begin() + bells, waiting.begin() + count,
                     [](const pollfd& bell) { return bell.revents != 0; });
}

Status Port::wait(std::chrono::nanoseconds timeout) {
  const Time deadline = now() + timeout;
  std::unique_lock lock(mutex_);
  while (true) {
    SLUICE_TRY(pump());
    if (worker_.is_any_ready() || !refusal().empty()) return ok();
    const Time time = now();
    used_ = time;
    if (time >= deadline) return Error{Code::timeout, 0, "no answer in time"};
    // No longer than until the caretaker would take over.
    const Time until = std::min({deadline, worker_.wake(), time + kIdle / 2});
    if (until <= time) continue;
    lock.unlock();
    Port* const self = this;
    SLUICE_TRY_ASSIGN(const bool rang, poll_until(std::span(&self, 1), until));
    if (rang) return Error{Code::unavailable, 0, kRang};
    lock.lock();
  }
}

void Port::abandon() {
  const std::lock_guard lock(mutex_);
  worker_.abandon();
}

std::string Port::explain(const Ticket&) {
  const std::lock_guard lock(mutex_);
  return worker_.explain();
}

}  // namespace sluice::stream
