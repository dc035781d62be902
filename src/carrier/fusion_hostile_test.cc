// What comes from other ranks is hostile: disagreement is named, bad bytes are refused with their
// rank, nothing crashes and nothing is written beyond Round::down.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "carrier/fusion.h"

namespace sluice {
namespace {

using Bytes = std::vector<std::byte>;

constexpr std::uint32_t kWorkers = 3;
constexpr std::size_t kHeader = 64;
constexpr std::size_t kClaims = 56;  // of it; then comes what the sender has ready
constexpr std::byte kCanary{0xa5};
constexpr std::size_t kCanaries = 32;

// Small rounds of every kind of form: fixed, with headers, narrowed, lists.
const std::vector<Reduction> kStep{
    {.op = Op::gather, .bits = 8, .count = 20},
    {.op = Op::block_sum, .bits = 8, .count = 40, .grain = 8},
    {.op = Op::lane_sum, .bits = 4, .down = Down::narrow, .count = 48, .grain = 8},
    {.op = Op::lane_sum, .bits = 2, .down = Down::round, .extra = 0, .count = 32, .grain = 8},
    {.op = Op::max, .bits = 3, .count = 27},
    {.op = Op::f32_sum, .bits = 32, .count = 9},
};

// Three workers, packed and, as far as nobody tampers, answered.
class Hostile : public ::testing::Test {
 protected:
  Hostile() {
    std::mt19937 random(3);
    for (std::uint32_t rank = 0; rank < kWorkers; ++rank) {
      for (const Reduction& what : kStep) {
        Bytes up(up_size(what));
        if (what.op == Op::block_sum) {
          up.resize(kBlockListHeader + 2 * block_size_max(what));
          store_le(std::span(up), 0, std::uint32_t{2});
          store_le(std::span(up), kBlockListHeader, std::uint32_t{1});
          store_le(std::span(up), kBlockListHeader + block_size_max(what), rank + 2);
        } else {
          for (std::byte& byte : up) byte = static_cast<std::byte>(random());
        }
        if (what.op == Op::gather) up.resize(5 + rank);
        ups_.push_back(std::make_unique<Bytes>(std::move(up)));
        downs_.push_back(
            std::make_unique<Bytes>(down_size_max(what, kWorkers) + kCanaries, kCanary));
        rounds_[rank].push_back({what,
                                 *ups_.back(),
                                 std::span(*downs_.back()).first(downs_.back()->size() - kCanaries),
                                 {}});
      }
    }
    for (std::uint32_t rank = 0; rank < kWorkers; ++rank) begin(rank);
    for (std::uint32_t source = 0; source < kWorkers; ++source) {
      Bytes sent(4096);
      fusions_[source]->pack(sent);
      std::size_t at = 0;
      for (std::uint32_t target = 0; target < kWorkers; ++target) {
        const std::uint64_t size = fusions_[source]->send_sizes()[target];
        messages_[target].emplace_back(sent.begin() + static_cast<std::ptrdiff_t>(at),
                                       sent.begin() + static_cast<std::ptrdiff_t>(at + size));
        at += size;
      }
    }
  }

  void begin(std::uint32_t rank, std::uint64_t digest = 6) {
    fusions_[rank] = std::make_unique<Fusion>(rank, kWorkers);
    ASSERT_TRUE(fusions_[rank]->post({5, digest}, {}, rounds_[rank]));
    ASSERT_TRUE(fusions_[rank]->seal());
  }
  Status combine(std::uint32_t rank) {
    Bytes received;
    std::vector<std::uint64_t> sizes;
    for (const Bytes& message : messages_[rank]) {
      received.insert(received.end(), message.begin(), message.end());
      sizes.push_back(message.size());
    }
    received.shrink_to_fit();
    return fusions_[rank]->combine(received, sizes);
  }
  void answer_all() {
    for (std::uint32_t rank = 0; rank < kWorkers; ++rank) {
      ASSERT_TRUE(combine(rank));
      const auto answer = fusions_[rank]->answer();
      answers_.emplace_back(answer.begin(), answer.end());
    }
  }
  Status spread(std::uint32_t rank) {
    const std::vector<std::span<const std::byte>> all(answers_.begin(), answers_.end());
    return fusions_[rank]->spread(all);
  }
  void begin_and_combine(std::uint32_t rank) {
    begin(rank);
    ASSERT_TRUE(combine(rank));
  }
  void expect_canaries() {
    for (const auto& down : downs_) {
      EXPECT_EQ(std::count(down->end() - kCanaries, down->end(), kCanary), kCanaries);
    }
  }

