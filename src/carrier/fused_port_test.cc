// A carrier over collectives: what it does with what the network says.
#include "carrier/fused_port.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "device/bench.h"
#include "tests/support/hall.h"

namespace sluice {
namespace {

using Buffer = Collectives::Buffer;
using Call = Collectives::Call;
using Kind = Collectives::Kind;
using std::chrono::seconds;
using support::Hall;

// Between a port and its hall: may fail, and may change what has come.
class Between final : public Collectives {
 public:
  explicit Between(Collectives& inner) : inner_(inner) {}
  std::span<std::byte> reserve(Buffer buffer, std::size_t size) override {
    if (no_memory == buffer) return {};
    const auto bytes = inner_.reserve(buffer, size);
    rooms_[static_cast<std::size_t>(buffer)] = bytes;
    return bytes;
  }
  Status start(const Call& call) override {
    if (fails_to_start) return Error{Code::lost, 0, "start failed"};
    call_ = call;
    return inner_.start(call);
  }
  Result<bool> test() override {
    SLUICE_TRY_ASSIGN(const bool done, inner_.test());
    if (done && came) came(call_, rooms_[static_cast<std::size_t>(call_.to)]);
    return done;
  }
  Status wait(std::chrono::nanoseconds timeout) override {
    if (fails_to_wait) return Error{Code::lost, 0, "wait failed"};
    SLUICE_TRY(inner_.wait(timeout));
    if (came) came(call_, rooms_[static_cast<std::size_t>(call_.to)]);
    return ok();
  }

  std::function<void(const Call&, std::span<std::byte>)> came;
  std::optional<Buffer> no_memory;
  bool fails_to_start = false;
  bool fails_to_wait = false;

 private:
  Collectives& inner_;
  std::array<std::span<std::byte>, kBuffers> rooms_;
  Call call_;
};

class ToldReadiness final : public Readiness {
 public:
  std::uint64_t ready() override { return mine; }
  void heard(std::optional<std::uint64_t> least, bool bulk) override {
    all.emplace_back(least, bulk);
  }
  std::uint64_t mine = 0;
  std::vector<std::pair<std::optional<std::uint64_t>, bool>> all;
};

constexpr std::uint64_t kBucket = 40;  // of the exchange

// Two ranks that reduce one round each.
struct Two {
  explicit Two(const Reduction& reduced) : what(reduced), hall(2) {
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      between.push_back(std::make_unique<Between>(hall.of(rank)));
      told.push_back(std::make_unique<ToldReadiness>());
      ports.push_back(std::make_unique<FusedPort>(rank, 2, *between[rank], told[rank].get()));
      ups.emplace_back(up_size(what));
      downs.emplace_back(down_size_max(what, 2));
    }
  }
  Status post(std::size_t rank) {
    const Round round{what, ups[rank], downs[rank]};
    SLUICE_TRY(ports[rank]->post(ticket, {}, {&round, 1}));
    SLUICE_TRY(ports[rank]->flush());
    return ok();
  }
  // Both ranks, one after the other, until neither gets on; what each says.
  std::vector<Status> run() {
    std::vector<Status> said{post(0), post(1)};
    for (int times = 0; times < 8; ++times) {
      for (std::size_t rank = 0; rank < 2; ++rank) {
        if (!said[rank] || !ports[rank]->is_sending()) continue;
        const Result<bool> went = ports[rank]->flush();
        if (!went) said[rank] = went.error();
      }
    }
    return said;
  }

