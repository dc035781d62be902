#include "protocol/slot_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <list>

#include "base/random.h"

namespace sluice::protocol {
namespace {

std::vector<std::uint32_t> drained(SlotQueue queue) {
  std::vector<std::uint32_t> order;
  while (queue.first() != SlotQueue::kNone) {
    order.push_back(queue.first());
    queue.remove(queue.first());
  }
  EXPECT_EQ(queue.count(), 0u);
  return order;
}

SlotQueue made(std::size_t slots, std::initializer_list<std::uint32_t> order) {
  SlotQueue queue;
  queue.reset(slots);
  for (const std::uint32_t slot : order) queue.push(slot);
  return queue;
}

TEST(SlotQueue, OfNothingHasNoFirst) {
  SlotQueue queue;
  EXPECT_EQ(queue.first(), SlotQueue::kNone);
  EXPECT_EQ(queue.count(), 0u);
  queue.reset(3);
  EXPECT_EQ(queue.first(), SlotQueue::kNone);
  EXPECT_FALSE(queue.has(0) || queue.has(1) || queue.has(2));
}

TEST(SlotQueue, KeepsTheOrderOfPushes) {
  const SlotQueue queue = made(5, {3, 0, 4});
  EXPECT_EQ(queue.count(), 3u);
  EXPECT_TRUE(queue.has(0) && queue.has(3) && queue.has(4));
  EXPECT_FALSE(queue.has(1) || queue.has(2));
  EXPECT_EQ(drained(queue), (std::vector<std::uint32_t>{3, 0, 4}));
}

TEST(SlotQueue, RemovesFromTheFrontTheMiddleAndTheEnd) {
  for (const std::uint32_t gone : {2u, 0u, 1u}) {
    SlotQueue queue = made(4, {2, 0, 1});
    queue.remove(gone);
    EXPECT_FALSE(queue.has(gone));
    EXPECT_EQ(queue.count(), 2u);
    queue.push(3);
    std::vector<std::uint32_t> expected{2, 0, 1, 3};
    std::erase(expected, gone);
    EXPECT_EQ(drained(queue), expected);
  }
}

TEST(SlotQueue, RemovingWhatIsNotThereChangesNothing) {
  SlotQueue queue = made(3, {1, 2});
  queue.remove(0);
  EXPECT_EQ(drained(queue), (std::vector<std::uint32_t>{1, 2}));
}

TEST(SlotQueue, WhatIsPushedAgainComesLast) {
  SlotQueue queue = made(3, {0, 1, 2});
  queue.remove(0);
  queue.push(0);
  EXPECT_EQ(drained(queue), (std::vector<std::uint32_t>{1, 2, 0}));
}

TEST(SlotQueue, ResetForgetsEverything) {
  SlotQueue queue = made(3, {0, 1, 2});
  queue.reset(2);
  EXPECT_EQ(queue.count(), 0u);
  EXPECT_EQ(queue.first(), SlotQueue::kNone);
  queue.push(1);
  EXPECT_EQ(drained(queue), (std::vector<std::uint32_t>{1}));
}

TEST(SlotQueue, DoesWhatAListDoes) {
  constexpr std::uint32_t kSlots = 9;
  SlotQueue queue;
  queue.reset(kSlots);
  std::list<std::uint32_t> model;
  for (std::uint64_t i = 0; i < 5000; ++i) {
    const auto slot = static_cast<std::uint32_t>(mix(1, i) % kSlots);
    const bool is_in = std::ranges::find(model, slot) != model.end();
    ASSERT_EQ(queue.has(slot), is_in);
    if (!is_in && mix(2, i) % 3 != 0) {
      queue.push(slot);
      model.push_back(slot);
    } else {
      queue.remove(slot);
      model.remove(slot);
    }
    ASSERT_EQ(queue.count(), model.size());
    ASSERT_EQ(drained(queue), std::vector<std::uint32_t>(model.begin(), model.end()));
  }
}

}  // namespace
}  // namespace sluice::protocol
