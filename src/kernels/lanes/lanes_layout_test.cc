#include "kernels/lanes/lanes_layout.h"

#include <algorithm>

#include "kernels/lanes/lanes_oracle_test.h"

namespace sluice::lanes {
namespace {

constexpr std::size_t kWords = kTableBytes / 4;
using Vector = std::array<std::uint8_t, kTableBytes>;

// A byte shuffle within blocks, as the processors do it.
Vector shuffled(const Vector& bytes, const Shuffle& shuffle) {
  Vector result{};
  for (std::size_t at = 0; at < kTableBytes; ++at) {
    if (shuffle[at] == kNoByte) continue;
    result[at] = bytes[at - at % kBlockBytes + shuffle[at]];
  }
  return result;
}

template <class Word>
Word word_at(const Vector& bytes, std::size_t index) {
  Word word = 0;
  for (std::size_t i = 0; i < sizeof(Word); ++i) {
    const auto byte = static_cast<Word>(bytes[index * sizeof(Word) + i]);
    word = static_cast<Word>(word | static_cast<Word>(byte << (8 * i)));
  }
  return word;
}

// The packed bytes, block by block from their offsets.
Vector load_blocks(std::span<const std::byte> packed, unsigned bits) {
  Vector bytes{};
  for (std::size_t at = 0; at < kTableBytes; ++at) {
    const std::size_t from = block_offset(at / kBlockBytes, bits) + at % kBlockBytes;
    if (from < packed.size()) bytes[at] = std::to_integer<std::uint8_t>(packed[from]);
  }
  return bytes;
}

std::vector<std::byte> store_blocks(const Vector& bytes, unsigned bits) {
  std::vector<std::byte> packed(block_offset(3, bits) + kBlockBytes);
  for (std::size_t at = 0; at < kTableBytes; ++at) {
    const std::size_t into = block_offset(at / kBlockBytes, bits) + at % kBlockBytes;
    packed[into] = static_cast<std::byte>(bytes[at]);
  }
  packed.resize(kWords * bits / 8);
  return packed;
}

TEST(LanesLayout, EveryShuffleStaysInItsBlock) {
  const auto stays = [](const Shuffle& shuffle) {
    return std::ranges::all_of(shuffle,
                               [](std::uint8_t at) { return at < kBlockBytes || at == kNoByte; });
  };
  for (const SpreadTable& table : kSpreadTables) {
    EXPECT_TRUE(stays(table.first) && stays(table.second));
  }
  for (const SqueezeTable& table : kSqueezeTables) {
    EXPECT_TRUE(stays(table.low) && stays(table.high) && stays(table.shared));
  }
  for (const ByteTable& table : kByteTables) {
    EXPECT_TRUE(stays(table.spread) && stays(table.squeeze));
  }
}

TEST(LanesLayout, SpreadingBringsEveryWordToItsPlace) {
  for (unsigned bits = 1; bits <= 32; ++bits) {
    const std::vector<std::byte> packed = random_packed(kWords * bits / 8, bits);
    const SpreadTable& table = kSpreadTables[bits];
    const Vector blocks = load_blocks(packed, bits);
    const Vector first = shuffled(blocks, table.first);
    const Vector second = shuffled(blocks, table.second);
    for (std::size_t i = 0; i < kWords; ++i) {
      const std::uint32_t word = word_at<std::uint32_t>(first, i) >> table.shift[i] |
                                 word_at<std::uint32_t>(second, i) << (8 - table.shift[i]);
      const std::uint64_t mask = (std::uint64_t{1} << bits) - 1;
      EXPECT_EQ(word & mask, oracle_lane(packed, i, bits)) << bits << " bits, word " << i;
    }
  }
}

TEST(LanesLayout, SqueezingLeavesNoGapAndLosesNoBit) {
  for (unsigned bits = 1; bits <= 32; ++bits) {
    if (bits == kBitsWithoutSqueeze) continue;
    std::vector<std::uint32_t> words = random_lanes<std::uint32_t>(kWords, bits);
    for (std::uint32_t& word : words) {
      word = static_cast<std::uint32_t>(word & ((std::uint64_t{1} << bits) - 1));
    }
    const SqueezeTable& table = kSqueezeTables[bits];
    Vector pairs{};
    for (std::size_t pair = 0; pair < kWords / 2; ++pair) {
      const std::uint64_t merged = words[2 * pair] | std::uint64_t{words[2 * pair + 1]} << bits;
      ASSERT_EQ(merged << table.shift[pair] >> table.shift[pair], merged) << bits << " bits";
      for (std::size_t i = 0; i < 8; ++i) {
        pairs[8 * pair + i] = static_cast<std::uint8_t>(merged << table.shift[pair] >> (8 * i));
      }
    }
    const Vector low = shuffled(pairs, table.low);
    const Vector high = shuffled(pairs, table.high);
    Vector blocks{};
    for (std::size_t at = 0; at < kTableBytes; ++at) {
      blocks[at] = static_cast<std::uint8_t>(low[at] | high[at]);
    }
    const Vector shared = shuffled(blocks, table.shared);
    for (std::size_t at = 0; at < kTableBytes; ++at) {
      blocks[at] = static_cast<std::uint8_t>(blocks[at] | shared[at ^ kBlockBytes]);
    }
    EXPECT_EQ(store_blocks(blocks, bits), oracle_pack(std::span<const std::uint32_t>(words), bits))
        << bits << " bits";
  }
}

TEST(LanesLayout, SqueezingBytesUndoesSpreadingThem) {
  for (unsigned bits = 1; bits <= 8; ++bits) {
    const std::vector<std::byte> packed = random_packed(8 * bits, bits);
    const Vector words = shuffled(load_blocks(packed, 4 * bits), kByteTables[bits].spread);
    for (std::size_t word = 0; word < 8; ++word) {
      const std::uint64_t group = word_at<std::uint64_t>(words, word);
      EXPECT_TRUE(bits == 8 || group >> (8 * bits) == 0) << bits << " bits";
      EXPECT_EQ(group & 0xFF, std::to_integer<std::uint64_t>(packed[word * bits]));
    }
    const Vector back = shuffled(words, kByteTables[bits].squeeze);
    EXPECT_EQ(store_blocks(back, 4 * bits), packed) << bits << " bits";
  }
}

TEST(LanesLayout, OnlyPairsOf31BitsDoNotFitTheirShift) {
  for (unsigned bits = 1; bits <= 32; ++bits) {
    const auto& shifts = kSqueezeTables[bits].shift;
    const std::uint64_t largest = *std::ranges::max_element(shifts);
    EXPECT_EQ(2 * bits + largest > 64, bits == kBitsWithoutSqueeze) << bits << " bits";
  }
}

}  // namespace
}  // namespace sluice::lanes
