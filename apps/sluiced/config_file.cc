#include "config_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "carrier/stream/socket.h"

namespace sluice::daemon {
namespace {

Problem refused(const std::string& path, const std::string& why) {
  return {Code::invalid_argument,
          fmt::format("--config '{}': {}; accepted: a readable regular file of at most {} bytes",
                      path, why, kConfigSizeMax)};
}

}  // namespace

Checked<std::string> read_config_file(const std::string& path) {
  // Opening a FIFO would wait for somebody who writes.
  const stream::Socket file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat status {};
  if (file.descriptor() < 0 || fstat(file.descriptor(), &status) != 0) {
    return refused(path, std::strerror(errno));
  }
  if (S_ISDIR(status.st_mode)) return refused(path, "is a directory");
  if (!S_ISREG(status.st_mode)) return refused(path, "is no regular file");
  std::string text(kConfigSizeMax + 1, '\0');
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = read(file.descriptor(), text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return refused(path, std::strerror(errno));
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  if (size > kConfigSizeMax) return refused(path, "is larger");
  text.resize(size);
  return text;
}

}  // namespace sluice::daemon
