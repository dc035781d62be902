#include "codec/lossless/elias_fano.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/random.h"
#include "tests/support/guarded.h"
#include "tests/support/guarded_bytes.h"

namespace sluice::lossless {
namespace {

using Bytes = std::vector<std::byte>;
using Marks = std::vector<std::uint64_t>;
using Positions = std::vector<std::uint32_t>;

Marks marks_of(const Positions& positions, std::uint32_t places) {
  Marks marks((places + 63) / 64);
  for (const std::uint32_t position : positions) {
    marks[position / 64] |= std::uint64_t{1} << (position % 64);
  }
  return marks;
}

Positions random_positions(std::uint32_t places, double density, std::uint64_t seed) {
  Positions positions;
  for (std::uint32_t i = 0; i < places; ++i) {
    if (static_cast<double>(mix(seed, i) >> 11) * 0x1p-53 < density) positions.push_back(i);
  }
  return positions;
}

// Room for as many bytes as are promised, of which nothing is zero before, with watched borders.
Bytes written(const Marks& marks, std::uint32_t count, std::uint32_t places) {
  support::Guarded room(elias_fano_size(count, places), places % 7);
  const std::size_t size = write_elias_fano(marks, places, room.bytes());
  EXPECT_LE(size, room.bytes().size());
  EXPECT_TRUE(room.intact());
  return {room.bytes().begin(), room.bytes().begin() + static_cast<std::ptrdiff_t>(size)};
}

Bytes written(const Positions& positions, std::uint32_t places) {
  return written(marks_of(positions, places), static_cast<std::uint32_t>(positions.size()), places);
}

struct Reading {
  Status status;
  Marks marks;
};

// The bytes end with their allocation; the marks have watched borders.
Reading read(const Bytes& bytes, std::uint32_t places) {
  const std::size_t words = (places + 63) / 64;
  support::GuardedMemory memory(words * sizeof(std::uint64_t),
                                support::GuardedMemory::Borders::canaries);
  const auto marks = memory.as<std::uint64_t>();
  std::ranges::fill(marks, 0u);
  Reading reading{read_elias_fano(bytes, places, marks), {marks.begin(), marks.end()}};
  EXPECT_TRUE(memory.intact());
  return reading;
}

void expect_round_trip(const Positions& positions, std::uint32_t places) {
  const Marks marks = marks_of(positions, places);
  const Reading reading = read(written(positions, places), places);
  EXPECT_TRUE(reading.status.has_value()) << reading.status.error().what;
  EXPECT_EQ(reading.marks, marks) << positions.size() << " positions of " << places;
}

// Malformed, or a list in range that is written just so. Gives whether it was taken.
bool expect_refused_or_canonical(const Bytes& bytes, std::uint32_t places) {
  const Reading reading = read(bytes, places);
  if (!reading.status) {
    EXPECT_EQ(reading.status.error().code, Code::malformed);
    return false;
  }
  const std::size_t count = bitmaps::count(reading.marks);
  EXPECT_LE(count, places);
  if (places % 64 != 0) {
    EXPECT_EQ(reading.marks.back() >> (places % 64), 0u) << "beyond the places";
  }
  EXPECT_EQ(written(reading.marks, static_cast<std::uint32_t>(count), places), bytes);
  return true;
}

constexpr std::uint32_t kPlaces[] = {1, 2, 3, 7, 8, 63, 64, 65, 100, 1000, 4097, 100'003};
constexpr double kDensities[] = {0.001, 0.01, 0.1, 0.3, 0.5, 0.6, 0.95, 1.0};

TEST(EliasFano, GivesBackWhatWasWritten) {
  for (const std::uint32_t places : kPlaces) {
    for (const double density : kDensities) {
      expect_round_trip(random_positions(places, density, places), places);
    }
    expect_round_trip({}, places);
    expect_round_trip({0}, places);
    expect_round_trip({places - 1}, places);
    if (places > 1) expect_round_trip({0, places - 1}, places);
    Positions last_half;  // and none before: the upper parts grow at once
    for (std::uint32_t i = places / 2; i < places; ++i) last_half.push_back(i);
    expect_round_trip(last_half, places);
  }
}

TEST(EliasFano, GoldenBytes) {
  // 2 lower bits each: 01 01 10 11; upper parts 0 1 1 3, so ones at 0, 1 + 1, 1 + 2 and 3 + 3.
  const Bytes golden{std::byte{4}, std::byte{0},    std::byte{0},
                     std::byte{0}, std::byte{0xe5}, std::byte{0x4d}};
  EXPECT_EQ(written({1, 5, 6, 15}, 16), golden);
  EXPECT_EQ(read(golden, 16).marks, marks_of({1, 5, 6, 15}, 16));
  EXPECT_TRUE(written(Positions{}, 16).empty()) << "nothing at all stands for no positions";
}

TEST(EliasFano, AddsToTheMarksThatAreThere) {
  Marks marks{std::uint64_t{1} << 40 | 1, 8};
  ASSERT_TRUE(read_elias_fano(written({0, 2, 70}, 100), 100, marks));
  EXPECT_EQ(marks, (Marks{std::uint64_t{1} << 40 | 5, 8 | 1 << 6}));
}

TEST(EliasFano, TakesTwoBitsAndTheLogarithmEach) {
  for (const std::uint32_t places : kPlaces) {
    for (const double density : kDensities) {
      const Positions positions = random_positions(places, density, places + 1);
      const Bytes bytes = written(positions, places);
      const auto count = static_cast<double>(positions.size());
      EXPECT_EQ(bytes.size(),
                elias_fano_size(static_cast<std::uint32_t>(positions.size()), places));
      if (positions.empty()) continue;
      // A header, and two parts of whole bytes.
      EXPECT_LE(static_cast<double>(bytes.size()),
                4 + 2 + (count * (2 + std::log2(places / count)) + 1) / 8)
          << count << " of " << places;
    }
  }
}

// Whoever reserves memory for more need not know how many there are.
TEST(EliasFano, FewerPositionsOrPlacesTakeHardlyMoreBytes) {
  constexpr std::uint32_t kMost = 700;
  for (std::uint32_t places = 1; places <= kMost; ++places) {
    std::size_t most = 0;
    for (std::uint32_t count = 0; count <= places; ++count) {
      const std::size_t size = elias_fano_size(count, places);
      ASSERT_LE(most, size + 2) << count << " of " << places;
      most = std::max(most, size);
    }
    EXPECT_EQ(elias_fano_size(places + 1, places), elias_fano_size(places, places));
  }
  for (std::uint32_t count = 1; count <= kMost; ++count) {
    std::size_t most = 0;
    for (std::uint32_t places = 1; places <= 3 * kMost; ++places) {
      const std::size_t size = elias_fano_size(count, places);
      ASSERT_LE(most, size + 2) << count << " of " << places;
      most = std::max(most, size);
    }
  }
}

TEST(EliasFano, EveryTruncationAndEveryByteMoreIsMalformed) {
  for (const std::uint32_t places : {1u, 9u, 100u, 1000u}) {
    for (const double density : {0.02, 0.3, 1.0}) {
      Positions positions = random_positions(places, density, 3);
      if (positions.empty()) positions.push_back(places - 1);
      Bytes bytes = written(positions, places);
      for (std::size_t size = 1; size < bytes.size(); ++size) {
        const Bytes cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
        EXPECT_FALSE(expect_refused_or_canonical(cut, places)) << size << " bytes of " << places;
      }
      bytes.push_back(std::byte{0});
      EXPECT_FALSE(expect_refused_or_canonical(bytes, places));
    }
  }
}

TEST(EliasFano, EveryFlippedBitIsMalformedOrAnotherList) {
  std::size_t taken = 0;
  std::size_t tried = 0;
  for (const std::uint32_t places : {1u, 9u, 100u, 1000u}) {
    for (const double density : {0.02, 0.1, 0.3, 0.7, 1.0}) {
      Positions positions = random_positions(places, density, 5);
      if (positions.empty()) positions.push_back(places / 2);
      const Bytes bytes = written(positions, places);
      for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
        Bytes flipped = bytes;
        flipped[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
        taken += expect_refused_or_canonical(flipped, places) ? 1 : 0;
        ++tried;
        ASSERT_FALSE(HasFailure()) << "bit " << bit << ", " << positions.size() << " of " << places;
      }
    }
  }
  EXPECT_GT(taken, 0u);
  EXPECT_GT(tried - taken, taken / 4) << "ones more or less cannot be taken";
}

TEST(EliasFano, AnyBytesAreMalformedOrAList) {
  for (std::uint32_t i = 0; i < 20'000; ++i) {
    const std::uint32_t places = 1 + static_cast<std::uint32_t>(mix(1, i) % 70);
    const auto count = static_cast<std::uint32_t>(mix(2, i) % (places + 2));
    Bytes bytes(std::max<std::size_t>(elias_fano_size(count, places), 4));
    for (std::size_t k = 0; k < bytes.size(); ++k) bytes[k] = static_cast<std::byte>(mix(i, k));
    for (std::size_t k = 0; k < 4; ++k) bytes[k] = static_cast<std::byte>(k == 0 ? count : 0);
    expect_refused_or_canonical(bytes, places);
    ASSERT_FALSE(HasFailure()) << i;
  }
}

TEST(EliasFano, ImpossibleCountsAreMalformed) {
  for (const std::uint32_t count : {0u, 101u, 1u << 31, 0xffffffffu}) {
    Bytes bytes = written({3, 50}, 100);
    for (std::size_t k = 0; k < 4; ++k) bytes[k] = static_cast<std::byte>(count >> (8 * k) & 0xff);
    EXPECT_FALSE(read(bytes, 100).status.has_value()) << count;
  }
  EXPECT_FALSE(read_elias_fano(Bytes(5, std::byte{1}), 0, {}).has_value()) << "there are no places";
  EXPECT_TRUE(read_elias_fano({}, 0, {}).has_value());
}

}  // namespace
}  // namespace sluice::lossless
