#include "terminal.h"

#include <fmt/format.h>

#include <cstdio>

namespace sluice::daemon {

void say(std::string_view line) {
  const std::string text = fmt::format("sluiced: {}\n", line);
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

void print(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

}  // namespace sluice::daemon
