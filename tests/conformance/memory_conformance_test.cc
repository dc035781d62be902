// What the measuring begin promised is what an exchange takes, and it stays inside.
#include <gtest/gtest.h>

#include <array>

#include "tests/support/checks.h"
#include "tests/support/fake_codec.h"
#include "tests/support/subject.h"

namespace sluice::support {
namespace {

using Borders = GuardedMemory::Borders;

constexpr std::array<std::uint32_t, 9> kCounts{0, 1, 7, 255, 256, 257, 4096, 65537, 1u << 20};
constexpr std::array<std::uint32_t, 3> kWorkers{1, 3, 64};
constexpr std::uint32_t kExactUpTo = 4096;

class PromisedMemory : public ConformanceTest {
 protected:
  void check(const GuardedCase& guarded_case) {
    const GuardedOutcome outcome = run_exchange(codec(), carrier(), guarded_case);
    EXPECT_TRUE(finished_alike(outcome)) << describe(guarded_case);
    EXPECT_GT(outcome.host_size, 0u) << describe(guarded_case);
  }
  // Large chunks are slow: each has its turn.
  [[nodiscard]] std::vector<std::string_view> every_feedback(std::uint32_t count) const {
    std::vector<std::string_view> all = feedbacks();
    all.emplace_back("none");
    if (count > kExactUpTo) return {all[count % all.size()]};
    return all;
  }
};

TEST_P(PromisedMemory, IsTakenExactlyAndNotLeft) {
  const bool is_fake = GetParam().codec == kFakeName;
  for (const std::uint32_t count : kCounts) {
    for (const std::uint32_t workers : kWorkers) {
      const std::uint64_t total = std::uint64_t{count} * workers;
      if (total > 64u * 65537u || workers > carrier().workers_max) continue;
      if (is_fake && total > 1u << 18) continue;  // It is slow.
      GuardedCase guarded_case{.count = count, .workers = workers, .borders = Borders::canaries};
      guarded_case.in_place = count % 4 == 0;
      for (const std::string_view feedback : every_feedback(count)) {
        guarded_case.feedback = feedback;
        guarded_case.borders = Borders::canaries;
        check(guarded_case);
        guarded_case.borders = Borders::exact;
        if (count <= kExactUpTo) check(guarded_case);
      }
    }
  }
}

TEST_P(PromisedMemory, IsEnoughForEveryKindOfData) {
  for (const DataInfo& info : kData) {
    for (const Missing missing : {Missing::none, Missing::some_grains}) {
      if (missing != Missing::none && !traits().quorum) continue;
      for (const Borders borders : {Borders::canaries, Borders::exact}) {
        for (const std::string_view feedback : feedbacks()) {
          check({.count = 1000,
                 .workers = 5,
                 .data = info.kind,
                 .missing = missing,
                 .feedback = feedback,
                 .borders = borders});
        }
      }
    }
  }
}

TEST_P(PromisedMemory, IsEnoughUnderEveryKernelLevel) {
  for (const Level level : available_levels()) {
    const ScopedLevel scoped(level);
    for (const std::uint32_t count : {1u, 7u, 257u, 1031u}) {
      for (const std::string_view feedback : feedbacks()) {
        check({.count = count, .workers = 3, .feedback = feedback});
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Catalogue, PromisedMemory, ::testing::ValuesIn(catalogue_and_fake()),
                         name_of_param);

}  // namespace
}  // namespace sluice::support
