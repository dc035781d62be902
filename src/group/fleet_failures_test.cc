// A worker that fails while the others wait for it.
#include <gtest/gtest.h>
#include <pthread.h>

#include <exception>
#include <new>
#include <thread>
#include <vector>

#include "catalog/carriers.h"
#include "group/fleet.h"

namespace sluice {
namespace {

constexpr std::size_t kCount = 1000;

// The others would wait for a day.
FleetOptions patient(std::uint32_t workers) {
  FleetOptions options;
  options.make_world = local::kInfo.make_world;
  options.group.workers = workers;
  options.group.timeout = std::chrono::hours(24);
  options.staffing = Staffing::threads;
  return options;
}

TEST(CrewFailures, EndTheOthersAndAreTheProblemThatIsTold) {
  const auto codec = make_codec("f32");
  const Tensor tensor{1, 1, kCount};
  for (const std::uint32_t culprit : {0u, 2u}) {
    const auto fleet = Fleet::make(patient(3), *codec, {&tensor, 1});
    ASSERT_TRUE(fleet.has_value());
    std::vector<std::vector<float>> values(3, std::vector<float>(kCount));
    const Verdict verdict = (*fleet)->step(0, [&](std::uint32_t rank) {
      const std::size_t count = rank == culprit ? kCount - 1 : kCount;
      const std::span<float> mine = std::span(values[rank]).first(count);
      return std::vector<BucketEntry>{{0, mine, mine}};
    });
    ASSERT_FALSE(verdict.has_value());
    EXPECT_EQ(verdict.error().code, Code::invalid_argument);
    EXPECT_NE(verdict.error().message.find("entry 0 does not fit: 999 coordinates"),
              std::string::npos)
        << verdict.error().message;
  }
}

TEST(CrewFailures, AnAllocationThatIsRefusedEndsNoThread) {
  const auto codec = make_codec("f32");
  const Tensor tensor{1, 1, kCount};
  const auto fleet = Fleet::make(patient(3), *codec, {&tensor, 1});
  ASSERT_TRUE(fleet.has_value());
  std::vector<std::vector<float>> values(3, std::vector<float>(kCount));
  const Verdict verdict = (*fleet)->step(0, [&](std::uint32_t rank) {
    std::vector<BucketEntry> entries{{0, values[rank], values[rank]}};
    // Not by asking for too much: a sanitizer's allocator ends the process then.
    if (rank == 1) std::rethrow_exception(std::make_exception_ptr(std::bad_alloc()));
    return entries;
  });
  ASSERT_FALSE(verdict.has_value());
  EXPECT_EQ(verdict.error().code, Code::out_of_memory);
  // The group is dead and says so.
  EXPECT_EQ((*fleet)->groups()[1]->start(1, {}).error().code, Code::unavailable);
}

// It has threads to join, so it ends when the step has.
TEST(CrewFailures, AThreadThatIsCancelledInAStepEndsAfterIt) {
  const auto codec = make_codec("f32");
  const Tensor tensor{1, 1, kCount};
  const auto fleet = Fleet::make(patient(3), *codec, {&tensor, 1});
  ASSERT_TRUE(fleet.has_value());
  std::vector<std::vector<float>> values(3, std::vector<float>(kCount, 1.0f));
  bool has_stepped = false;
  bool has_gone_on = false;
  std::thread caller([&] {
    const pthread_t self = pthread_self();
    const Verdict verdict = (*fleet)->step(0, [&](std::uint32_t rank) {
      if (rank == 0) pthread_cancel(self);
      return std::vector<BucketEntry>{{0, values[rank], values[rank]}};
    });
    has_stepped = verdict.has_value();
    pthread_testcancel();
    has_gone_on = true;
  });
  caller.join();
  EXPECT_TRUE(has_stepped);
  EXPECT_FALSE(has_gone_on);
}

}  // namespace
}  // namespace sluice
