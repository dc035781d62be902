// Joining: proving an address, finding the frames that pass, waiting for others.
#include "protocol/link_test.h"

namespace sluice::protocol {
namespace {

wire::Join wish_of(const Seen& seen) {
  EXPECT_EQ(seen.header.kind, Kind::join);
  const auto wish = wire::parse_join(seen.payload);
  EXPECT_TRUE(wish);
  return wish ? *wish : wire::Join{};
}

class LinkJoiningTest : public LinkTest {
 protected:
  // Sizes of the joins that are due.
  std::vector<std::size_t> sizes(Time now) {
    std::vector<std::size_t> sizes;
    for (const Seen& seen : send(now)) sizes.push_back(seen.bytes.size());
    return sizes;
  }
  // Up to the joins of every size.
  void be_proven() {
    send(Time{0});
    prove(Time{0});
    send(Time{0});
  }
  // A welcome of this length, to one who is still finding out.
  void size_passes(Time now, std::uint32_t size, std::uint32_t of_job = 9000) {
    welcome(now, {3, 1, of_job, 2}, How{.epoch = 0, .workers = 0, .size = size});
  }
};

// --- proving ---

TEST_F(LinkJoiningTest, TheFirstJoinIsSmallAndHasNoCookie) {
  const auto seen = send(Time{0});
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].bytes.size(), 576u);
  const wire::Join wish = wish_of(seen[0]);
  EXPECT_EQ(wish.workers, 3);
  EXPECT_EQ(wish.slots, 64);
  EXPECT_EQ(wish.frame_size, 576u);
  EXPECT_EQ(wish.fits, 0u);
  EXPECT_FALSE(wish.is_bound);
  EXPECT_EQ(wish.token, wire::make_token(5, 0));
  EXPECT_EQ(wish.cookie, 0u);
  EXPECT_EQ(wish.terms, "sluice 1, test");
  EXPECT_EQ(link_.explain(), "the aggregator does not answer");
  EXPECT_FALSE(link_.was_open() || link_.was_answered());
}

TEST_F(LinkJoiningTest, JoinsAgainAfterPausesThatAreAnEighthOfTheTimeItTakes) {
  Time now{0};
  for (int i = 0; i < 40; ++i) {
    EXPECT_EQ(send(now).size(), 1u);
    const Time pause = std::clamp<Time>(now / 8, milliseconds(20), milliseconds(250));
    EXPECT_GE(link_.wake(), now + pause / 2);
    EXPECT_LT(link_.wake(), now + pause * 3 / 2);
    EXPECT_TRUE(send(link_.wake() - Time{1}).empty());
    now = link_.wake();
  }
  EXPECT_GT(now, milliseconds(2500)) << "up to the longest pause";
}

TEST_F(LinkJoiningTest, WithACookieTheNextAttemptTriesEverySizeTheLargestFirst) {
  send(Time{0});
  prove(milliseconds(7));
  EXPECT_TRUE(link_.was_answered());
  EXPECT_EQ(link_.wake(), milliseconds(7)) << "at once";
  const auto seen = send(milliseconds(7));
  ASSERT_EQ(seen.size(), 4u);
  std::size_t index = 0;
  for (const std::uint32_t size : {1472u, 1452u, 1372u, 1232u}) {
    const Seen& one = seen[index++];
    EXPECT_EQ(one.bytes.size(), size);
    const wire::Join wish = wish_of(one);
    EXPECT_EQ(wish.frame_size, size);
    EXPECT_EQ(wish.fits, 0u);
    EXPECT_EQ(wish.token, wire::make_token(5, 1));
    EXPECT_EQ(wish.cookie, kCookie);
  }
  EXPECT_EQ(link_.explain(),
            "the aggregator answers, but datagrams of 1232 bytes do not pass both ways");
}

