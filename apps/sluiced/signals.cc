#include "signals.h"

#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <thread>
#include <utility>

#include "carrier/stream/socket.h"

namespace sluice::daemon {
namespace {

using Clock = std::chrono::steady_clock;
using Descriptor = stream::Socket;  // closes itself

int milliseconds_until(Clock::time_point deadline) {
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count() + 1;
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 1 << 30));
}

}  // namespace

struct Signals::Inside {
  Descriptor signals;
  Descriptor end;
  Handlers handlers;
  std::thread thread;

  void serve() const {
    bool has_first = false;
    Clock::time_point deadline;
    while (true) {
      std::array<pollfd, 2> waiting{pollfd{signals.descriptor(), POLLIN, 0},
                                    pollfd{end.descriptor(), POLLIN, 0}};
      const int count =
          poll(waiting.data(), waiting.size(), has_first ? milliseconds_until(deadline) : -1);
      if (count < 0) continue;  // interrupted
      if (waiting[1].revents != 0) return;
      signalfd_siginfo told{};
      const bool is_signal =
          waiting[0].revents != 0 && read(signals.descriptor(), &told, sizeof told) == sizeof told;
      if (is_signal && told.ssi_signo == SIGHUP) {
        handlers.reload();
        continue;
      }
      if (has_first && (is_signal || Clock::now() >= deadline)) {
        handlers.second();
        return;
      }
      if (is_signal) {
        has_first = true;
        deadline = Clock::now() + handlers.first();
      }
    }
  }
};

void Signals::hold_reload() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

Checked<std::unique_ptr<Signals>> Signals::watch(Handlers handlers) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  auto inside = std::make_unique<Inside>();
  inside->signals = Descriptor(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  inside->end = Descriptor(eventfd(0, EFD_CLOEXEC));
  if (inside->signals.descriptor() < 0 || inside->end.descriptor() < 0) {
    return Problem{Code::io, fmt::format("cannot watch signals: {}", std::strerror(errno))};
  }
  inside->handlers = std::move(handlers);
  return std::make_unique<Signals>(std::move(inside));
}

Signals::Signals(std::unique_ptr<Inside> inside) : inside_(std::move(inside)) {
  inside_->thread = std::thread([at = inside_.get()] { at->serve(); });
}

Signals::~Signals() {
  const std::uint64_t one = 1;
  static_cast<void>(!write(inside_->end.descriptor(), &one, sizeof one));
  inside_->thread.join();
}

}  // namespace sluice::daemon
