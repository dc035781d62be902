#include "apps/sluice/process/terminal.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>

#include "apps/shared/standard_descriptors.h"

namespace sluice::cli {

namespace {

// stdout keeps that it failed and not why. One of each per process.
int& print_error() {
  static int error = 0;
  return error;
}

void note(bool is_good) {
  if (!is_good && print_error() == 0) print_error() = errno;
}

}  // namespace

void prepare_standard_streams() {
  static_cast<void>(std::signal(SIGPIPE, SIG_IGN));
  keep_standard_descriptors();
}

void print(std::string_view text) {
  note(std::fwrite(text.data(), 1, text.size(), stdout) == text.size());
}

int flush_printed() {
  note(std::fflush(stdout) == 0);
  return print_error();
}

void complain(std::string_view line) {
  std::string text = fmt::format("sluice: {}", line);
  std::replace_if(
      text.begin(), text.end(), [](char letter) { return letter >= 0 && letter < ' '; }, ' ');
  text += '\n';
  std::fwrite(text.data(), 1, text.size(), stderr);
}

Progress::Progress(std::string what)
    : what_(std::move(what)),
      terminal_(isatty(STDERR_FILENO) == 1),
      start_(std::chrono::steady_clock::now()),
      last_(start_) {}

Progress::~Progress() {
  if (shown_) std::fputs("\r\033[K", stderr);
}

void Progress::update(std::uint64_t done, std::uint64_t of) {
  const auto now = std::chrono::steady_clock::now();
  if (!terminal_ || now - start_ < std::chrono::seconds(1)) return;
  if (shown_ && now - last_ < std::chrono::milliseconds(100)) return;
  last_ = now;
  shown_ = true;
  const std::string line =
      fmt::format("\r\033[K{} {} of {} ({} %)", what_, done, of, of == 0 ? 100 : done * 100 / of);
  std::fputs(line.c_str(), stderr);
  std::fflush(stderr);
}

}  // namespace sluice::cli
