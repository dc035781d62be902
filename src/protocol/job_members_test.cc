#include "protocol/job_members.h"

#include <gtest/gtest.h>

#include <vector>

namespace sluice::protocol {
namespace {

constexpr std::uint64_t kJob = 0xABCD;
constexpr std::uint32_t kEpoch = 4;

Address at(std::uint32_t worker) { return {.low = worker, .port = 1000}; }

class JobMembersTest : public ::testing::Test, public Outbox {
 protected:
  struct Sent {
    std::vector<Address> to;
    wire::Header header;
    std::string text;  // the payload
  };

  void send(std::span<const Address> to, std::span<const std::byte, wire::kHeaderSize> header,
            std::span<const std::byte> payload) override {
    std::vector<std::byte> bytes(header.begin(), header.end());
    bytes.insert(bytes.end(), payload.begin(), payload.end());
    const auto frame = wire::parse(bytes);
    ASSERT_TRUE(frame) << frame.error().what;
    std::string text;
    for (const std::byte b : payload) text += static_cast<char>(b);
    sent_.push_back({{to.begin(), to.end()}, frame->header, text});
  }
  void begin() {
    for (std::uint32_t worker = 0; worker < 3; ++worker)
      members_.enter(worker, 50 + worker, at(worker));
    members_.begin(kEpoch);
  }

  Counters counters_;
  JobMembers members_{kJob, 3, counters_};
  std::vector<Sent> sent_;
};

TEST_F(JobMembersTest, AMemberIsKnownByItsAddressAndToken) {
  EXPECT_TRUE(members_.here() == 0 && members_.everyone() == 0b111);
  members_.enter(1, 51, at(1));
  EXPECT_EQ(members_.here(), 0b010u);
  EXPECT_TRUE(members_.is_here(1) && !members_.is_here(0) && !members_.is_here(3));
  EXPECT_TRUE(members_.is_at(1, at(1)) && !members_.is_at(1, at(2)) && !members_.is_at(2, at(2)));
  EXPECT_EQ(members_.token_of(1), 51u);
  members_.form_anew();
  EXPECT_FALSE(members_.is_at(1, at(1)));
}

TEST_F(JobMembersTest, WhatIsSaidNamesJobAndEpoch) {
  begin();
  members_.tell_wait({.worker = 2, .slot = 5, .use = 6, .digest = 7, .stamp = 8}, 0b011, *this);
  ASSERT_EQ(sent_.size(), 1u);
  EXPECT_EQ(sent_[0].to, std::vector{at(2)});
  const wire::Header& wait = sent_[0].header;
  EXPECT_EQ(wait.kind, wire::Kind::wait);
  EXPECT_TRUE(wait.job == kJob && wait.epoch == kEpoch && wait.worker == 2);
  EXPECT_TRUE(wait.slot == 5 && wait.use == 6 && wait.digest == 7 && wait.stamp == 8);
  EXPECT_EQ(wait.workers, 0b011u);
  EXPECT_EQ(counters_.waits, 1u);
}

TEST_F(JobMembersTest, ResultsGoToAllAndAgainToOne) {
  begin();
  const std::vector<std::byte> payload(4);
  const UseContent content{.is_complete = true,
                           .digest = 7,
                           .only = 0b111,
                           .what = {.op = Op::wrap_sum, .bits = 8, .count = 4},
                           .result_size = 4};
  members_.send_result(5, 6, content, payload, *this);
  members_.repeat_result(1, 5, 6, content, payload, 9, *this);
  ASSERT_EQ(sent_.size(), 2u);
  EXPECT_EQ(sent_[0].to, (std::vector{at(0), at(1), at(2)}));
  EXPECT_TRUE(sent_[0].header.flags == 0 && sent_[0].header.stamp == 0);
  EXPECT_EQ(sent_[1].to, std::vector{at(1)});
  EXPECT_TRUE(sent_[1].header.flags == wire::kRepeated && sent_[1].header.stamp == 9);
  EXPECT_EQ(counters_.results, 4u);
  EXPECT_EQ(counters_.down_bytes, 16u);
}

TEST_F(JobMembersTest, WhoWaitsForOneThatHasLeftIsTold) {
  begin();
  EXPECT_FALSE(members_.tell_left(0, 0b001, *this));
  members_.leave(2);
  EXPECT_EQ(members_.left(), 0b100u);
  EXPECT_FALSE(members_.tell_left(0, 0b101, *this)) << "its contribution is there";
  EXPECT_TRUE(sent_.empty());
  EXPECT_TRUE(members_.tell_left(0, 0b001, *this));
  ASSERT_EQ(sent_.size(), 1u);
  EXPECT_EQ(sent_[0].header.kind, wire::Kind::refused);
  EXPECT_EQ(sent_[0].header.digest, 50u) << "its token";
  EXPECT_NE(sent_[0].text.find("worker 2 has left the job"), std::string::npos);
  EXPECT_TRUE(members_.refusal().empty()) << "others may go on";
}

TEST_F(JobMembersTest, ARefusalOfAllGoesToThoseWhoAreHereAndStays) {
  members_.enter(0, 50, at(0));
  members_.enter(2, 52, at(2));
  members_.refuse_all("because", *this);
  ASSERT_EQ(sent_.size(), 2u);
  EXPECT_EQ(sent_[1].to, std::vector{at(2)});
  EXPECT_EQ(members_.refusal(), "because");
  EXPECT_EQ(counters_.refused, 2u);
}

TEST_F(JobMembersTest, AStrangerIsRefusedWithoutTheEpoch) {
  begin();
  members_.refuse_stranger(1, 99, at(7), "no", *this);
  ASSERT_EQ(sent_.size(), 1u);
  EXPECT_EQ(sent_[0].to, std::vector{at(7)});
  EXPECT_TRUE(sent_[0].header.epoch == 0 && sent_[0].header.digest == 99);
}

TEST_F(JobMembersTest, AMismatchNamesBothSidesAndEndsTheJob) {
  begin();
  const UseContent content{
      .digest = 7, .only = 0b111, .what = {.op = Op::wrap_sum, .bits = 8, .count = 4}};
  const wire::Frame frame{.header = {.worker = 2,
                                     .slot = 5,
                                     .use = 6,
                                     .digest = 8,
                                     .workers = 0b111,
                                     .what = {.op = Op::wrap_sum, .bits = 8, .count = 4}},
                          .payload = {}};
  EXPECT_FALSE(agrees(frame, content));
  members_.tell_mismatch(frame, content, 0b001, *this);
  EXPECT_EQ(sent_.size(), 3u);
  EXPECT_EQ(members_.refusal(),
            "worker 2 reduces something else than workers 0: slot 5, use 6: wrap_sum of 4 lanes "
            "with digest 0000000000000008, of workers 0, 1, 2; wrap_sum of 4 lanes with digest "
            "0000000000000007, of workers 0, 1, 2");
  EXPECT_EQ(counters_.mismatched, 1u);
}

}  // namespace
}  // namespace sluice::protocol
