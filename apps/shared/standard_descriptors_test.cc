#include "apps/shared/standard_descriptors.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

namespace sluice {
namespace {

// 0 where a process that was started without these descriptors finds what was promised.
int started_without(bool input, bool output, bool error) {
  if (input) close(STDIN_FILENO);
  if (output) close(STDOUT_FILENO);
  if (error) close(STDERR_FILENO);
  keep_standard_descriptors();
  char byte = 0;
  if (open("/dev/null", O_RDONLY) <= STDERR_FILENO) return 1;
  if (input && read(STDIN_FILENO, &byte, 1) != 0) return 2;
  if (output && write(STDOUT_FILENO, &byte, 1) >= 0) return 3;
  if (error && write(STDERR_FILENO, &byte, 1) != 1) return 4;
  return 0;
}

TEST(StandardDescriptors, OfWhatWasClosedNoFileTakesThePlace) {
  for (int closed = 0; closed < 8; ++closed) {
    EXPECT_EXIT(
        std::_Exit(started_without((closed & 1) != 0, (closed & 2) != 0, (closed & 4) != 0)),
        testing::ExitedWithCode(0), "")
        << closed;
  }
}

TEST(StandardDescriptors, WhatIsOpenStaysWhatItIs) {
  EXPECT_EXIT(
      {
        int ends[2] = {};
        static_cast<void>(pipe(ends));
        dup2(ends[1], STDOUT_FILENO);
        keep_standard_descriptors();
        char byte = 'x';
        std::_Exit(write(STDOUT_FILENO, &byte, 1) == 1 && read(ends[0], &byte, 1) == 1 ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace sluice
