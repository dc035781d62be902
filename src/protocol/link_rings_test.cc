// Sparse items of a link: when it speaks, looks ahead and acknowledges, and what comes in silence.
#include "protocol/link_test.h"
#include "protocol/ring_rule.h"

namespace sluice::protocol {
namespace {

constexpr Reduction kBlocks{.op = Op::block_sum, .bits = 8, .count = 8, .grain = 8};
constexpr std::uint16_t kSlots = 4;
constexpr std::uint16_t kRing = kSlots;  // the only one

Item sparse(std::uint32_t piece, bool has_data) {
  return {.what = kBlocks,
          .up = has_data ? std::span<const std::byte>(kUp) : std::span<const std::byte>(),
          .only = 0b111,
          .digest = 1000 + piece,
          .piece = piece,
          .is_sparse = true};
}

class LinkRingTest : public LinkTest {
 protected:
  // One item for each letter: d where this worker has data, - where it has none.
  void put_pieces(const std::string& pieces, std::uint32_t first = 0) {
    for (const char piece : pieces) link_.put(sparse(first++, piece == 'd'));
  }
  bool gets(std::uint32_t use, Time now, std::uint8_t flags = 0) {
    wire::Header header = result(kRing, use, 999 + use);
    header.flags = flags;
    header.what = kBlocks;
    const auto arrived = hear(header, now, kDown);
    EXPECT_TRUE(!arrived || arrived->piece == use - 1);
    return arrived.has_value();
  }
  // The only frame that is due.
  Seen one(Time now) {
    const auto seen = send(now);
    EXPECT_EQ(seen.size(), 1u);
    return seen.empty() ? Seen{} : seen[0];
  }
};

TEST_F(LinkRingTest, LooksAheadToTheNextItemThatItHasSomethingFor) {
  open(kSlots, 16);
  put_pieces("d--d-");
  const Seen first = one(Time{0});
  EXPECT_EQ(first.header.slot, kRing);
  EXPECT_EQ(first.header.use, 1u);
  EXPECT_EQ(first.header.next, 4u);
  EXPECT_EQ(first.payload, kUp);
  ASSERT_TRUE(gets(1, milliseconds(1)));
  EXPECT_TRUE(send(milliseconds(1)).empty()) << "silent, as it said";
  ASSERT_TRUE(gets(2, milliseconds(1)));
  ASSERT_TRUE(gets(3, milliseconds(1)));
  const Seen second = one(milliseconds(1));
  EXPECT_EQ(second.header.use, 4u);
  EXPECT_EQ(second.header.next, 6u) << "beyond the last there is no more to say";
}

TEST_F(LinkRingTest, WhoHasNothingAtFirstSaysSoOnce) {
  open(kSlots, 16);
  put_pieces("--d");
  const Seen first = one(Time{0});
  EXPECT_EQ(first.header.kind, Kind::contribution);
  EXPECT_TRUE(first.payload.empty());
  EXPECT_EQ(first.header.next, 3u);
  ASSERT_TRUE(gets(1, milliseconds(1)));
  EXPECT_TRUE(send(milliseconds(1)).empty());
}

TEST_F(LinkRingTest, TheSilentAcknowledgeEveryFewResults) {
  open(kSlots, 16);
  put_pieces(std::string(20, '-'));
  std::vector<std::uint32_t> spoken;
  for (std::uint32_t use = 1; use <= 20; ++use) {
    for (const Seen& seen : send(milliseconds(use))) {
      EXPECT_EQ(seen.header.kind, Kind::contribution);
      EXPECT_TRUE(seen.payload.empty());
      spoken.push_back(seen.header.use);
    }
    ASSERT_TRUE(gets(use, milliseconds(use)));
  }
  EXPECT_EQ(spoken, (std::vector<std::uint32_t>{1, 5, 9, 13, 17}));
  EXPECT_EQ(link_.counters().results, 20u);
}

TEST_F(LinkRingTest, AResultBeforeItsTurnIsTakenAndTheLostOneAskedFor) {
  open(kSlots, 16);
  put_pieces("d----d");
  one(Time{0});
  ASSERT_TRUE(gets(1, milliseconds(1)));
  EXPECT_TRUE(send(milliseconds(1)).empty());
  ASSERT_TRUE(gets(3, milliseconds(1)));
  EXPECT_FALSE(gets(3, milliseconds(1))) << "once";
  const Seen asked = one(milliseconds(1));
  EXPECT_EQ(asked.header.kind, Kind::ask);
  EXPECT_EQ(asked.header.use, 2u);
  ASSERT_TRUE(gets(4, milliseconds(2)));
  EXPECT_TRUE(send(milliseconds(2)).empty()) << "asked once at once";
  ASSERT_TRUE(gets(2, milliseconds(2), wire::kRepeated));
  EXPECT_TRUE(send(milliseconds(2)).empty()) << "waits for use 5 now";
  ASSERT_TRUE(gets(5, milliseconds(3)));
  EXPECT_EQ(one(milliseconds(3)).header.use, 6u);
}

TEST_F(LinkRingTest, ASumThatShouldHoldItsDataIsNotTakenBeforeItWasSent) {
  open(kSlots, 16);
  put_pieces("-d-");
  one(Time{0});
  EXPECT_FALSE(gets(2, milliseconds(1)));
  EXPECT_FALSE(hear(result(kRing, 3, 1003), milliseconds(1), kDown)) << "another digest, early";
  EXPECT_TRUE(gets(3, milliseconds(1)));
  EXPECT_FALSE(gets(4, milliseconds(1))) << "no such item";
  wire::Header other = result(kRing, 1, 5);
  EXPECT_FALSE(hear(other, milliseconds(1), kDown));
  EXPECT_EQ(link_.counters().ignored, 4u);
}

TEST_F(LinkRingTest, TheSilentAskWhenNothingComes) {
  open(kSlots, 16);
  put_pieces("d---");
  one(Time{0});
  ASSERT_TRUE(gets(1, milliseconds(1)));
  send(milliseconds(1));
  const Time due = link_.wake();
  EXPECT_LT(due, milliseconds(100));
  const Seen asked = one(due);
  EXPECT_EQ(asked.header.kind, Kind::ask);
  EXPECT_EQ(asked.header.use, 2u);
  // Others are late: asked less often.
  wire::Header others = wait(kRing, 2, 0b001);
  others.digest = 1001;
  hear(others, due + milliseconds(1));
  EXPECT_GT(link_.wake(), due + milliseconds(10));
  EXPECT_NE(link_.explain().find("1, 2"), std::string::npos) << link_.explain();
  // What it had said was lost: it says it again.
  const Time later = link_.wake();
  one(later);
  others.workers = 0b010;
  hear(others, later);
  const Seen again = one(later);
  EXPECT_EQ(again.header.kind, Kind::contribution);
  EXPECT_EQ(again.header.use, 2u);
  EXPECT_EQ(again.header.next, 5u);
}

TEST_F(LinkRingTest, SlotsAndRingsDoNotTouchEachOther) {
  open(kSlots, 16);
  put(1);
  put_pieces("d");
  const auto seen = send(Time{0});
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[0].header.slot, 0);
  EXPECT_EQ(seen[0].header.next, 0u) << "of slots nobody looks ahead";
  EXPECT_EQ(seen[1].header.slot, kRing);
  EXPECT_TRUE(hear(result(0, 1, 1000), Time{0}, kDown));
  EXPECT_TRUE(gets(1, Time{0}));
}

TEST_F(LinkRingTest, HandsBackTheLastResultsAndSpeaksAnew) {
  open(kSlots, 64);
  put_pieces("d-----------d");
  for (std::uint32_t use = 1; use <= 10; ++use) {
    send(milliseconds(use));
    ASSERT_TRUE(gets(use, milliseconds(use)));
  }
  send(milliseconds(11));
  hear({.kind = Kind::gone, .epoch = kEpoch}, milliseconds(12));
  ASSERT_FALSE(link_.is_open());
  send(milliseconds(12));
  welcome(milliseconds(13), {3, kSlots, kFrameSize, 64}, kEpoch + 2);
  ASSERT_TRUE(link_.is_open());
  std::vector<std::uint32_t> restored;
  std::vector<std::uint32_t> spoken;
  for (const Seen& seen : send(milliseconds(14))) {
    (seen.header.kind == Kind::restore ? restored : spoken).push_back(seen.header.use);
    EXPECT_TRUE(seen.header.kind == Kind::restore || seen.header.next == 13u);
  }
  std::ranges::sort(restored);
  EXPECT_EQ(restored, (std::vector<std::uint32_t>{3, 4, 5, 6, 7, 8, 9, 10}));
  EXPECT_EQ(spoken, (std::vector<std::uint32_t>{11})) << "the aggregator knows nothing any more";
  for (const std::uint32_t use : restored) {
    hear({.kind = Kind::restored, .epoch = kEpoch + 2, .slot = kRing, .use = use},
         milliseconds(15));
  }
  EXPECT_GT(link_.wake(), milliseconds(15)) << "all are back";
}

TEST_F(LinkRingTest, HandsBackResultsThatCameBeforeTheirTurn) {
  open(kSlots, 16);
  put_pieces("d---d");
  one(Time{0});
  ASSERT_TRUE(gets(1, milliseconds(1)));
  ASSERT_TRUE(gets(3, milliseconds(1)));
  hear({.kind = Kind::gone, .epoch = kEpoch}, milliseconds(2));
  send(milliseconds(2));
  welcome(milliseconds(3), {3, kSlots, kFrameSize, 16}, kEpoch + 2);
  std::vector<std::uint32_t> restored;
  for (const Seen& seen : send(milliseconds(3))) {
    if (seen.header.kind == Kind::restore) restored.push_back(seen.header.use);
  }
  EXPECT_EQ(restored, (std::vector<std::uint32_t>{1, 3}));
}

// What was announced to the memory that is lost nobody knows any more.
TEST_F(LinkRingTest, SpeaksAnewAboutAnItemThatHadNotItsTurnBeforeTheLoss) {
  open(kSlots, 16);
  put_pieces("d---d");
  EXPECT_EQ(one(Time{0}).header.next, 5u);
  ASSERT_TRUE(gets(1, milliseconds(1)));
  hear({.kind = Kind::gone, .epoch = kEpoch}, milliseconds(2));
  send(milliseconds(2));
  welcome(milliseconds(3), {3, kSlots, kFrameSize, 16}, kEpoch + 2);
  const auto seen = send(milliseconds(3));
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[0].header.kind, Kind::restore);
  EXPECT_EQ(seen[1].header.kind, Kind::contribution);
  EXPECT_EQ(seen[1].header.use, 2u);
  EXPECT_EQ(seen[1].header.next, 5u);
}

TEST_F(LinkRingTest, RingsAreFewerThanSlotsAndTakenInTurn) {
  open(16, 64);
  put_pieces("dddddd");
  std::vector<std::uint16_t> rings;
  for (const Seen& seen : send(Time{0})) rings.push_back(seen.header.slot);
  EXPECT_EQ(rings, (std::vector<std::uint16_t>{16, 17, 18, 19}));
}

}  // namespace
}  // namespace sluice::protocol
