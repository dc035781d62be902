#include "kernels/lanes/lanes.h"

#include "kernels/lanes/lanes_oracle_test.h"

namespace sluice::lanes {
namespace {

template <class Lane>
class LanesOf : public ::testing::Test {
 protected:
  static constexpr unsigned kWidth = std::numeric_limits<Lane>::digits;
};

TYPED_TEST_SUITE(LanesOf, LaneTypes);

TYPED_TEST(LanesOf, PackingWritesTheOraclesBytesAtEveryWidthCountAndLevel) {
  using Lane = TypeParam;
  for_every_case(32, [](unsigned bits, std::size_t count, std::size_t offset) {
    const std::vector<Lane> values = random_lanes<Lane>(count, bits + 101 * count);
    const Input<Lane> lanes(values, offset);
    const std::vector<std::byte> expected = oracle_pack(std::span<const Lane>(values), bits);
    Output<std::byte> packed(expected.size(), (offset + 3) % 4);
    pack(lanes.values(), bits, packed.values());
    EXPECT_EQ(packed.copy(), expected);
    EXPECT_TRUE(packed.margins_are_untouched());
  });
}

TYPED_TEST(LanesOf, UnpackingReadsTheOraclesLanesWhateverTheUnusedBitsAre) {
  using Lane = TypeParam;
  for_every_case(TestFixture::kWidth, [](unsigned bits, std::size_t count, std::size_t offset) {
    const std::vector<std::byte> bytes = random_packed((count * bits + 7) / 8, bits + 17 * count);
    std::vector<Lane> expected(count);
    for (std::size_t i = 0; i < count; ++i) {
      expected[i] = static_cast<Lane>(oracle_lane(bytes, i, bits));
    }
    const Input<std::byte> packed(bytes, offset);
    Output<Lane> lanes(count, (offset + 2) % 4);
    unpack(packed.values(), bits, lanes.values());
    EXPECT_EQ(lanes.copy(), expected);
    EXPECT_TRUE(lanes.margins_are_untouched());
  });
}

TYPED_TEST(LanesOf, PackingCutsOffUpperBitsAndKeepsNeighboursClean) {
  using Lane = TypeParam;
  for_every_case(TestFixture::kWidth, [](unsigned bits, std::size_t count, std::size_t offset) {
    // Every second lane has all its bits set, the others none.
    std::vector<Lane> values(count);
    for (std::size_t i = 0; i < count; i += 2) values[i] = std::numeric_limits<Lane>::max();
    const Input<Lane> lanes(values, offset);
    std::vector<std::byte> packed((count * bits + 7) / 8);
    pack(lanes.values(), bits, packed);
    std::size_t set = 0;
    for (std::size_t bit = 0; bit < 8 * packed.size(); ++bit) set += bit_of(packed, bit) ? 1 : 0;
    EXPECT_EQ(set, (count + 1) / 2 * bits);
    for (std::size_t i = 0; i < count; ++i) {
      EXPECT_EQ(oracle_lane(packed, i, bits), i % 2 == 0 ? (std::uint64_t{1} << bits) - 1 : 0);
    }
  });
}

TYPED_TEST(LanesOf, SpansLargerThanNeededAreLeftAloneBehindTheLanes) {
  using Lane = TypeParam;
  for_every_case(TestFixture::kWidth, [](unsigned bits, std::size_t count, std::size_t offset) {
    const std::vector<Lane> values = random_lanes<Lane>(count, bits + count);
    const std::vector<std::byte> expected = oracle_pack(std::span<const Lane>(values), bits);
    std::vector<std::byte> larger(expected.size() + 100, kCanary);
    pack(Input<Lane>(values, offset).values(), bits, larger);
    const auto end = larger.begin() + static_cast<std::ptrdiff_t>(expected.size());
    EXPECT_TRUE(std::equal(larger.begin(), end, expected.begin(), expected.end()));
    EXPECT_EQ(std::count(end, larger.end(), kCanary), 100);
    std::vector<Lane> back(count);
    unpack(larger, bits, std::span(back));
    EXPECT_TRUE(std::ranges::equal(
        back, values, [&](Lane a, Lane b) { return a == (b & ((std::uint64_t{1} << bits) - 1)); }));
  });
}

TYPED_TEST(LanesOf, ASingleBitOfALaneBecomesThatBitOfTheBytesAndBack) {
  using Lane = TypeParam;
  constexpr std::size_t kCount = 131;
  for (const Level level : available_levels()) {
    const ScopedLevel scope(level);
    for (unsigned bits = 1; bits <= TestFixture::kWidth; ++bits) {
      std::vector<Lane> lanes(kCount);
      std::vector<Lane> back(kCount);
      std::vector<std::byte> packed(bytes_for_bits(kCount * bits));
      std::vector<std::byte> expected(packed.size());
      for (std::size_t bit = 0; bit < kCount * bits; ++bit) {
        lanes[bit / bits] = static_cast<Lane>(std::uint64_t{1} << (bit % bits));
        expected[bit / 8] = static_cast<std::byte>(1u << (bit % 8));
        pack(std::span<const Lane>(lanes), bits, packed);
        unpack(expected, bits, std::span(back));
        ASSERT_EQ(packed, expected) << name_of(level) << ", " << bits << " bits, bit " << bit;
        ASSERT_EQ(back, lanes) << name_of(level) << ", " << bits << " bits, bit " << bit;
        lanes[bit / bits] = 0;
        expected[bit / 8] = std::byte{0};
      }
    }
  }
}

TYPED_TEST(LanesOf, EveryValueOfANarrowLaneSurvivesAtEveryPosition) {
  using Lane = TypeParam;
  constexpr std::size_t kCount = 256 + 64;
  for (const Level level : available_levels()) {
    const ScopedLevel scope(level);
    for (unsigned bits = 1; bits <= 8; ++bits) {
      for (std::size_t first = 0; first < 64; ++first) {
        std::vector<Lane> lanes(kCount);
        for (std::size_t i = 0; i < kCount; ++i) {
          lanes[i] = static_cast<Lane>((first + i) % (std::size_t{1} << bits));
        }
        std::vector<std::byte> packed(bytes_for_bits(kCount * bits));
        pack(std::span<const Lane>(lanes), bits, packed);
        std::vector<Lane> back(kCount);
        unpack(packed, bits, std::span(back));
        ASSERT_EQ(back, lanes) << name_of(level) << ", " << bits << " bits, from " << first;
      }
    }
  }
}

TYPED_TEST(LanesOf, GetAndPutAgreeWithPackAndUnpack) {
  using Lane = TypeParam;
  constexpr std::size_t kCount = 77;
  for (unsigned bits = 1; bits <= TestFixture::kWidth; ++bits) {
    const std::vector<Lane> lanes = random_lanes<Lane>(kCount, bits);
    std::vector<std::byte> one_by_one(bytes_for_bits(kCount * bits));
    for (std::size_t i = 0; i < kCount; ++i) put(one_by_one, i, bits, lanes[i]);
    std::vector<std::byte> packed(one_by_one.size());
    pack(std::span<const Lane>(lanes), bits, packed);
    EXPECT_EQ(packed, one_by_one) << bits << " bits";
    std::vector<Lane> back(kCount);
    unpack(packed, bits, std::span(back));
    for (std::size_t i = 0; i < kCount; ++i) EXPECT_EQ(get(packed, i, bits), back[i]);
  }
}

TYPED_TEST(LanesOf, EveryMisalignmentOfLanesAndBytesIsAllowed) {
  using Lane = TypeParam;
  constexpr std::size_t kCount = 203;
  for (const Level level : available_levels()) {
    const ScopedLevel scope(level);
    for (unsigned bits = 1; bits <= TestFixture::kWidth; ++bits) {
      const std::vector<Lane> values = random_lanes<Lane>(kCount, bits);
      const std::vector<std::byte> expected = oracle_pack(std::span<const Lane>(values), bits);
      for (std::size_t offset = 0; offset < 64; offset += 3) {
        Output<std::byte> packed(expected.size(), offset);
        pack(Input<Lane>(values, offset + 1).values(), bits, packed.values());
        ASSERT_EQ(packed.copy(), expected) << name_of(level) << ", " << bits << " bits";
        Output<Lane> lanes(kCount, offset);
        unpack(Input<std::byte>(expected, offset + 2).values(), bits, lanes.values());
        std::vector<std::byte> again(expected.size());
        pack(std::span<const Lane>(lanes.values()), bits, again);
        ASSERT_EQ(again, expected) << name_of(level) << ", " << bits << " bits";
        ASSERT_TRUE(packed.margins_are_untouched() && lanes.margins_are_untouched());
      }
    }
  }
}

TYPED_TEST(LanesOf, TilesOfAnyMultipleOf8LanesGiveTheBytesOfTheWhole) {
  using Lane = TypeParam;
  constexpr std::size_t kCount = 3005;
  const std::vector<Lane> lanes = random_lanes<Lane>(kCount, 5);
  for (const Level level : available_levels()) {
    const ScopedLevel scope(level);
    for (unsigned bits = 1; bits <= TestFixture::kWidth; ++bits) {
      std::vector<std::byte> whole(bytes_for_bits(kCount * bits));
      std::vector<std::byte> tiled(whole.size());
      pack(std::span<const Lane>(lanes), bits, whole);
      std::vector<Lane> back(kCount);
      for (std::size_t at = 0, tile = 8; at < kCount; at += tile, tile += 8) {
        const std::size_t count = std::min(tile, kCount - at);
        const std::size_t byte = at / 8 * bits;
        pack(std::span<const Lane>(lanes).subspan(at, count), bits, std::span(tiled).subspan(byte));
        unpack(std::span(whole).subspan(byte), bits, std::span(back).subspan(at, count));
      }
      EXPECT_EQ(tiled, whole) << name_of(level) << ", " << bits << " bits";
      std::ranges::fill(tiled, kCanary);
      pack(std::span<const Lane>(back), bits, tiled);
      EXPECT_EQ(tiled, whole) << name_of(level) << ", " << bits << " bits";
    }
  }
}

TYPED_TEST(LanesOf, LargeRunsAgreeWithTheSpecification) {
  using Lane = TypeParam;
  constexpr std::size_t kCount = 70'001;
  const std::vector<Lane> values = random_lanes<Lane>(kCount, 1);
  for (unsigned bits = 1; bits <= TestFixture::kWidth; ++bits) {
    std::vector<std::byte> expected(bytes_for_bits(kCount * bits));
    scalar::pack(std::span<const Lane>(values), bits, expected);
    for (const Level level : available_levels()) {
      const ScopedLevel scope(level);
      std::vector<std::byte> packed(expected.size());
      pack(std::span<const Lane>(values), bits, packed);
      EXPECT_EQ(packed, expected) << name_of(level) << ", " << bits << " bits";
      std::vector<Lane> back(kCount);
      unpack(packed, bits, std::span(back));
      packed.assign(packed.size(), kCanary);
      pack(std::span<const Lane>(back), bits, packed);
      EXPECT_EQ(packed, expected) << name_of(level) << ", " << bits << " bits";
    }
  }
}

TEST(Lanes, PackedBytesAreThoseOfTheWireFormat) {
  // Lanes 1, 2, 3 of 3 bits: 001, 010, 011 from the lowest bit, 0 011 010 001 = 0x0D1.
  const std::vector<std::uint8_t> three{1, 2, 3};
  // Lanes 0xABC, 0x123 of 12 bits, lowest first: BC 3A 12.
  const std::vector<std::uint16_t> twelve{0xABC, 0x123};
  const std::vector<std::uint32_t> seventeen{0x1FFFF, 0x00001};
  for (const Level level : available_levels()) {
    const ScopedLevel scope(level);
    std::vector<std::byte> packed(2);
    pack(std::span<const std::uint8_t>(three), 3, packed);
    EXPECT_EQ(packed, (std::vector{std::byte{0xD1}, std::byte{0x00}}));
    packed.resize(3);
    pack(std::span<const std::uint16_t>(twelve), 12, packed);
    EXPECT_EQ(packed, (std::vector{std::byte{0xBC}, std::byte{0x3A}, std::byte{0x12}}));
    packed.resize(5);
    pack(std::span<const std::uint32_t>(seventeen), 17, packed);
    EXPECT_EQ(packed, (std::vector{std::byte{0xFF}, std::byte{0xFF}, std::byte{0x03},
                                   std::byte{0x00}, std::byte{0x00}}));
  }
}

TEST(Lanes, GetReadsTheLaneThatTheOracleReads) {
  for (unsigned bits = 1; bits <= 32; ++bits) {
    const std::vector<std::byte> packed = random_packed((41 * bits + 7) / 8, bits);
    for (std::size_t lane = 0; lane < 41; ++lane) {
      ASSERT_EQ(get(packed, lane, bits), oracle_lane(packed, lane, bits)) << bits << " bits";
    }
  }
}

TEST(Lanes, PutChangesItsLaneAndNoOtherBit) {
  for (unsigned bits = 1; bits <= 32; ++bits) {
    for (std::size_t lane = 0; lane < 19; ++lane) {
      std::vector<std::byte> packed = random_packed((19 * bits + 7) / 8, bits);
      const std::vector<std::byte> before = packed;
      const auto value = static_cast<std::uint32_t>(mix(bits, lane));
      put(packed, lane, bits, value);
      const std::uint64_t cut = value & ((std::uint64_t{1} << bits) - 1);
      ASSERT_EQ(oracle_lane(packed, lane, bits), cut) << bits << " bits, lane " << lane;
      for (std::size_t bit = 0; bit < 8 * packed.size(); ++bit) {
        if (bit / bits == lane) continue;
        ASSERT_EQ(bit_of(packed, bit), bit_of(before, bit)) << bits << " bits, lane " << lane;
      }
    }
  }
}

TEST(Lanes, EmptyRunsNeedNoMemory) {
  for (const Level level : available_levels()) {
    const ScopedLevel scope(level);
    for (unsigned bits = 1; bits <= 32; ++bits) {
      pack(std::span<const std::uint32_t>(), bits, {});
      unpack({}, bits, std::span<std::uint32_t>());
    }
    for (unsigned bits = 1; bits <= 8; ++bits) add({}, bits, {}, std::span<std::uint8_t>());
  }
}

TEST(LanesDeathTest, SpansThatAreTooShortAndWidthsThatDoNotExistStopTheProgram) {
  std::vector<std::byte> packed(3);
  std::vector<std::uint8_t> lanes(5);
  const std::span<const std::uint8_t> values(lanes);
  EXPECT_DEATH(pack(values, 5, packed), "packed_size");
  EXPECT_DEATH(unpack(packed, 5, std::span(lanes)), "packed_size");
  EXPECT_DEATH(pack(values, 0, packed), "bits");
  EXPECT_DEATH(unpack(packed, 9, std::span(lanes).first(1)), "bits");
  EXPECT_DEATH(get(packed, 5, 5), "packed_size");
  EXPECT_DEATH(put(packed, 5, 5, 0), "packed_size");
}

}  // namespace
}  // namespace sluice::lanes
