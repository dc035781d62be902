#include "terminal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace sluice::daemon {

void keep_standard_descriptors() {
  int descriptor = 0;
  do {
    descriptor = open("/dev/null", O_RDWR);
  } while (descriptor >= 0 && descriptor <= STDERR_FILENO);
  if (descriptor >= 0) close(descriptor);
}

void complain(std::string_view line) {
  const std::string text = fmt::format("sluiced: {}\n", line);
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

void print(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

}  // namespace sluice::daemon
