#include "start_failure.h"

#include <gtest/gtest.h>

#include <new>
#include <stdexcept>
#include <string>
#include <system_error>

namespace sluice::daemon {
namespace {

TEST(WordsFor, MemoryIsSaidWhereItWasMemory) {
  EXPECT_EQ(words_for(std::bad_alloc()), "out of memory");
  EXPECT_EQ(words_for(std::bad_array_new_length()), "out of memory");
  EXPECT_EQ(words_for(std::length_error("vector::reserve")), "out of memory");
  const std::system_error thread(std::make_error_code(std::errc::resource_unavailable_try_again),
                                 "thread");
  EXPECT_EQ(words_for(thread), std::string("out of memory: ") + thread.what());
}

TEST(WordsFor, AnythingElseIsNot) {
  const std::system_error files(std::make_error_code(std::errc::too_many_files_open), "eventfd");
  EXPECT_EQ(words_for(files), files.what());
  EXPECT_EQ(words_for(std::runtime_error("it broke")), "it broke");
}

}  // namespace
}  // namespace sluice::daemon
