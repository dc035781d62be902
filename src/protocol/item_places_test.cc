#include "protocol/item_places.h"

#include <gtest/gtest.h>

#include <array>
#include <optional>

namespace sluice::protocol {
namespace {

using std::chrono::milliseconds;

constexpr std::uint32_t kFirst = 10;  // place
constexpr std::uint32_t kChannels = 2;
constexpr std::uint32_t kEach = 4;
constexpr std::array<std::byte, 4> kBytes{};

// Two channels of four places.
class Places final : public ItemPlaces {
 public:
  Places() : ItemPlaces(kChannels, 1) {
    make_places(kFirst, kEach * kChannels, kEach, kBytes.size());
    kept().make_memory();
  }
  using ItemPlaces::begin_again;
  using ItemPlaces::contribution_of;
  using ItemPlaces::put_item;
};

class ItemPlacesTest : public ::testing::Test {
 protected:
  ItemPlacesTest() {
    trips_.make_places(kFirst + kEach * kChannels);
    trips_.open(64, 1);
  }
  void put(std::uint32_t channel, std::uint32_t piece, std::uint64_t order = 0) {
    places_.put_item({.what = {.op = Op::wrap_sum, .bits = 8, .count = 4},
                      .up = kBytes,
                      .only = 1,
                      .digest = 100 + piece,
                      .channel = channel,
                      .piece = piece,
                      .order = order});
  }
  // Begins and sends the channel's next item.
  std::optional<std::uint32_t> send(std::uint32_t channel) {
    const auto place = places_.begin(channel, trips_, Time{0});
    if (place) trips_.sent(*place, Time{0});
    return place;
  }
  static wire::Header about(std::uint32_t place, std::uint32_t use, std::uint64_t digest) {
    return {.kind = wire::Kind::result,
            .slot = static_cast<std::uint16_t>(place),
            .use = use,
            .digest = digest,
            .workers = 1};
  }
  Arrived answer(std::uint32_t place, std::uint32_t use, std::uint64_t digest) {
    const wire::Header header = about(place, use, digest);
    EXPECT_TRUE(places_.waits_for(header));
    return places_.take_result({.header = header, .payload = kBytes}, trips_, milliseconds(1));
  }