  std::vector<std::unique_ptr<Bytes>> ups_;
  std::vector<std::unique_ptr<Bytes>> downs_;
  std::array<std::vector<Round>, kWorkers> rounds_;
  std::array<std::unique_ptr<Fusion>, kWorkers> fusions_;
  std::array<std::vector<Bytes>, kWorkers> messages_;  // by target and source
  std::vector<Bytes> answers_;
};

TEST_F(Hostile, GoodBytesAreAccepted) {
  answer_all();
  for (std::uint32_t rank = 0; rank < kWorkers; ++rank) {
    ASSERT_TRUE(spread(rank));
    const auto answers = fusions_[rank]->take({5, 6});
    ASSERT_TRUE(answers.has_value());
    for (std::size_t i = 0; i < kStep.size(); ++i) {
      EXPECT_TRUE(check_answer(rounds_[rank][i], (*answers)[i], kWorkers));
    }
  }
  expect_canaries();
}

TEST_F(Hostile, EveryTruncationOfAMessageIsRefusedWithItsRank) {
  for (std::uint32_t target = 0; target < kWorkers; ++target) {
    for (std::uint32_t source = 0; source < kWorkers; ++source) {
      const Bytes good = messages_[target][source];
      for (std::size_t length = 0; length < good.size(); ++length) {
        messages_[target][source] = Bytes(good.begin(), good.begin() + static_cast<long>(length));
        begin(target);
        const Status combined = combine(target);
        ASSERT_FALSE(combined.has_value()) << length;
        EXPECT_EQ(combined.error().code, Code::malformed);
        EXPECT_EQ(combined.error().detail, static_cast<std::int32_t>(source));
        EXPECT_EQ(fusions_[target]->take({5, 6}).error(), combined.error());
        EXPECT_NE(fusions_[target]->explain({5, 6}).find("rank " + std::to_string(source)),
                  std::string::npos);
      }
      messages_[target][source] = good;
      messages_[target][source].push_back(std::byte{0});
      begin(target);
      EXPECT_EQ(combine(target).error().code, Code::malformed);
      messages_[target][source] = good;
    }
  }
}

TEST_F(Hostile, EveryFlippedByteOfAMessageIsRefusedOrReduced) {
  std::size_t refused = 0;
  for (std::uint32_t target = 0; target < kWorkers; ++target) {
    const Bytes good = messages_[target][1];
    for (std::size_t at = 0; at < good.size(); ++at) {
      for (const unsigned mask : {0x01u, 0x80u, 0xffu}) {
        messages_[target][1][at] ^= static_cast<std::byte>(mask);
        begin(target);
        const Status combined = combine(target);
        messages_[target][1] = good;
        if (combined) {
          EXPECT_GE(at, kClaims);  // which let nothing through
          continue;
        }
        ++refused;
        EXPECT_EQ(combined.error().detail, 1);
        const bool claims = at < 16 || (at >= 24 && at < kClaims);
        EXPECT_EQ(combined.error().code, claims ? Code::mismatch : Code::malformed);
      }
    }
  }
  EXPECT_GT(refused, 3u * 3 * 16);
}

TEST_F(Hostile, MessagesOfTheWrongNumberAreRefused) {
  const std::vector<std::span<const std::byte>> two(2);
  EXPECT_EQ(fusions_[0]->combine(two).error().code, Code::invalid_argument);
  const std::array<std::uint64_t, 2> sizes{};
  EXPECT_EQ(fusions_[1]->combine({}, sizes).error().code, Code::invalid_argument);
  const std::array<std::uint64_t, 3> huge{kHeader, ~std::uint64_t{0}, kHeader};
  const Bytes bytes(1000);
  begin(1);
  const Status combined = fusions_[1]->combine(bytes, huge);
  EXPECT_EQ(combined.error().code, Code::malformed);
  EXPECT_EQ(combined.error().detail, 1);
}

TEST_F(Hostile, RanksThatDisagreeAreNamedOnEverySide) {
  begin(2, 99);
  Bytes sent(4096);
  fusions_[2]->pack(sent);
  for (std::uint32_t target = 0; target < kWorkers; ++target) {
    std::copy_n(sent.begin(), kHeader, messages_[target][2].begin());
  }
  for (std::uint32_t rank = 0; rank < kWorkers; ++rank) {
    const Status combined = combine(rank);
    ASSERT_FALSE(combined.has_value());
    EXPECT_EQ(combined.error().code, Code::mismatch);
    EXPECT_EQ(combined.error().detail, rank == 2 ? 0 : 2);
    const std::string cause = fusions_[rank]->explain({5, 6});
    EXPECT_NE(cause.find(rank == 2 ? "2 of 3 ranks (0, 1)" : "1 of 3 ranks (2)"), std::string::npos)
        << cause;
    EXPECT_NE(cause.find("than rank " + std::to_string(rank)), std::string::npos) << cause;
    EXPECT_NE(cause.find("exchanges 5 to 5"), std::string::npos) << cause;
  }
}

// Ranks that differ in any fact of the leg differ in the digest.
TEST_F(Hostile, EveryFactOfAStepIsInTheDigest) {
  const auto digest_of = [](const Ticket& ticket, std::span<const Round> rounds, int legs) {
    Fusion one(0, kWorkers);
    Bytes sent(8192);
    for (int i = 0; i < legs; ++i) {
      EXPECT_TRUE(one.post(ticket, {}, rounds));
      EXPECT_TRUE(one.seal());
      one.pack(sent);
      const std::vector<std::span<const std::byte>> none(kWorkers);
      EXPECT_FALSE(one.combine(none));
      EXPECT_FALSE(one.take(ticket));
    }
    return load_le<std::uint64_t>(sent);
  };
  std::vector<Round> rounds = rounds_[0];
  std::vector<std::uint64_t> digests{digest_of({5, 6}, rounds, 1)};
  digests.push_back(digest_of({4, 6}, rounds, 1));
  digests.push_back(digest_of({5, 7}, rounds, 1));
  digests.push_back(digest_of({5, 6}, rounds, 2));
  digests.push_back(digest_of({5, 6}, std::span(rounds).first(5), 1));
  const WorkerSet all = WorkerSet::all(kWorkers);
  rounds[4].only = all.view();
  digests.push_back(digest_of({5, 6}, rounds, 1));
  rounds[4] = rounds_[0][4];
  rounds[4].what.grain = 8;
  digests.push_back(digest_of({5, 6}, rounds, 1));
  std::sort(digests.begin(), digests.end());
  EXPECT_EQ(std::unique(digests.begin(), digests.end()), digests.end());
  EXPECT_EQ(digest_of({5, 6}, rounds_[0], 1), digest_of({5, 6}, rounds_[1], 1));
}

TEST_F(Hostile, EveryTruncationOfAnAnswerIsRefusedWithItsRank) {
  answer_all();
  for (std::uint32_t source = 0; source < kWorkers; ++source) {
    const Bytes good = answers_[source];
    for (std::size_t length = 0; length <= good.size() + 1; ++length) {
      if (length == good.size()) continue;
      answers_[source] = good;
      answers_[source].resize(length);
      answers_[source].shrink_to_fit();
      begin_and_combine(0);
      const Status done = spread(0);
      ASSERT_FALSE(done.has_value()) << length;
      EXPECT_EQ(done.error().code, Code::malformed);
      EXPECT_EQ(done.error().detail, static_cast<std::int32_t>(source));
      EXPECT_EQ(fusions_[0]->take({5, 6}).error(), done.error());
    }
    answers_[source] = good;
  }
  expect_canaries();
}

TEST_F(Hostile, EveryFlippedByteOfAnAnswerIsRefusedOrStaysInBounds) {
  answer_all();
  for (std::uint32_t source = 0; source < kWorkers; ++source) {
    const Bytes good = answers_[source];
    for (std::size_t at = 0; at < good.size(); ++at) {
      for (const unsigned mask : {0x01u, 0x80u, 0xffu}) {
        answers_[source][at] ^= static_cast<std::byte>(mask);
        begin_and_combine(1);
        const Status done = spread(1);
        answers_[source] = good;
        const auto answers = fusions_[1]->take({5, 6});
        EXPECT_EQ(answers.has_value(), done.has_value());
        if (!done) {
          EXPECT_EQ(done.error().code, Code::malformed);
          EXPECT_EQ(done.error().detail, static_cast<std::int32_t>(source));
          continue;
        }
        for (std::size_t i = 0; i < kStep.size(); ++i) {
          EXPECT_TRUE(check_answer(rounds_[1][i], (*answers)[i], kWorkers));
        }
      }
    }
  }
  expect_canaries();
}

TEST_F(Hostile, GatheredBytesThatAreCutOffAreRefused) {
  answer_all();
  std::uint64_t stride = 0;
  std::vector<std::uint64_t> sizes;
  for (const Bytes& answer : answers_) {
    stride = std::max<std::uint64_t>(stride, answer.size());
    sizes.push_back(answer.size());
  }
  Bytes gathered(stride * kWorkers);
  for (std::size_t rank = 0; rank < kWorkers; ++rank) {
    std::copy(answers_[rank].begin(), answers_[rank].end(),
              gathered.begin() + static_cast<std::ptrdiff_t>(rank * stride));
  }
  const std::size_t needed = 2 * stride + sizes[2];
  EXPECT_TRUE(fusions_[0]->spread(std::span(gathered).first(needed), stride, sizes));
  for (const std::size_t length : {needed - 1, 2 * stride, stride, std::size_t{0}}) {
    begin_and_combine(0);
    const Status done = fusions_[0]->spread(std::span(gathered).first(length), stride, sizes);
    ASSERT_FALSE(done.has_value());
    EXPECT_EQ(done.error().code, Code::malformed);
  }
  for (const std::uint64_t bad : {stride + 1, ~std::uint64_t{0}}) {
    begin_and_combine(0);
    const std::array<std::uint64_t, 3> wrong{sizes[0], bad, sizes[2]};
    EXPECT_EQ(fusions_[0]->spread(gathered, stride, wrong).error().detail, 1);
  }
  begin_and_combine(0);
  EXPECT_EQ(fusions_[0]->spread(gathered, stride, std::span(sizes).first(2)).error().code,
            Code::invalid_argument);
}

TEST_F(Hostile, AnAllReduceOfTheWrongSizeIsRefused) {
  const Reduction what{.op = Op::max, .bits = 8, .count = 8};
  Bytes up(8);
  Bytes down(8);
  const Round round{what, up, down, {}};
  for (const std::size_t count : {0u, 22u, 24u}) {
    Fusion one(0, 1);
    ASSERT_TRUE(one.post({0, 0}, {}, {&round, 1}));
    ASSERT_TRUE(one.seal());
    ASSERT_EQ(one.native_count(), 23u);
    const std::vector<std::int32_t> lanes(count);
    EXPECT_EQ(one.spread_native(lanes).error().code, Code::invalid_argument);
  }
}

}  // namespace
}  // namespace sluice
