#include "protocol/kept_results.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace sluice::protocol {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kPayloadMax = 8;

class KeptResultsTest : public ::testing::Test {
 protected:
  void make(std::uint32_t depth, std::size_t places) {
    kept_ = KeptResults(depth);
    kept_.make_places(places, kPayloadMax);
    kept_.make_memory();
    trips_.make_places(places);
  }
  void keep(std::uint32_t place, std::uint32_t use, std::byte value, std::size_t size = 4) {
    const std::vector<std::byte> payload(size, value);
    kept_.keep(place, {.header = {.kind = wire::Kind::result,
                                  .flags = wire::kRepeated,
                                  .slot = static_cast<std::uint16_t>(place),
                                  .use = use,
                                  .digest = 99,
                                  .workers = 1,
                                  .what = {.op = Op::wrap_sum, .bits = 8, .count = 4}},
                       .payload = payload});
  }
  // What is sent back, at most so many.
  std::vector<Outgoing> send(Time now, std::size_t most = 8) {
    std::vector<Outgoing> frames(most);
    OutgoingFrames out({.rank = 1, .job = 2, .epoch = 3}, frames, counters_);
    kept_.send(now, trips_, out);
    frames.resize(out.count());
    return frames;
  }
  static wire::Frame frame_of(const Outgoing& out, std::vector<std::byte>& bytes) {
    bytes.assign(out.header.begin(), out.header.end());
    bytes.insert(bytes.end(), out.payload.begin(), out.payload.end());
    const auto frame = wire::parse(bytes);
    EXPECT_TRUE(frame);
    return frame ? *frame : wire::Frame{};
  }

  KeptResults kept_{1};
  Trips trips_;
  LinkCounters counters_;
};

TEST_F(KeptResultsTest, NothingGoesBackBeforeItIsWanted) {
  make(1, 2);
  keep(0, 5, std::byte{7});
  EXPECT_EQ(kept_.to_restore(), 0u);
  EXPECT_TRUE(send(Time{0}).empty());
  EXPECT_EQ(kept_.wake(trips_), kNever);
}

TEST_F(KeptResultsTest, ASlotHandsBackItsLastResultAsItCame) {
  make(1, 2);
  keep(1, 5, std::byte{7});
  keep(1, 6, std::byte{8});
  kept_.restore();
  EXPECT_EQ(kept_.to_restore(), 1u);
  const auto sent = send(Time{0});
  ASSERT_EQ(sent.size(), 1u);
  std::vector<std::byte> bytes;
  const wire::Frame frame = frame_of(sent[0], bytes);
  EXPECT_EQ(frame.header.kind, wire::Kind::restore);
  EXPECT_TRUE(frame.header.slot == 1 && frame.header.use == 6 && frame.header.digest == 99);
  EXPECT_EQ(frame.header.flags, 0) << "it may have come as the answer to a question";
  EXPECT_TRUE(std::ranges::equal(frame.payload, std::vector(4, std::byte{8})));
  EXPECT_EQ(counters_.sent, 1u);
}

TEST_F(KeptResultsTest, ARingHandsBackItsLastFew) {
  make(8, 1);
  for (std::uint32_t use = 1; use <= 11; ++use) keep(0, use, std::byte{1});
  kept_.restore();
  EXPECT_EQ(kept_.to_restore(), 8u);
  EXPECT_EQ(send(Time{0}, 3).size(), 3u);
  EXPECT_EQ(send(Time{0}).size(), 5u) << "those that there was no room for";
}

TEST_F(KeptResultsTest, WhatIsNotAcknowledgedGoesAgainAfterATimeOut) {
  make(1, 2);
  keep(0, 5, std::byte{7});
  keep(1, 5, std::byte{7});
  kept_.restore();
  EXPECT_EQ(send(milliseconds(1)).size(), 2u);
  EXPECT_TRUE(send(milliseconds(2)).empty());
  kept_.restored(0, 4);
  EXPECT_EQ(kept_.to_restore(), 2u) << "of another use";
  kept_.restored(0, 5);
  kept_.restored(0, 5);
  EXPECT_EQ(kept_.to_restore(), 1u);
  const Time wake = kept_.wake(trips_);
  EXPECT_EQ(wake, milliseconds(1) + trips_.timeout(3));
  EXPECT_EQ(send(wake).size(), 1u);
}

TEST_F(KeptResultsTest, ALaterResultEndsTheRestoringOfThatBeforeIt) {
  make(1, 1);
  keep(0, 5, std::byte{7});
  kept_.restore();
  keep(0, 6, std::byte{8});
  EXPECT_EQ(kept_.to_restore(), 0u);
  EXPECT_TRUE(send(Time{0}).empty());
}

TEST_F(KeptResultsTest, APayloadLargerThanAnyIsNotKept) {
  make(1, 1);
  keep(0, 5, std::byte{7}, kPayloadMax + 1);
  kept_.restore();
  EXPECT_EQ(kept_.to_restore(), 0u);
  keep(0, 6, std::byte{7}, kPayloadMax);
  kept_.restore();
  EXPECT_EQ(kept_.to_restore(), 1u);
}

}  // namespace
}  // namespace sluice::protocol