TEST_F(LinkJoiningTest, AProveOfAnotherAttemptIsIgnored) {
  send(Time{0});
  const std::uint64_t first = token_;
  prove(Time{0}, 1, first + 1);
  prove(Time{0}, 1, wire::make_token(6, 0));
  EXPECT_EQ(link_.counters().ignored, 2u);
  EXPECT_FALSE(link_.was_answered());
  prove(Time{0});
  send(Time{0});
  prove(Time{0}, 4711, first);
  EXPECT_EQ(link_.counters().ignored, 3u);
  EXPECT_EQ(wish_of(send(link_.wake()).at(0)).cookie, kCookie) << "that answered the first join";
  // It has started again meanwhile.
  prove(milliseconds(100), 4711);
  const wire::Join wish = wish_of(send(milliseconds(100)).at(0));
  EXPECT_EQ(wish.cookie, 4711u);
  EXPECT_EQ(wish.token, wire::make_token(5, 2));
}

TEST_F(LinkJoiningTest, AProveToOneThatIsOpenIsIgnored) {
  open(4, 4);
  prove(Time{0}, 4711);
  EXPECT_TRUE(link_.is_open());
  EXPECT_EQ(link_.counters().ignored, 1u);
}

// --- sizes ---

TEST_F(LinkJoiningTest, TheLargestSizeIsSettledForAtOnce) {
  be_proven();
  size_passes(milliseconds(3), 1472);
  EXPECT_EQ(link_.wake(), milliseconds(3));
  const auto seen = send(milliseconds(3));
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].bytes.size(), 576u);
  const wire::Join wish = wish_of(seen[0]);
  EXPECT_EQ(wish.fits, 1472u);
  EXPECT_EQ(wish.token, wire::make_token(5, 1)) << "the same attempt";
  EXPECT_EQ(wish.cookie, kCookie);
  EXPECT_FALSE(wish.is_bound);
}

// Only small welcomes arrive: large joins do, or large welcomes do not come back.
TEST_F(LinkJoiningTest, ASmallerSizeIsSettledForAfterSevenMoreTries) {
  be_proven();
  size_passes(milliseconds(1), 1232);
  size_passes(milliseconds(2), 1372);
  size_passes(milliseconds(3), 1232);
  for (int i = 0; i < 7; ++i) {
    EXPECT_EQ(sizes(link_.wake()), (std::vector<std::size_t>{1472, 1452, 1372, 1232})) << i;
    if (i == 3) size_passes(link_.wake() - Time{1}, 1372);
  }
  const auto seen = send(link_.wake());
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(wish_of(seen[0]).fits, 1372u);
  EXPECT_EQ(link_.explain(), "waiting for workers to join: 0, 1, 2");
  welcome(milliseconds(5000), {3, 16, 1372, 4});
  EXPECT_TRUE(link_.is_open());
}

TEST_F(LinkJoiningTest, ALargerOneThatComesLateIsTaken) {
  be_proven();
  size_passes(milliseconds(1), 1232);
  for (int i = 0; i < 6; ++i) send(link_.wake());
  size_passes(link_.wake() - Time{1}, 1472);
  EXPECT_EQ(wish_of(send(link_.wake()).at(0)).fits, 1472u);
}

TEST_F(LinkJoiningTest, AsLargeAsTheJobsFramesIsLargeEnough) {
  be_proven();
  size_passes(Time{0}, 1372, 1300);
  EXPECT_EQ(wish_of(send(Time{0}).at(0)).fits, 1372u) << "others have no more than 1300";
}

TEST_F(LinkJoiningTest, WelcomesOfOtherSizesThanItMayHaveProveNothing) {
  be_proven();
  size_passes(Time{0}, 92);
  size_passes(Time{0}, 576);
  size_passes(Time{0}, 1103);
  size_passes(Time{0}, 1473);
  EXPECT_NE(link_.explain().find("do not pass both ways"), std::string::npos) << link_.explain();
  for (int i = 0; i < 10; ++i) EXPECT_EQ(sizes(link_.wake()).size(), 4u);
}

// --- waiting for others ---

TEST_F(LinkJoiningTest, IsOpenWhenTheWelcomeHasAnEpoch) {
  find_size(Time{0});
  welcome(Time{0}, {3, 64, 1472, 2}, How{.epoch = 0, .workers = 0b010, .size = 576});
  EXPECT_FALSE(link_.is_open());
  EXPECT_EQ(link_.explain(), "waiting for workers to join: 0, 2");
  welcome(Time{0}, {3, 16, 1372, 4});
  EXPECT_TRUE(link_.is_open() && link_.was_open());
  EXPECT_EQ(link_.frame_size(), 1372u);
  EXPECT_EQ(link_.counters().joins, 1u);
  EXPECT_EQ(link_.explain(), "");
  EXPECT_EQ(link_.wake(), milliseconds(200)) << "nothing but to watch";
}

