// Answers from somebody hostile: malformed, and nothing of the caller's is written.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "codec/blocks/blocks.h"
#include "round/block_sum.h"
#include "tests/support/exchange_by_hand.h"

namespace sluice::blocks {
namespace {

using support::Bytes;
using support::expect_malformed;
using support::Floats;

std::unique_ptr<Codec> codec_of_32() {
  OptionValues options;
  options.values[0] = 32;
  return *make(options);
}

constexpr float kMine = 1;
constexpr float kKept = 0.5f;
constexpr std::byte kExponent{127};  // of 1.5

// A worker of two that has asked for the exponents of 100 coordinates, blocks of 32; of these it
// has the first and the last.
class Alone : public support::LoneWorker {
 public:
  Alone() : LoneWorker(codec_of_32(), 2, own(), Floats(100, kKept)) {}
  static Floats own() {
    Floats values(100, kMine);
    std::fill(values.begin() + 32, values.begin() + 96, -kKept);
    return values;
  }
  // Agreed: the first, third and last block are somebody's.
  void agree() {
    const Part all{0, 4, both_.view()};
    ASSERT_TRUE(answer({kExponent, std::byte{0}, kExponent, kExponent}, {&all, 1}).has_value());
  }
  Result<Leg> sums(const Bytes& list) {
    const Part lanes{0, 96, both_.view()};
    return answer(list, {&lanes, 1});
  }
  [[nodiscard]] Workers both() const { return both_.view(); }

 private:
  WorkerSet both_ = WorkerSet::all(2);
};

constexpr Reduction kSum{.op = Op::block_sum, .bits = 32, .count = 96, .grain = 32};

Bytes list_of(const std::vector<std::uint32_t>& numbers) {
  Bytes list(kBlockListHeader + numbers.size() * block_size_max(kSum));
  store_le(std::span(list), 0, static_cast<std::uint32_t>(numbers.size()));
  std::size_t used = kBlockListHeader;
  for (const std::uint32_t number : numbers) {
    Bytes integers(128, std::byte{0});
    for (std::uint32_t i = 0; i < 128; i += 1 + number * 8) integers[i] = std::byte{1};
    used += write_block(kSum, number, integers, std::span(list).subspan(used));
  }
  list.resize(used);
  return list;
}

TEST(BlocksHostile, AnAgreedExponentBelowMyOwnIsMalformed) {
  WorkerSet other(2);
  other.insert(1);
  for (int agreed = 0; agreed <= 255; ++agreed) {
    const Bytes down{kExponent, std::byte{0}, std::byte{0}, static_cast<std::byte>(agreed)};
    Alone mine;
    const Part with_me{0, 4, mine.both()};
    const Result<Leg> leg = mine.answer(down, {&with_me, 1});
    EXPECT_EQ(leg.has_value(), agreed >= 127) << agreed;
    EXPECT_TRUE(leg || leg.error().code == Code::malformed);
    mine.expect_untouched();
    Alone left_out;
    const Part without_me{0, 4, other.view()};
    EXPECT_TRUE(left_out.answer(down, {&without_me, 1}).has_value());
  }
}

TEST(BlocksHostile, WrongSizesPartsAndNumbersOfAnswersAreMalformed) {
  const WorkerSet both = WorkerSet::all(2);
  const Part right{0, 4, both.view()};
  const Part split{0, 3, both.view()};
  expect_malformed(Alone().answer(Bytes(3, kExponent), {&right, 1}), "short");
  expect_malformed(Alone().answer(Bytes(5, kExponent), {&right, 1}), "long");
  expect_malformed(Alone().answer(Bytes(4, kExponent), {&split, 1}), "lanes left out");
  expect_malformed(Alone().answer(Bytes(4, kExponent), {}), "no parts");
  Alone odd;
  ASSERT_TRUE(odd.answer({kExponent, std::byte{255}, std::byte{0}, kExponent}, {&right, 1}));
  const Part lanes{0, 64, both.view()};
  expect_malformed(odd.answer(list_of({0, 1}), {&lanes, 1}), "two answers are due");
  odd.expect_untouched();
}

TEST(BlocksHostile, TheSumMustHaveExactlyTheAnnouncedBlocks) {
  Alone good;
  good.agree();
  EXPECT_TRUE(good.sums(list_of({0, 1, 2})).has_value());
  const std::vector<std::vector<std::uint32_t>> bad{
      {}, {0}, {2}, {0, 1}, {0, 2}, {1, 2}, {0, 1, 2, 3}, {0, 1, 3}, {0, 2, 1}, {0, 0, 1}};
  for (std::size_t i = 0; i < bad.size(); ++i) {
    Alone alone;
    alone.agree();
    expect_malformed(alone.sums(list_of(bad[i])), "case " + std::to_string(i));
    alone.expect_untouched();
  }
}

TEST(BlocksHostile, EveryTruncationOfTheSumIsMalformed) {
  const Bytes list = list_of({0, 1, 2});
  for (std::size_t size = 0; size < list.size(); ++size) {
    Alone alone;
    alone.agree();
    expect_malformed(
        alone.sums(Bytes(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(size))),
        std::to_string(size));
    alone.expect_untouched();
  }
  Alone longer;
  longer.agree();
  Bytes more = list;
  more.push_back(std::byte{0});
  expect_malformed(longer.sums(more), "one byte more");
}

TEST(BlocksHostile, AnyFlippedByteIsMalformedOrDecodesAndNeverEntersTheResidual) {
  std::mt19937 random(9);
  const Bytes list = list_of({0, 1, 2});
  for (int trial = 0; trial < 1000; ++trial) {
    Alone alone;
    alone.agree();
    Bytes bytes = list;
    for (auto flips = random() % 3 + 1; flips > 0; --flips) {
      bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    }
    const auto leg = alone.sums(bytes);
    if (!leg) {
      ASSERT_EQ(leg.error().code, Code::malformed);
      alone.expect_untouched();
      continue;
    }
    for (const float rest : alone.worker.residual) ASSERT_LE(std::fabs(rest), 1e-8f);
  }
}

}  // namespace
}  // namespace sluice::blocks
