#include "protocol/outgoing.h"

#include <gtest/gtest.h>

#include <vector>

namespace sluice::protocol {
namespace {

TEST(OutgoingFrames, EachNamesItsSenderAndIsCounted) {
  std::vector<Outgoing> frames(2);
  LinkCounters counters;
  OutgoingFrames out({.rank = 3, .job = 77, .epoch = 9}, frames, counters);
  EXPECT_EQ(out.room(), 2u);
  out.add({.kind = wire::Kind::leave}, {});
  EXPECT_FALSE(out.is_full());
  out.add({.kind = wire::Kind::ask, .slot = 1, .use = 2, .digest = 5, .stamp = 8}, {});
  EXPECT_TRUE(out.is_full());
  EXPECT_EQ(out.count(), 2u);
  for (const Outgoing& frame : frames) {
    const auto parsed = wire::parse(frame.header);
    ASSERT_TRUE(parsed);
    EXPECT_TRUE(parsed->header.worker == 3 && parsed->header.job == 77);
    EXPECT_EQ(parsed->header.epoch, 9u);
  }
  EXPECT_EQ(counters.sent, 2u);
  EXPECT_EQ(counters.sent_bytes, 2 * wire::kHeaderSize);
}

}  // namespace
}  // namespace sluice::protocol