// Made of joins of an earlier attempt, by an aggregator that is not there any more.
TEST_F(LinkJoiningTest, AWelcomeOfAnotherAttemptOrLifeIsIgnored) {
  const std::uint64_t ignored = link_.counters().ignored;
  find_size(Time{0});
  for (const std::uint64_t token :
       {token_ - 1, token_ + 1, wire::make_token(6, 1), std::uint64_t{0}}) {
    welcome(Time{0}, {3, 16, kFrameSize, 4}, How{.token = token});
    EXPECT_FALSE(link_.is_open());
  }
  EXPECT_EQ(link_.counters().ignored, ignored + 4);
  welcome(Time{0}, {3, 16, kFrameSize, 4});
  EXPECT_TRUE(link_.is_open());
}

TEST_F(LinkJoiningTest, ASizeOfAnotherAttemptIsIgnored) {
  be_proven();
  welcome(Time{0}, {3, 1, 9000, 2},
          How{.epoch = 0, .workers = 0, .size = 1472, .token = token_ - 1});
  EXPECT_EQ(sizes(link_.wake()).size(), 4u);
}

TEST_F(LinkJoiningTest, ARefusalOfAnotherAttemptIsIgnored) {
  send(Time{0});
  const std::uint64_t first = token_;
  prove(Time{0});
  send(Time{0});
  refuse(Time{0}, "late", first);
  refuse(Time{0}, "of another", wire::make_token(6, 1));
  EXPECT_EQ(link_.refusal(), "");
  refuse(Time{0}, "no room", token_);
  EXPECT_EQ(link_.refusal(), "no room");
  EXPECT_EQ(link_.wake(), kNever);
}

TEST_F(LinkJoiningTest, FramesTooSmallForEverybodysSizesAreNoWelcome) {
  find_size(Time{0});
  welcome(Time{0}, {3, 16, 1103, 4});
  EXPECT_FALSE(link_.is_open());
  welcome(Time{0}, {3, 16, 1104, 4});
  EXPECT_TRUE(link_.is_open());
}

// Slots or frames that nobody asked for: 4 GB of memory, or datagrams that do not get through.
TEST_F(LinkJoiningTest, AWelcomeBeyondWhatWasAskedForIsNotBelieved) {
  be_proven();
  welcome(Time{0}, {3, 16, 1232, 4});
  EXPECT_FALSE(link_.is_open()) << "has not said what fits";
  size_passes(Time{0}, 1452, 1452);
  send(Time{0});
  welcome(Time{0}, {3, 65, 1452, 4});
  EXPECT_FALSE(link_.is_open());
  welcome(Time{0}, {3, 64, 1453, 4});
  EXPECT_FALSE(link_.is_open());
  welcome(Time{0}, {2, 64, 1452, 4});
  EXPECT_FALSE(link_.is_open());
  welcome(Time{0}, {3, 64, 1452, 4});
  EXPECT_TRUE(link_.is_open());
}

TEST_F(LinkJoiningTest, TheTimeThatJoinsTakeIsARoundTrip) {
  open(4, 4, milliseconds(30));
  put_large(1);
  send(milliseconds(90));
  EXPECT_EQ(link_.wake(), milliseconds(90) + trip_of_joining(milliseconds(30)).timeout(0));
}

// Which of both was answered is not known.
TEST_F(LinkJoiningTest, JoinsThatWereSentTwiceMeasureNothing) {
  Time now{0};
  send(now);
  send(now = link_.wake());
  prove(now);
  send(now);
  send(now = link_.wake());
  size_passes(now, 1472);
  send(now);
  send(now = link_.wake());
  welcome(now, {3, 4, kFrameSize, 4});
  ASSERT_TRUE(link_.is_open());
  put_large(1);
  send(now);
  EXPECT_EQ(link_.wake(), now + RoundTrip().timeout(0));
}

}  // namespace
}  // namespace sluice::protocol
