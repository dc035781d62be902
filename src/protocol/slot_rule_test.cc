#include "protocol/slot_rule.h"

#include <gtest/gtest.h>

#include <array>

namespace sluice::protocol {
namespace {

constexpr std::uint32_t kLast = 0xffffffffu;

bool operator==(const Version& a, const Version& b) {
  return a.used == b.used && a.use == b.use && a.seen == b.seen;
}

TEST(SlotRule, TheFirstOfAChunkBeginsItAndOthersAreNext) {
  Version versions[2];
  EXPECT_EQ(slot_rule(versions, 1, 2), SlotRuling::first);
  EXPECT_TRUE((versions[1] == Version{true, 1, 0b100}));
  EXPECT_EQ(slot_rule(versions, 1, 0), SlotRuling::next);
  EXPECT_EQ(slot_rule(versions, 1, 63), SlotRuling::next);
  EXPECT_TRUE((versions[1] == Version{true, 1, 0b101 | std::uint64_t{1} << 63}));
  EXPECT_FALSE(versions[0].used) << "chunk 1 concerns the odd version alone";
}

TEST(SlotRule, AWorkerIsCountedOnceHoweverOftenItSends) {
  Version versions[2];
  slot_rule(versions, 4, 1);
  slot_rule(versions, 4, 3);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(slot_rule(versions, 4, 1), SlotRuling::again);
    EXPECT_EQ(slot_rule(versions, 4, 3), SlotRuling::again);
    EXPECT_TRUE((versions[0] == Version{true, 4, 0b1010}));
  }
}

TEST(SlotRule, ALaterChunkOfTheSameVersionWipesWhatWasThere) {
  Version versions[2];
  slot_rule(versions, 1, 0);
  slot_rule(versions, 1, 1);
  EXPECT_EQ(slot_rule(versions, 3, 1), SlotRuling::first);
  EXPECT_TRUE((versions[1] == Version{true, 3, 0b10}));
  EXPECT_EQ(slot_rule(versions, 3, 0), SlotRuling::next);
}

TEST(SlotRule, AStaleOneChangesNothingInEitherVersion) {
  Version versions[2];
  slot_rule(versions, 7, 0);
  slot_rule(versions, 8, 0);
  const std::array<Version, 2> before{versions[0], versions[1]};
  for (const std::uint32_t use : {1u, 2u, 5u, 6u}) {
    for (std::uint32_t worker = 0; worker < 64; ++worker) {
      EXPECT_EQ(slot_rule(versions, use, worker), SlotRuling::stale) << use;
      EXPECT_TRUE(versions[0] == before[0] && versions[1] == before[1]);
    }
  }
}

// docs/wire-format.md, "Why not one bit": the slow copy of use 0 comes after use 1 was begun.
TEST(SlotRule, ASlowCopyIsKnownAsOneWhateverTheOtherVersionHolds) {
  Version versions[2];
  slot_rule(versions, 0, 0);
  slot_rule(versions, 0, 1);
  EXPECT_EQ(slot_rule(versions, 1, 0), SlotRuling::first);
  EXPECT_EQ(slot_rule(versions, 0, 0), SlotRuling::again);
  EXPECT_EQ(slot_rule(versions, 1, 0), SlotRuling::again) << "its mark in use 1 was not cleared";
  EXPECT_EQ(slot_rule(versions, 1, 1), SlotRuling::next);
  EXPECT_EQ(slot_rule(versions, 2, 1), SlotRuling::first);
  EXPECT_EQ(slot_rule(versions, 0, 0), SlotRuling::stale);
  EXPECT_TRUE((versions[0] == Version{true, 2, 0b10}));
}

TEST(SlotRule, NumbersWrapFromTheLastToZero) {
  Version versions[2];
  slot_rule(versions, kLast - 1, 0);
  slot_rule(versions, kLast, 0);
  EXPECT_EQ(slot_rule(versions, 0, 0), SlotRuling::first) << "0 follows 2^32 - 1";
  EXPECT_EQ(slot_rule(versions, 1, 0), SlotRuling::first);
  EXPECT_EQ(slot_rule(versions, kLast - 1, 1), SlotRuling::stale);
  EXPECT_EQ(slot_rule(versions, kLast, 1), SlotRuling::stale);
  EXPECT_TRUE((versions[0] == Version{true, 0, 1}));
  EXPECT_TRUE((versions[1] == Version{true, 1, 1}));
}

TEST(SlotRule, AVersionThatIsNotUsedTakesAnyChunk) {
  for (const std::uint32_t use : {0u, 1u, 0x7fffffffu, 0x80000000u, kLast}) {
    Version versions[2];
    EXPECT_EQ(slot_rule(versions, use, 5), SlotRuling::first);
    EXPECT_TRUE((versions[use % 2] == Version{true, use, 0b100000}));
  }
}

TEST(SlotRule, LaterIsADifferenceReadAsSigned) {
  static_assert(is_later(1, 0) && !is_later(0, 1) && !is_later(7, 7));
  static_assert(is_later(0, kLast) && !is_later(kLast, 0));
  static_assert(is_later(0x7fffffffu, 0) && !is_later(0, 0x7fffffffu));
  static_assert(is_later(0x80000005u, 6) && is_later(4, 0x80000005u));
}

}  // namespace
}  // namespace sluice::protocol
