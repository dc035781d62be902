#include "terminal.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace sluice::cli {

void print(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); }

void complain(std::string_view line) { fmt::print(stderr, "sluice: {}\n", line); }

Progress::Progress(std::string what)
    : what_(std::move(what)),
      terminal_(isatty(STDERR_FILENO) == 1),
      start_(std::chrono::steady_clock::now()),
      last_(start_) {}

Progress::~Progress() {
  if (shown_) fmt::print(stderr, "\r\033[K");
}

void Progress::update(std::uint64_t done, std::uint64_t of) {
  const auto now = std::chrono::steady_clock::now();
  if (!terminal_ || now - start_ < std::chrono::seconds(1)) return;
  if (shown_ && now - last_ < std::chrono::milliseconds(100)) return;
  last_ = now;
  shown_ = true;
  fmt::print(stderr, "\r\033[K{} {} of {} ({} %)", what_, done, of,
             of == 0 ? 100 : done * 100 / of);
  std::fflush(stderr);
}

}  // namespace sluice::cli
