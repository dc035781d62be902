#include "base/pages.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <limits>

namespace sluice {
namespace {

// Pages of this process that are in memory.
long resident() {
  long all = 0;
  long here = 0;
  std::FILE* const file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr) return 0;
  const int read = std::fscanf(file, "%ld %ld", &all, &here);
  std::fclose(file);
  return read == 2 ? here : 0;
}

TEST(Pages, AreTakenWhenTheyAreTouched) {
  constexpr std::size_t kSize = std::size_t{1} << 30;
  const long before = resident();
  Pages pages(kSize);
  ASSERT_EQ(pages.size(), kSize);
  pages.bytes()[kSize / 2] = std::byte{1};
  EXPECT_EQ(pages.bytes()[kSize - 1], std::byte{0});
  EXPECT_LT((resident() - before) * sysconf(_SC_PAGESIZE), static_cast<long>(kSize / 16));
}

TEST(Pages, AreEmptyWhereThereAreNone) {
  EXPECT_EQ(Pages().size(), 0u);
  EXPECT_EQ(Pages(0).size(), 0u);
  EXPECT_EQ(Pages(std::numeric_limits<std::size_t>::max() / 2).size(), 0u);
}

TEST(Pages, MoveAndAreGivenBackOnce) {
  Pages first(4096);
  first.bytes()[7] = std::byte{7};
  Pages second(std::move(first));
  EXPECT_EQ(second.bytes()[7], std::byte{7});
  Pages third;
  third = std::move(second);
  EXPECT_EQ(third.bytes()[7], std::byte{7});
  third = Pages();
}

}  // namespace
}  // namespace sluice
