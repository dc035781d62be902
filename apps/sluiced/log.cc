#include "log.h"

#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

namespace sluice::daemon {
namespace {

std::string line_of(std::string_view text) {
  return fmt::format("sluiced: {}\n", text.substr(0, kLogLineSizeMax));
}

std::string words_for_lost(std::uint64_t count) {
  return line_of(fmt::format("{} line{} of this log {} lost: nobody read them in time", count,
                             count == 1 ? "" : "s", count == 1 ? "was" : "were"));
}

// Whether all of it went out. May wait for ever.
bool write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t size = write(descriptor, text.data(), text.size());
    if (size >= 0) {
      text.remove_prefix(static_cast<std::size_t>(size));
    } else if (errno == EAGAIN) {  // somebody else has made it so
      pollfd waiting{descriptor, POLLOUT, 0};
      static_cast<void>(poll(&waiting, 1, -1));
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

}  // namespace

struct Log::Inside {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::string> lines;
  std::uint64_t lost = 0;
  std::uint64_t lost_unsaid = 0;
  bool is_writing = false;
  bool has_ended = false;

  // With the mutex held.
  [[nodiscard]] bool is_done() const { return lines.empty() && lost_unsaid == 0 && !is_writing; }

  void serve(int descriptor) {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [this] { return has_ended || !lines.empty() || lost_unsaid != 0; });
      if (lines.empty() && lost_unsaid == 0) return;
      if (lines.empty()) lines.push_back(words_for_lost(std::exchange(lost_unsaid, 0)));
      const std::string line = std::move(lines.front());
      lines.pop_front();
      is_writing = true;
      lock.unlock();
      const bool is_written = write_all(descriptor, line);
      lock.lock();
      is_writing = false;
      if (!is_written) ++lost;  // not to be spoken of: there is nowhere to
      changed.notify_all();
    }
  }
};

Log::Log(int descriptor) : inside_(std::make_shared<Inside>()) {
  // Signals are for other threads, also those that are blocked later on.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread([inside = inside_, descriptor] { inside->serve(descriptor); }).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Log::~Log() {
  flush(kLogPatience);
  const std::lock_guard lock(inside_->mutex);
  inside_->has_ended = true;
  inside_->changed.notify_all();
}

void Log::say(std::string_view line) {
  std::string text = line_of(line);
  const std::lock_guard lock(inside_->mutex);
  Inside& at = *inside_;
  const std::size_t wanted = at.lost_unsaid == 0 ? 1 : 2;
  if (at.lines.size() + wanted > kLogLinesMax) {
    ++at.lost;
    ++at.lost_unsaid;
    return;
  }
  // Where they are missing.
  if (at.lost_unsaid != 0) at.lines.push_back(words_for_lost(std::exchange(at.lost_unsaid, 0)));
  at.lines.push_back(std::move(text));
  at.changed.notify_all();
}

bool Log::flush(std::chrono::milliseconds patience) {
  std::unique_lock lock(inside_->mutex);
  return inside_->changed.wait_for(lock, patience, [this] { return inside_->is_done(); });
}

std::uint64_t Log::lost() const {
  const std::lock_guard lock(inside_->mutex);
  return inside_->lost;
}

}  // namespace sluice::daemon
