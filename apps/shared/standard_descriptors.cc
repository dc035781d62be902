#include "apps/shared/standard_descriptors.h"

#include <fcntl.h>
#include <unistd.h>

#include <initializer_list>

namespace sluice {

// Each gets the lowest number that is free, which is its own.
void keep_standard_descriptors() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(descriptor, F_GETFD) >= 0) continue;
    static_cast<void>(open("/dev/null", descriptor == STDOUT_FILENO ? O_RDONLY : O_RDWR));
  }
}

}  // namespace sluice
