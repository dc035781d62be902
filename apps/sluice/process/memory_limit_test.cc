#include "apps/sluice/process/memory_limit.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <new>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <vector>

namespace sluice::cli {
namespace {

template <class Thrown>
Verdict throws(const Thrown& thrown, const std::string& wanted = "") {
  return with_memory(wanted, [&]() -> Verdict { throw thrown; });
}

TEST(MemoryLimit, SaysWhatWasWanted) {
  const Verdict verdict = throws(std::bad_alloc(), "--count 7 wants 28 bytes");
  ASSERT_FALSE(verdict);
  EXPECT_EQ(verdict.error().message, "out of memory: --count 7 wants 28 bytes");
  EXPECT_EQ(verdict.error().code, Code::out_of_memory);
  EXPECT_EQ(throws(std::bad_alloc()).error().message, "out of memory");
  EXPECT_EQ(throws(std::length_error("vector")).error().message, "out of memory");
  const auto again = std::make_error_code(std::errc::resource_unavailable_try_again);
  EXPECT_EQ(throws(std::system_error(again)).error().message,
            "out of memory: a thread could not be started");
}

TEST(MemoryLimit, PassesOnWhatIsNotAboutMemory) {
  EXPECT_TRUE(with_memory("", [] { return Verdict(Nothing{}); }));
  EXPECT_THROW(static_cast<void>(throws(std::logic_error("a bug"))), std::logic_error);
  EXPECT_THROW(static_cast<void>(throws(std::system_error(EPERM, std::generic_category()))),
               std::system_error);
}

using MemoryLimitDeathTest = ::testing::Test;

TEST(MemoryLimitDeathTest, AThreadThatRunsOutEndsTheProcessWithALine) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto end_in_thread = [] {
    end_threads_without_memory(2);
    std::thread([] { throw std::bad_alloc(); }).join();
  };
  EXPECT_EXIT(end_in_thread(), ::testing::ExitedWithCode(2), "^sluice: out of memory\n$");
  const auto end_past_threads = [] {
    end_threads_without_memory(2);
    std::vector<std::thread> threads;
    threads.emplace_back([] { std::this_thread::yield(); });
    throw std::bad_alloc();
  };
  EXPECT_EXIT(end_past_threads(), ::testing::ExitedWithCode(2), "^sluice: out of memory");
}

}  // namespace
}  // namespace sluice::cli
