#include "daemon_terminal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

namespace sluice::daemon {

// Each gets the lowest number that is free, which is its own.
void keep_standard_descriptors() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(descriptor, F_GETFD) >= 0) continue;
    static_cast<void>(open("/dev/null", descriptor == STDOUT_FILENO ? O_RDONLY : O_RDWR));
  }
}

void complain(std::string_view line) {
  const std::string text = fmt::format("sluiced: {}\n", line);
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

int print(std::string_view text) {
  const bool is_written =
      std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  return is_written ? 0 : errno;
}

}  // namespace sluice::daemon