  Places places_;
  Trips trips_;
};

TEST_F(ItemPlacesTest, ItemsOfAChannelTakeItsPlacesInTurn) {
  for (std::uint32_t piece = 0; piece < 5; ++piece) put(1, piece);
  for (std::uint32_t i = 0; i < kEach; ++i) EXPECT_EQ(send(1), kFirst + kEach + i);
  EXPECT_EQ(places_.busy(), kEach);
  EXPECT_FALSE(places_.next_turn()) << "the place is not free";
  EXPECT_EQ(answer(kFirst + kEach, 1, 100).piece, 0u);
  ASSERT_TRUE(places_.next_turn());
  EXPECT_EQ(send(1), kFirst + kEach);
  EXPECT_EQ(places_.use_of(kFirst + kEach), 2u);
}

TEST_F(ItemPlacesTest, TheFirstInOrderHasItsTurnAndOfEqualsTheFirstChannel) {
  put(0, 0, 7);
  put(1, 1, 5);
  ASSERT_TRUE(places_.next_turn());
  EXPECT_EQ(places_.next_turn()->channel, 1u);
  EXPECT_EQ(places_.next_turn()->order, 5u);
  send(1);
  put(1, 2, 7);
  EXPECT_EQ(places_.next_turn()->channel, 0u);
}

TEST_F(ItemPlacesTest, FramesNameTheChunkOfTheItem) {
  put(0, 0);
  const auto place = send(0);
  ASSERT_EQ(place, kFirst);
  const wire::Header up = places_.contribution_of(*place);
  EXPECT_TRUE(up.slot == kFirst && up.use == 1 && up.digest == 100 && up.workers == 1);
  const wire::Header question = places_.question_about(*place, milliseconds(3));
  EXPECT_EQ(question.kind, wire::Kind::ask);
  EXPECT_TRUE(question.slot == kFirst && question.use == 1 && question.digest == 100);
  EXPECT_EQ(question.stamp, stamp_of(milliseconds(3)));
}

TEST_F(ItemPlacesTest, OnlyTheItemThatHasThePlaceIsWaitedFor) {
  put(0, 0);
  send(0);
  EXPECT_TRUE(places_.waits_for(about(kFirst, 1, 100)));
  EXPECT_FALSE(places_.waits_for(about(kFirst, 2, 100)));
  EXPECT_FALSE(places_.waits_for(about(kFirst, 1, 101)));
  EXPECT_FALSE(places_.waits_for(about(kFirst + 1, 1, 100)));
  EXPECT_FALSE(places_.waits_for(about(kFirst - 1, 1, 100)));
  EXPECT_FALSE(places_.waits_for(about(kFirst + kEach * kChannels, 1, 100)));
  answer(kFirst, 1, 100);
  EXPECT_FALSE(places_.waits_for(about(kFirst, 1, 100)));
  EXPECT_EQ(places_.busy(), 0u);
}

TEST_F(ItemPlacesTest, ThreeLaterItemsOvertakeOne) {
  for (std::uint32_t piece = 0; piece < 4; ++piece) put(0, piece);
  for (std::uint32_t i = 0; i < kEach; ++i) send(0);
  for (std::uint32_t piece = 1; piece < 4; ++piece) {
    EXPECT_EQ(trips_.first_to_ask(), Trips::kNone);
    answer(kFirst + piece, 1, 100 + piece);
    places_.find_overtaken_by(kFirst + piece, trips_);
  }
  EXPECT_EQ(trips_.first_to_ask(), kFirst);
  EXPECT_TRUE(trips_.at(kFirst).is_overtaken);
}

TEST_F(ItemPlacesTest, TheLastItemsHaveFewBehindThem) {
  put(0, 0);
  put(0, 1);
  send(0);
  EXPECT_FALSE(places_.is_one_of_the_last(kFirst));
  send(0);
  EXPECT_TRUE(places_.is_one_of_the_last(kFirst));
}

TEST_F(ItemPlacesTest, TheOldestOfAChannelSpeaksForAll) {
  put(0, 0);
  put(0, 1);
  put(1, 2);
  send(0);
  send(0);
  send(1);
  EXPECT_TRUE(places_.is_among_oldest(kFirst, trips_));
  EXPECT_FALSE(places_.is_among_oldest(kFirst + 1, trips_));
  EXPECT_TRUE(places_.is_among_oldest(kFirst + kEach, trips_)) << "of its own channel";
  answer(kFirst, 1, 100);
  EXPECT_TRUE(places_.is_among_oldest(kFirst + 1, trips_));
}

TEST_F(ItemPlacesTest, DroppedItemsLeaveTheCountOfUses) {
  put(0, 0);
  put(0, 1);
  send(0);
  places_.drop_items();
  trips_.drop();
  EXPECT_EQ(places_.busy(), 0u);
  EXPECT_FALSE(places_.next_turn());
  put(0, 2);
  EXPECT_EQ(send(0), kFirst + 1) << "behind the one that was begun";
  EXPECT_EQ(places_.use_of(kFirst + 1), 1u);
}

TEST_F(ItemPlacesTest, WhatIsNotAnsweredGoesAgainToAnAggregatorThatForgotAndResultsGoBack) {
  put(0, 0);
  put(0, 1);
  send(0);
  send(0);
  answer(kFirst, 1, 100);
  trips_.drop();
  places_.begin_again(trips_);
  EXPECT_EQ(trips_.first_to_send_again(), kFirst + 1);
  EXPECT_EQ(places_.to_restore(), 1u);
  places_.take_restored(about(kFirst, 1, 0));
  EXPECT_EQ(places_.to_restore(), 0u);
}

}  // namespace
}  // namespace sluice::protocol
