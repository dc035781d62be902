#include "kernels/lanes/lanes.h"

#include "kernels/lanes/lanes_oracle_test.h"

namespace sluice::lanes {
namespace {

template <class Lane>
class SumsOf : public ::testing::Test {
 protected:
  static constexpr unsigned kWidth = std::numeric_limits<Lane>::digits;

  static void expect_sums(unsigned bits, std::size_t count, std::size_t offset,
                          std::span<const std::uint16_t> table) {
    const std::vector<Lane> before = random_lanes<Lane>(count, 7 * bits + count);
    const std::vector<std::byte> codes = random_packed((count * bits + 7) / 8, bits + 3 * count);
    std::vector<Lane> expected = before;
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint32_t code = oracle_lane(codes, i, bits);
      const std::uint64_t term = table.empty() ? code : table[code];
      expected[i] = static_cast<Lane>((std::uint64_t{before[i]} + term) % (1ull << kWidth));
    }
    const Input<std::byte> packed(codes, offset);
    Output<Lane> sums(std::span<const Lane>(before), (offset + 1) % 4);
    add(packed.values(), bits, table, sums.values());
    EXPECT_EQ(sums.copy(), expected);
    EXPECT_TRUE(sums.margins_are_untouched());
  }
};

TYPED_TEST_SUITE(SumsOf, LaneTypes);

TYPED_TEST(SumsOf, AddingCodesGivesTheOraclesSums) {
  for_every_case(8, [](unsigned bits, std::size_t count, std::size_t offset) {
    TestFixture::expect_sums(bits, count, offset, {});
  });
}

TYPED_TEST(SumsOf, AddingTableValuesGivesTheOraclesSums) {
  for_every_case(8, [](unsigned bits, std::size_t count, std::size_t offset) {
    std::vector<std::uint16_t> table = random_lanes<std::uint16_t>(std::size_t{1} << bits, bits);
    table.front() = 0;
    table.back() = 0xFFFF;
    const Input<std::uint16_t> exact(table, offset);
    TestFixture::expect_sums(bits, count, offset, exact.values());
  });
}

TYPED_TEST(SumsOf, ATableOfTheLargestValueSubtractsOneModuloTheWidthUpTo16Bits) {
  using Lane = TypeParam;
  const Lane sum_after = static_cast<Lane>(5 + 0xFFFF);
  for_every_case(8, [&](unsigned bits, std::size_t count, std::size_t offset) {
    const std::vector<std::uint16_t> table(std::size_t{1} << bits, 0xFFFF);
    const std::vector<std::byte> codes = random_packed((count * bits + 7) / 8, count);
    const std::vector<Lane> fives(count, Lane{5});
    Output<Lane> sums(std::span<const Lane>(fives), offset);
    add(codes, bits, table, sums.values());
    EXPECT_EQ(sums.copy(), std::vector<Lane>(count, sum_after));
  });
}

TYPED_TEST(SumsOf, SumsWrapAroundAtTheWidthOfTheLane) {
  using Lane = TypeParam;
  for_every_case(8, [](unsigned bits, std::size_t count, std::size_t offset) {
    const std::vector<std::byte> ones((count * bits + 7) / 8, std::byte{0xFF});
    const std::vector<Lane> full(count, std::numeric_limits<Lane>::max());
    Output<Lane> sums(std::span<const Lane>(full), offset);
    add(ones, bits, {}, sums.values());
    const Lane expected = static_cast<Lane>((1u << bits) - 2);
    EXPECT_EQ(sums.copy(), std::vector<Lane>(count, expected));
  });
}

TYPED_TEST(SumsOf, SixteenWorkersOf4BitsSumWithoutLoss) {
  using Lane = TypeParam;
  constexpr std::size_t kCount = 1000;
  for (const Level level : available_levels()) {
    const ScopedLevel scope(level);
    std::vector<Lane> sums(kCount);
    std::vector<std::uint32_t> expected(kCount);
    for (unsigned worker = 0; worker < 16; ++worker) {
      const std::vector<std::byte> codes = random_packed(kCount / 2, worker);
      for (std::size_t i = 0; i < kCount; ++i) expected[i] += oracle_lane(codes, i, 4);
      add(codes, 4, {}, std::span(sums));
    }
    EXPECT_TRUE(std::ranges::equal(sums, expected)) << name_of(level);
  }
}

TYPED_TEST(SumsOf, AnIdentityTableAddsTheCodesThemselves) {
  using Lane = TypeParam;
  for_every_case(8, [](unsigned bits, std::size_t count, std::size_t offset) {
    std::vector<std::uint16_t> identity(std::size_t{1} << bits);
    for (std::size_t code = 0; code < identity.size(); ++code) {
      identity[code] = static_cast<std::uint16_t>(code);
    }
    const std::vector<std::byte> codes = random_packed((count * bits + 7) / 8, bits * count);
    std::vector<Lane> by_code = random_lanes<Lane>(count, offset);
    std::vector<Lane> by_table = by_code;
    add(codes, bits, {}, std::span(by_code));
    add(codes, bits, identity, std::span(by_table));
    EXPECT_EQ(by_table, by_code);
  });
}

TYPED_TEST(SumsOf, EveryCodeMeetsItsOwnTableValueAtEveryPosition) {
  using Lane = TypeParam;
  for_every_case(8, [](unsigned bits, std::size_t count, std::size_t offset) {
    // Consecutive codes, so that over the counts every code passes every position of a vector.
    std::vector<std::uint8_t> codes(count);
    for (std::size_t i = 0; i < count; ++i) {
      codes[i] = static_cast<std::uint8_t>((i + offset) % (std::size_t{1} << bits));
    }
    std::vector<std::uint16_t> table(std::size_t{1} << bits);
    for (std::size_t code = 0; code < table.size(); ++code) {
      table[code] = static_cast<std::uint16_t>(0xFF00 - 257 * code);
    }
    std::vector<Lane> sums(count);
    add(oracle_pack(std::span<const std::uint8_t>(codes), bits), bits, table, std::span(sums));
    for (std::size_t i = 0; i < count; ++i) {
      EXPECT_EQ(sums[i], static_cast<Lane>(table[codes[i]])) << "lane " << i;
    }
  });
}

TYPED_TEST(SumsOf, CodesOfZeroLeaveEverySumAsItWas) {
  using Lane = TypeParam;
  for_every_case(8, [](unsigned bits, std::size_t count, std::size_t offset) {
    const std::vector<std::byte> zeros((count * bits + 7) / 8);
    const std::vector<Lane> before = random_lanes<Lane>(count, count);
    Output<Lane> sums(std::span<const Lane>(before), offset);
    add(zeros, bits, {}, sums.values());
    EXPECT_EQ(sums.copy(), before);
    EXPECT_TRUE(sums.margins_are_untouched());
  });
}

TYPED_TEST(SumsOf, TheOrderOfWorkersDoesNotMatter) {
  using Lane = TypeParam;
  constexpr std::size_t kCount = 333;
  constexpr std::size_t kWorkers = 40;  // Enough to wrap 8-bit sums around.
  for (const Level level : available_levels()) {
    const ScopedLevel scope(level);
    for (unsigned bits = 1; bits <= 8; ++bits) {
      std::vector<Lane> forwards(kCount);
      std::vector<Lane> backwards(kCount);
      for (std::size_t worker = 0; worker < kWorkers; ++worker) {
        const std::size_t size = bytes_for_bits(kCount * bits);
        add(random_packed(size, worker), bits, {}, std::span(forwards));
        add(random_packed(size, kWorkers - 1 - worker), bits, {}, std::span(backwards));
      }
      EXPECT_EQ(forwards, backwards) << name_of(level) << ", " << bits << " bits";
    }
  }
}

TYPED_TEST(SumsOf, TilesOfAnyMultipleOf8LanesGiveTheSumsOfTheWhole) {
  using Lane = TypeParam;
  constexpr std::size_t kCount = 5003;
  const std::vector<std::uint16_t> table = random_lanes<std::uint16_t>(256, 3);
  for (const Level level : available_levels()) {
    const ScopedLevel scope(level);
    for (unsigned bits = 1; bits <= 8; ++bits) {
      const std::vector<std::byte> codes = random_packed(bytes_for_bits(kCount * bits), bits);
      for (const bool with_table : {false, true}) {
        const std::span<const std::uint16_t> used =
            with_table ? std::span(table).first(std::size_t{1} << bits)
                       : std::span<const std::uint16_t>();
        std::vector<Lane> whole = random_lanes<Lane>(kCount, 1);
        std::vector<Lane> tiled = whole;
        add(codes, bits, used, std::span(whole));
        // Tiles of 8, 16, 24, … lanes.
        for (std::size_t at = 0, tile = 8; at < kCount; at += tile, tile += 8) {
          const std::size_t count = std::min(tile, kCount - at);
          add(std::span(codes).subspan(at / 8 * bits), bits, used,
              std::span(tiled).subspan(at, count));
        }
        EXPECT_EQ(tiled, whole) << name_of(level) << ", " << bits << " bits";
      }
    }
  }
}

TYPED_TEST(SumsOf, EveryMisalignmentOfCodesAndSumsIsAllowed) {
  for (const Level level : available_levels()) {
    const ScopedLevel scope(level);
    for (unsigned bits = 1; bits <= 8; ++bits) {
      for (std::size_t offset = 0; offset < 64; ++offset) {
        TestFixture::expect_sums(bits, 300, offset, {});
      }
    }
  }
}

TYPED_TEST(SumsOf, LargeRunsAgreeWithTheSpecification) {
  using Lane = TypeParam;
  constexpr std::size_t kCount = 70'003;
  const std::vector<std::uint16_t> table = random_lanes<std::uint16_t>(256, 2);
  const std::vector<Lane> before = random_lanes<Lane>(kCount, 4);
  for (unsigned bits = 1; bits <= 8; ++bits) {
    const std::vector<std::byte> codes = random_packed(bytes_for_bits(kCount * bits), bits);
    std::vector<Lane> expected = before;
    scalar::add(codes, bits, {}, std::span(expected));
    scalar::add(codes, bits, table, std::span(expected));
    for (const Level level : available_levels()) {
      const ScopedLevel scope(level);
      std::vector<Lane> sums = before;
      add(codes, bits, {}, std::span(sums));
      add(codes, bits, table, std::span(sums));
      EXPECT_EQ(sums, expected) << name_of(level) << ", " << bits << " bits";
    }
  }
}

TEST(Sums, FourBitCodesOfTwoWorkersAddLaneByLane) {
  const std::vector<std::byte> one{std::byte{0x21}, std::byte{0x0F}};
  const std::vector<std::byte> two{std::byte{0x43}, std::byte{0xF1}};
  for (const Level level : available_levels()) {
    const ScopedLevel scope(level);
    std::vector<std::uint8_t> sums(3);
    add(one, 4, {}, std::span(sums));
    add(two, 4, {}, std::span(sums));
    EXPECT_EQ(sums, (std::vector<std::uint8_t>{1 + 3, 2 + 4, 15 + 1})) << name_of(level);
  }
}

TEST(SumsDeathTest, ShortSpansShortTablesAndWideCodesStopTheProgram) {
  const std::vector<std::byte> packed(3);
  std::vector<std::uint8_t> sums(5);
  EXPECT_DEATH(add(packed, 5, {}, std::span(sums)), "packed_size");
  EXPECT_DEATH(add(packed, 9, {}, std::span(sums).first(1)), "bits");
  EXPECT_DEATH(add(packed, 0, {}, std::span(sums)), "bits");
  const std::vector<std::uint16_t> short_table(15);
  EXPECT_DEATH(add(packed, 4, short_table, std::span(sums)), "table");
}

}  // namespace
}  // namespace sluice::lanes