  Reduction what;
  Ticket ticket{1, 2, {.step = 3, .bucket = kBucket}};
  Hall hall;
  std::vector<std::unique_ptr<Between>> between;
  std::vector<std::unique_ptr<ToldReadiness>> told;
  std::vector<std::unique_ptr<FusedPort>> ports;
  std::vector<std::vector<std::byte>> ups;
  std::vector<std::vector<std::byte>> downs;
};

constexpr Reduction kBulk{.op = Op::wrap_sum, .bits = 64, .count = 20'000, .grain = 8};
constexpr Reduction kSmall{.op = Op::wrap_sum, .bits = 64, .count = 16, .grain = 8};
constexpr Reduction kMaxima{.op = Op::max, .bits = 16, .count = 60'000, .grain = 8};
constexpr Reduction kSums{.op = Op::wrap_sum, .bits = 32, .count = 60'000, .grain = 8};
constexpr Reduction kList{.op = Op::gather, .bits = 8, .count = 100'000};
constexpr Reduction kNarrow{
    .op = Op::lane_sum, .bits = 4, .down = Down::narrow, .count = 200'000, .grain = 256};

TEST(FusedPort, RunsAsFewCollectivesAsEachKindNeeds) {
  const std::pair<Reduction, std::uint64_t> cases[] = {
      {kBulk, 2}, {kSmall, 1}, {kMaxima, 1}, {kSums, 1}, {kNarrow, 3}};
  for (const auto& [what, collectives] : cases) {
    Two two(what);
    for (const Status& one : two.run()) EXPECT_TRUE(one.has_value());
    EXPECT_EQ(two.hall.met(), collectives) << static_cast<int>(what.op);
    for (const auto& port : two.ports) {
      const auto answers = port->take(two.ticket);
      ASSERT_TRUE(answers.has_value());
      EXPECT_EQ(answers->size(), 1u);
      EXPECT_EQ(port->traffic().collectives, collectives);
      EXPECT_GT(port->traffic().sent_bytes, 0u);
    }
    EXPECT_EQ(two.ports[0]->traffic().sent_bytes, two.ports[1]->traffic().received_bytes);
  }
}

TEST(FusedPort, TellsTheLeastOfWhatRanksHaveReady) {
  const std::tuple<Reduction, std::optional<std::uint64_t>, bool> cases[] = {
      {kBulk, 45, true}, {kSmall, 45, false}, {kMaxima, 45, true}, {kSums, std::nullopt, true}};
  for (const auto& [what, least, bulk] : cases) {
    Two two(what);
    two.told[0]->mine = 47;
    two.told[1]->mine = 45;
    for (const Status& one : two.run()) ASSERT_TRUE(one.has_value());
    for (const auto& told : two.told) {
      ASSERT_EQ(told->all.size(), two.hall.met()) << static_cast<int>(what.op);
      for (const auto& one : told->all) EXPECT_EQ(one, std::pair(least, bulk));
    }
  }
}

TEST(FusedPort, LessThanItsOwnBucketIsNothingReady) {
  Two two(kMaxima);
  two.told[0]->mine = 3;
  two.told[1]->mine = 45;
  for (const Status& one : two.run()) ASSERT_TRUE(one.has_value());
  EXPECT_EQ(two.told[1]->all[0].first, kBucket);
}

TEST(FusedPort, AnAnswerMayLieWhereItCame) {
  Two two(kSmall);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    for (std::uint64_t lane = 0; lane < kSmall.count; ++lane) {
      store_le(std::span(two.ups[rank]), 8 * lane, lane << rank);
    }
    const Round round{kSmall, two.ups[rank], two.downs[rank], {}, true};
    ASSERT_TRUE(two.ports[rank]->post(two.ticket, {}, {&round, 1}));
    ASSERT_TRUE(two.ports[rank]->flush());
  }
  for (std::size_t rank = 0; rank < 2; ++rank) {
    ASSERT_TRUE(two.ports[rank]->wait(seconds(60)));
    const auto answers = *two.ports[rank]->take(two.ticket);
    EXPECT_NE(answers[0].down.data(), two.downs[rank].data());
    for (std::uint64_t lane = 0; lane < kSmall.count; ++lane) {
      EXPECT_EQ(load_le<std::uint64_t>(answers[0].down, 8 * lane), 3 * lane);
    }
  }
}

// Each byte that comes from outside says something else on rank 1.
TEST(FusedPort, SizesThatCannotBeAreMalformedAndNameTheRank) {
  for (const Reduction& what : {kList, kNarrow}) {
    Two two(what);
    two.between[1]->came = [&](const Call& call, std::span<std::byte> bytes) {
      const bool sizes =
          call.kind == Kind::all_gather ? call.count == 8 : call.receive_sizes[0] == 8;
      if (sizes) store_le(bytes, 0, std::uint64_t{1} << 40);
    };
    const auto said = two.run();
    ASSERT_FALSE(said[1].has_value());
    EXPECT_EQ(said[1].error().code, Code::malformed);
    EXPECT_EQ(said[1].error().detail, 0);
    EXPECT_EQ(two.ports[1]->explain(two.ticket), "that is rank 0");
  }
}

TEST(FusedPort, DamagedBytesNeverPass) {
  for (const std::size_t at : {0u, 8u, 16u, 20u, 24u, 32u, 40u, 44u, 48u, 52u}) {
    Two two(kBulk);
    two.between[1]->came = [&](const Call& call, std::span<std::byte> bytes) {
      if (call.kind == Kind::all_to_all) bytes[at] ^= std::byte{1};
    };
    const auto said = two.run();
    ASSERT_FALSE(said[1].has_value()) << at;
    EXPECT_FALSE(two.ports[1]->explain(two.ticket).empty());
  }
}

TEST(FusedPort, WhatTheNetworkSaysIsPassedOn) {
  Two start(kBulk);
  start.between[0]->fails_to_start = true;
  EXPECT_STREQ(start.post(0).error().what, "start failed");
  Two wait(kBulk);
  ASSERT_TRUE(wait.post(0));
  wait.between[0]->fails_to_wait = true;
  EXPECT_STREQ(wait.ports[0]->wait(seconds(60)).error().what, "wait failed");
  for (const Buffer buffer : {Buffer::send, Buffer::received, Buffer::answer, Buffer::gathered}) {
    Two memory(kBulk);
    memory.between[0]->no_memory = buffer;
    const auto said = memory.run();
    ASSERT_FALSE(said[0].has_value());
    EXPECT_EQ(said[0].error().code, Code::out_of_memory);
  }
}

// Two ranks whose bytes lie on a device each.
struct TwoOnDevices {
  TwoOnDevices() {
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      benches.push_back(std::make_unique<device::Bench>(kHost, nullptr));
      ports.push_back(std::make_unique<FusedPort>(rank, 2, hall.of(rank)));
      ports[rank]->use_device(*benches[rank]);
      ups.emplace_back(up_size(what));
      downs.emplace_back(down_size_max(what, 2));
    }
  }
  void post(std::size_t rank, const Ticket& ticket) {
    const Round round{what, ups[rank], downs[rank]};
    ASSERT_TRUE(benches[rank]->begin());
    ASSERT_TRUE(ports[rank]->post(ticket, Place{benches[rank].get()}, {&round, 1}));
    ASSERT_TRUE(ports[rank]->flush());
  }

  static inline const device::Accelerator kHost{&device::emulated(), 0};
  Reduction what{.op = Op::f32_sum, .bits = 32, .count = 4000};
  Hall hall{2};
  std::vector<std::unique_ptr<device::Bench>> benches;
  std::vector<std::unique_ptr<FusedPort>> ports;
  std::vector<std::vector<std::byte>> ups;
  std::vector<std::vector<std::byte>> downs;
};

TEST(FusedPort, OnADeviceATimeOutSaysNothingOfTheLegBefore) {
  TwoOnDevices two;
  const Ticket first{1, 2, {.step = 3, .bucket = kBucket}};
  const Ticket second{2, 3, {.step = 4, .bucket = kBucket}};
  for (std::size_t rank = 0; rank < 2; ++rank) two.post(rank, first);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    ASSERT_TRUE(two.ports[rank]->flush()) << "to the answers";
  }
  for (std::size_t rank = 0; rank < 2; ++rank) {
    ASSERT_TRUE(two.ports[rank]->wait(seconds(60)));
    ASSERT_TRUE(two.ports[rank]->take(first));
    EXPECT_TRUE(two.benches[rank]->judge());
  }
  two.post(0, second);  // Rank 1 does not come.
  EXPECT_EQ(two.ports[0]->wait(std::chrono::milliseconds(1)).error().code, Code::timeout);
  EXPECT_EQ(two.ports[0]->explain(second), "");
}

TEST(FusedPort, OnADeviceRanksThatDisagreeAreNamed) {
  TwoOnDevices two;
  const Ticket mine{1, 2, {.step = 3, .bucket = kBucket}};
  const Ticket other{1, 5, {.step = 4, .bucket = kBucket}};
  two.post(0, mine);
  two.post(1, other);
  for (std::size_t rank = 0; rank < 2; ++rank) ASSERT_TRUE(two.ports[rank]->flush());
  EXPECT_EQ(two.benches[0]->judge().error().code, Code::mismatch);
  const std::string said = two.ports[0]->explain(mine);
  EXPECT_NE(said.find("1 of 2 ranks (1) reduce something else"), std::string::npos) << said;
}

TEST(FusedPort, WaitsNoLongerThanItMayAndForNothingNotAtAll) {
  Two two(kBulk);
  EXPECT_EQ(two.ports[0]->wait(seconds(60)).error().code, Code::invalid_argument);
  ASSERT_TRUE(two.post(0));
  EXPECT_EQ(two.ports[0]->wait(std::chrono::nanoseconds(1)).error().code, Code::timeout);
  two.ports[0]->abandon();
  EXPECT_FALSE(two.ports[0]->is_sending());
  const Round round{kBulk, two.ups[0], two.downs[0]};
  EXPECT_EQ(two.ports[0]->post(two.ticket, {}, {&round, 1}).error().code, Code::unavailable);
}

}  // namespace
}  // namespace sluice
