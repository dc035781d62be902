#include "daemon_terminal.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>

namespace sluice::daemon {

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
