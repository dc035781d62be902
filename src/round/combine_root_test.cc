// Trees of combine_leaf and combine_root, and partial results from somebody hostile.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/bytes.h"
#include "round/block_sum.h"
#include "round/combine.h"

namespace sluice {
namespace {

using Bytes = std::vector<std::byte>;

const std::vector<std::uint16_t>& bent_table() {
  static const std::vector<std::uint16_t> table{0, 1, 3, 9, 27, 81, 243, 729};
  return table;
}

std::vector<Reduction> every_reduction() {
  std::vector<Reduction> all;
  for (const std::uint32_t count : {1u, 8u, 75u, 2500u, 4500u}) {
    for (const Down down : {Down::full, Down::narrow, Down::round}) {
      Reduction what{.op = Op::lane_sum, .bits = 3, .down = down, .count = count, .grain = 24};
      all.push_back(what);
      what.table = bent_table();
      all.push_back(what);
    }
    all.push_back({.op = Op::lane_sum, .bits = 8, .count = count});
    for (const int bits : {24, 40, 48, 56}) {
      const auto width = static_cast<std::uint8_t>(bits);
      all.push_back({.op = Op::wrap_sum, .bits = width, .count = count, .grain = 24});
    }
    for (const int bits : {8, 16, 32, 64}) {
      const auto width = static_cast<std::uint8_t>(bits);
      all.push_back({.op = Op::wrap_sum, .bits = width, .count = count, .grain = 24});
      all.push_back({.op = Op::block_sum, .bits = width, .count = count, .grain = 24});
    }
    for (const int bits : {1, 5, 8, 32}) {
      const auto width = static_cast<std::uint8_t>(bits);
      all.push_back({.op = Op::max, .bits = width, .count = count, .grain = 24});
    }
    all.push_back({.op = Op::gather, .bits = 8, .count = count});
    all.push_back({.op = Op::f32_sum, .bits = 32, .count = count, .grain = 24});
    all.push_back({.op = Op::bf16_sum, .bits = 16, .count = count, .grain = 24});
    all.push_back({.op = Op::f16_sum, .bits = 16, .count = count, .grain = 24});
  }
  return all;
}

std::string label(const Reduction& what) {
  return std::string(name_of(what.op)) + "{" + std::to_string(what.bits) + "} " +
         std::string(name_of(what.down)) + " of " + std::to_string(what.count);
}

// Some blocks, from all zeros to none.
Bytes random_blocks(const Reduction& what, std::mt19937& random) {
  Bytes list(up_size(what));
  Bytes integers(std::size_t{what.grain} * what.bits / 8);
  std::uint32_t count = 0;
  std::size_t used = kBlockListHeader;
  for (std::uint32_t number = 0; number < block_count(what); ++number) {
    if (random() % 2 == 0) continue;
    const auto zeros = random() % 5;
    for (std::byte& byte : integers) {
      byte = static_cast<std::byte>(random() % 4 < zeros ? 0 : random());
    }
    used += write_block(what, number, integers, std::span(list).subspan(used));
    ++count;
  }
  store_le(std::span(list), 0, count);
  list.resize(used);
  return list;
}

// A valid contribution: random lanes, a message of random length, or random blocks.
Bytes random_up(const Reduction& what, std::mt19937& random) {
  if (what.op == Op::block_sum) return random_blocks(what, random);
  Bytes up(what.op == Op::gather ? random() % (what.count + 1) : up_size(what));
  for (std::byte& byte : up) byte = static_cast<std::byte>(random());
  return up;
}

struct Contributors {
  std::vector<Bytes> ups;
  std::vector<Contribution> contributions;  // ranks ascending, not all of n
};

Contributors some_workers(const Reduction& what, std::uint32_t n, std::mt19937& random) {
  Contributors workers;
  for (std::uint32_t rank = 0; rank < n; ++rank) workers.ups.push_back(random_up(what, random));
  for (std::uint32_t rank = 0; rank < n; ++rank) {
    if (rank == n / 2 || random() % 4 != 0) {
      workers.contributions.push_back({rank, workers.ups[rank]});
    }
  }
  return workers;
}

Bytes leaf_of(const Reduction& what, std::uint32_t n, std::uint32_t first, std::uint32_t count,
              const std::vector<Contribution>& members) {
  AlignedBuffer scratch(scratch_size(what));
  Bytes partial(partial_size_max(what, n, count));
  partial.resize(combine_leaf(what, n, first, count, members, scratch.bytes(), partial));
  return partial;
}

Result<Bytes> root_of(const Reduction& what, std::uint32_t n, std::uint32_t m, std::uint32_t count,
                      const std::vector<Bytes>& partials) {
  AlignedBuffer scratch(scratch_size(what));
  const std::vector<std::span<const std::byte>> views(partials.begin(), partials.end());
  Bytes down(down_size_max(what, n));
  SLUICE_TRY_ASSIGN(const std::size_t used,
                    combine_root(what, n, m, count, views, scratch.bytes(), down));
  down.resize(used);
  return down;
}

Bytes flat_of(const Reduction& what, std::uint32_t n, std::uint32_t first, std::uint32_t count,
              const std::vector<Contribution>& contributions) {
  AlignedBuffer scratch(scratch_size(what));
  Bytes down(down_size_max(what, n));
  down.resize(combine(what, n, first, count, contributions, scratch.bytes(), down));
  return down;
}

// Deals the contributions to leaves at random; each leaf keeps its ranks ascending.
std::vector<std::vector<Contribution>> grouping(const std::vector<Contribution>& all,
                                                std::size_t leaves, std::mt19937& random) {
  std::vector<std::vector<Contribution>> groups(leaves);
  for (const Contribution& one : all) groups[random() % leaves].push_back(one);
  std::erase_if(groups, [](const auto& group) { return group.empty(); });
  std::shuffle(groups.begin(), groups.end(), random);
  return groups;
}

TEST(CombineTree, AnyGroupingGivesTheBytesOfTheFlatReduction) {
  std::mt19937 random(1);
  for (const Reduction& what : every_reduction()) {
    for (const std::uint32_t n : {1u, 2u, 7u, 20u}) {
      ASSERT_TRUE(check(what, n).has_value()) << label(what);
      const Contributors workers = some_workers(what, n, random);
      const auto m = static_cast<std::uint32_t>(workers.contributions.size());
      const Bytes flat = flat_of(what, n, 0, what.count, workers.contributions);
      for (const std::size_t leaves : {1u, 2u, 5u}) {
        std::vector<Bytes> partials;
        for (const auto& group : grouping(workers.contributions, leaves, random)) {
          partials.push_back(leaf_of(what, n, 0, what.count, group));
        }
        const auto tree = root_of(what, n, m, what.count, partials);
        ASSERT_TRUE(tree.has_value()) << label(what) << ": " << tree.error().what;
        ASSERT_EQ(*tree, flat) << label(what) << ", " << n << " workers, " << leaves << " leaves";
      }
    }
  }
}

TEST(CombineTree, PartsGoThroughATreeOneByOne) {
  std::mt19937 random(2);
  for (const Reduction& what : every_reduction()) {
    if (what.count != 75 || is_list(what.op) || what.grain == 0) continue;
    const Contributors workers = some_workers(what, 9, random);
    const auto m = static_cast<std::uint32_t>(workers.contributions.size());
    const Bytes flat = flat_of(what, 9, 24, 51, workers.contributions);
    std::vector<Bytes> partials;
    for (const auto& group : grouping(workers.contributions, 3, random)) {
      partials.push_back(leaf_of(what, 9, 24, 51, group));
    }
    const auto tree = root_of(what, 9, m, 51, partials);
    ASSERT_TRUE(tree.has_value()) << label(what) << ": " << tree.error().what;
    EXPECT_EQ(*tree, flat) << label(what);
  }
}

// ---- Hostile partials.

constexpr std::uint32_t kWorkers = 5;

void expect_malformed(const Reduction& what, std::uint32_t m, const std::vector<Bytes>& partials,
                      const std::string& why) {
  const auto got = root_of(what, kWorkers, m, what.count, partials);
  ASSERT_FALSE(got.has_value()) << label(what) << ": " << why;
  EXPECT_EQ(got.error().code, Code::malformed) << label(what) << ": " << why;
}

std::vector<Bytes> good_partials(const Reduction& what, std::mt19937& random) {
  std::vector<Contribution> low;
  std::vector<Contribution> high;
  std::vector<Bytes> ups;
  for (std::uint32_t rank = 0; rank < kWorkers; ++rank) ups.push_back(random_up(what, random));
  for (std::uint32_t rank = 0; rank < kWorkers; ++rank) {
    (rank < 2 ? low : high).push_back({rank, ups[rank]});
  }
  return {leaf_of(what, kWorkers, 0, what.count, low),
          leaf_of(what, kWorkers, 0, what.count, high)};
}

TEST(CombineRoot, EveryTruncationOfAPartialIsMalformed) {
  std::mt19937 random(3);
  for (const Reduction& what : every_reduction()) {
    if (what.count > 100) continue;
    const auto partials = good_partials(what, random);
    ASSERT_TRUE(root_of(what, kWorkers, kWorkers, what.count, partials).has_value());
    for (std::size_t size = 0; size < partials[1].size(); ++size) {
      // Whole messages may be missing from a list without a trace inside it; the number of
      // contributors tells.
      auto cut = partials;
      cut[1].resize(size);
      expect_malformed(what, kWorkers, cut, "cut to " + std::to_string(size));
    }
  }
}

// Whoever sends a partial may leave anything behind its lanes; answers are the same bytes anyway.
TEST(CombineRoot, UnusedBitsOfAnyPartialOfMaximaAreCleared) {
  for (const std::uint8_t bits : {std::uint8_t{1}, std::uint8_t{5}, std::uint8_t{12}}) {
    for (const std::uint32_t count : {1u, 3u, 75u}) {
      const Reduction what{.op = Op::max, .bits = bits, .count = count};
      const std::size_t used = std::size_t{count} * bits % 8;
      if (used == 0) continue;
      std::mt19937 random(bits * 100u + count);
      Bytes clean = random_up(what, random);
      clean.back() &= static_cast<std::byte>((1u << used) - 1);
      Bytes dirty = clean;
      dirty.back() |= static_cast<std::byte>(0xffu << used);
      const Bytes zeros(clean.size());
      EXPECT_EQ(*root_of(what, 4, 1, count, {dirty}), clean) << label(what);
      EXPECT_EQ(*root_of(what, 4, 2, count, {dirty, zeros}), clean) << label(what);
      EXPECT_EQ(*root_of(what, 4, 2, count, {zeros, dirty}), clean) << label(what);
    }
  }
}

TEST(CombineRoot, BytesTooManyAreMalformed) {
  std::mt19937 random(4);
  for (const Reduction& what : every_reduction()) {
    if (what.count > 100) continue;
    for (const std::size_t more : {1u, 4u, 100u}) {
      auto longer = good_partials(what, random);
      longer[0].resize(longer[0].size() + more);
      expect_malformed(what, kWorkers, longer, std::to_string(more) + " bytes more");
    }
  }
}

TEST(CombineRoot, LaneSumsBeyondTheContributorsAreMalformed) {
  const Reduction what{.op = Op::lane_sum, .bits = 4, .count = 40};
  // Five workers: 7 bits; two contributors reach 30.
  const auto all_lanes = [](unsigned value) {
    Bytes bytes(35);
    for (std::size_t bit = 0; bit < 280; ++bit) {
      if ((value >> (bit % 7) & 1) != 0) bytes[bit / 8] |= static_cast<std::byte>(1u << (bit % 8));
    }
    return bytes;
  };
  EXPECT_TRUE(root_of(what, kWorkers, 2, 40, {all_lanes(15), all_lanes(15)}).has_value());
  expect_malformed(what, 2, {all_lanes(16), all_lanes(15)}, "31 of 30");
  expect_malformed(what, 2, {all_lanes(127)}, "127 of 30");
}

Bytes entry(std::uint32_t rank, std::uint32_t stated, std::size_t size) {
  Bytes bytes(8 + size);
  store_le(std::span(bytes), 0, rank);
  store_le(std::span(bytes), 4, stated);
  return bytes;
}

Bytes joined(const std::vector<Bytes>& pieces) {
  Bytes all;
  for (const Bytes& piece : pieces) all.insert(all.end(), piece.begin(), piece.end());
  return all;
}

TEST(CombineRoot, RanksThatRepeatDescendOrDoNotExistAreMalformed) {
  for (const Reduction& what : {Reduction{.op = Op::f32_sum, .bits = 32, .count = 2},
                                Reduction{.op = Op::gather, .bits = 8, .count = 8}}) {
    const auto of = [](std::uint32_t rank) { return entry(rank, 8, 8); };
    EXPECT_TRUE(root_of(what, kWorkers, 2, what.count, {of(4), of(1)}).has_value());
    expect_malformed(what, 2, {joined({of(1), of(1)})}, "repeats in a list");
    expect_malformed(what, 2, {of(1), of(1)}, "repeats across lists");
    expect_malformed(what, 2, {joined({of(3), of(2)})}, "descends");
    expect_malformed(what, 3, {joined({of(3), of(2)}), of(4)}, "descends behind another");
    for (const std::uint32_t rank : {5u, 6u, 4096u, 0x7fffffffu, 0xffffffffu}) {
      expect_malformed(what, 1, {of(rank)}, "no such worker");
      expect_malformed(what, 2, {joined({of(0), of(rank)})}, "no such worker");
    }
  }
}

TEST(CombineRoot, MessageSizesThatLieAreMalformed) {
  const Reduction floats{.op = Op::bf16_sum, .bits = 16, .count = 4};
  const Reduction gather{.op = Op::gather, .bits = 8, .count = 8};
  EXPECT_TRUE(root_of(gather, kWorkers, 1, 8, {entry(0, 3, 3)}).has_value());
  expect_malformed(floats, 1, {entry(0, 6, 6)}, "too few values");
  expect_malformed(floats, 1, {entry(0, 0, 0)}, "no values");
  for (const Reduction& what : {floats, gather}) {
    expect_malformed(what, 1, {entry(0, 10, 10)}, "too many");
    expect_malformed(what, 1, {entry(0, 8, 7)}, "stated more than there is");
    expect_malformed(what, 1, {entry(0, 0xffffffff, 8)}, "stated far more");
    expect_malformed(what, 1, {entry(0, 0xfffffff8, 8)}, "stated so much that it wraps");
    expect_malformed(what, 1, {joined({entry(0, 8, 8), Bytes(7)})}, "header cut off");
  }
}

TEST(CombineRoot, FloatSumsOfNobodyAreMalformed) {
  const Reduction what{.op = Op::f16_sum, .bits = 16, .count = 4};
  expect_malformed(what, 1, {{}}, "an empty list");
  expect_malformed(what, 1, {{}, {}}, "two empty lists");
}

TEST(CombineRoot, ListsOfFewerOrMoreWorkersThanStatedAreMalformed) {
  for (const Reduction& what : {Reduction{.op = Op::f32_sum, .bits = 32, .count = 2},
                                Reduction{.op = Op::gather, .bits = 8, .count = 8}}) {
    const std::vector<Bytes> three{joined({entry(0, 8, 8), entry(2, 8, 8)}), entry(4, 8, 8)};
    EXPECT_TRUE(root_of(what, kWorkers, 3, what.count, three).has_value());
    expect_malformed(what, 2, three, "one more than stated");
    expect_malformed(what, 4, three, "one fewer than stated");
  }
}

TEST(CombineRoot, BlocksOutOfOrderOrRangeAreMalformed) {
  const Reduction what{.op = Op::block_sum, .bits = 8, .count = 20, .grain = 8};
  const auto list = [](const std::vector<std::uint32_t>& numbers) {
    Bytes bytes(4 + 13 * numbers.size());
    store_le(std::span(bytes), 0, static_cast<std::uint32_t>(numbers.size()));
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      store_le(std::span(bytes), 4 + 13 * i, numbers[i]);
    }
    return bytes;
  };
  EXPECT_TRUE(root_of(what, kWorkers, 2, 20, {list({0, 2}), list({})}).has_value());
  expect_malformed(what, 2, {list({2, 0})}, "descends");
  expect_malformed(what, 2, {list({2, 2})}, "repeats");
  expect_malformed(what, 2, {list({3})}, "out of range");
  expect_malformed(what, 2, {list({0xffffffff})}, "out of range");
  expect_malformed(what, 2, {list({0}), list({0, 1, 2, 2})}, "long");
  expect_malformed(what, 2, {list({0}), {}}, "no list");
}

TEST(CombineRoot, FlippedBytesNeverDoWorseThanMalformed) {
  std::mt19937 random(5);
  for (const Reduction& what : every_reduction()) {
    if (what.count > 100) continue;
    for (int trial = 0; trial < 40; ++trial) {
      auto partials = good_partials(what, random);
      Bytes& victim = partials[random() % 2];
      if (victim.empty()) continue;
      victim[random() % victim.size()] ^= static_cast<std::byte>(1u << (random() % 8));
      const auto got = root_of(what, kWorkers, kWorkers, what.count, partials);
      EXPECT_TRUE(got || got.error().code == Code::malformed) << label(what);
    }
  }
}

}  // namespace
}  // namespace sluice
