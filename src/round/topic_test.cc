#include "round/topic.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(Topic, EqualOnesDifferInNothing) {
  const Topic one{.step = 3, .seed = 4, .tensor = 5};
  EXPECT_EQ(difference(one, "worker 0", one, "worker 1"), "");
}

TEST(Topic, EveryPartIsNamedWithBothValues) {
  const Topic one{.step = 1,
                  .seed = 2,
                  .bucket = 3,
                  .tensor = 0xab,
                  .offset = 5,
                  .count = 6,
                  .chunk = 7,
                  .codec = 8};
  const auto says = [&](void (*change)(Topic&), const char* text) {
    Topic other = one;
    change(other);
    EXPECT_EQ(difference(one, "worker 0", other, "worker 1"), text);
  };
  says([](Topic& s) { s.step = 9; }, "step (worker 0: 1, worker 1: 9)");
  says([](Topic& s) { s.seed = 9; }, "seed (worker 0: 2, worker 1: 9)");
  says([](Topic& s) { s.bucket = 9; }, "bucket (worker 0: 3, worker 1: 9)");
  says([](Topic& s) { s.tensor = 0xcd; }, "tensor (id ab of worker 0, cd of worker 1)");
  says([](Topic& s) { s.offset = 9; }, "place in the tensor (worker 0: 5, worker 1: 9)");
  says([](Topic& s) { s.count = 9; }, "coordinates of the chunk (worker 0: 6, worker 1: 9)");
  says([](Topic& s) { s.chunk = 9; }, "coordinates per chunk (worker 0: 7, worker 1: 9)");
  says([](Topic& s) { s.codec = 9; }, "codec or its options");
  says([](Topic& s) { s.step = s.seed = 9; },
       "step (worker 0: 1, worker 1: 9), seed (worker 0: 2, worker 1: 9)");
}

}  // namespace
}  // namespace sluice
