#include "codec/arena.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "base/aligned_buffer.h"
#include "codec/codec.h"

namespace sluice {
namespace {

std::size_t address(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

TEST(Arena, MeasuringHandsOutSizesWithoutMemory) {
  Arena arena;
  const auto host = arena.host<std::uint32_t>(10);
  const auto place = arena.place<double>(3);
  EXPECT_EQ(host.size(), 10u);
  EXPECT_EQ(host.data(), nullptr);
  EXPECT_EQ(place.size(), 3u);
  EXPECT_EQ(place.data(), nullptr);
  EXPECT_EQ(arena.host_used(), 40u);
  EXPECT_EQ(arena.place_used(), 24u);
}

TEST(Arena, HostAndPlaceAreCountedApart) {
  Arena arena;
  static_cast<void>(arena.host<std::byte>(1000));
  EXPECT_EQ(arena.place_used(), 0u);
  static_cast<void>(arena.place<std::byte>(1));
  EXPECT_EQ(arena.host_used(), 1000u);
  EXPECT_EQ(arena.place_used(), 1u);
}

TEST(Arena, EverySpanStartsOnAMultipleOfTheAlignment) {
  AlignedBuffer host(4096);
  AlignedBuffer place(4096);
  Arena arena(host.bytes(), place.bytes());
  for (const std::size_t count : {1u, 3u, 64u, 65u, 0u, 7u}) {
    EXPECT_EQ(address(arena.host<std::byte>(count).data()) % kAlignment, 0u) << count;
    EXPECT_EQ(address(arena.place<std::uint64_t>(count).data()) % kAlignment, 0u) << count;
  }
}

TEST(Arena, SpansLieInTheirMemoryAndDoNotOverlap) {
  AlignedBuffer host(1024);
  AlignedBuffer place(1024);
  Arena arena(host.bytes(), place.bytes());
  const auto first = arena.host<std::uint32_t>(5);
  const auto second = arena.host<std::uint32_t>(5);
  const auto other = arena.place<std::uint32_t>(5);
  EXPECT_EQ(address(first.data()), address(host.bytes().data()));
  EXPECT_GE(address(second.data()), address(first.data() + 5));
  EXPECT_EQ(address(other.data()), address(place.bytes().data()));
  for (auto& value : first) value = 1;
  for (auto& value : second) value = 2;
  for (auto& value : other) value = 3;
  for (const auto value : first) EXPECT_EQ(value, 1u);
  for (const auto value : second) EXPECT_EQ(value, 2u);
}

// Takes memory in an order that alignment would punish if it were counted wrongly.
struct Probe {
  Probe(Arena& arena, std::size_t count)
      : bytes(arena.host<std::byte>(count)),
        words(arena.host<std::uint64_t>(count)),
        wire(arena.place<std::byte>(3 * count)) {}

  std::span<std::byte> bytes;
  std::span<std::uint64_t> words;
  std::span<std::byte> wire;
};

TEST(Arena, MeasuredSizesAreExactlyEnoughForTheSameCalls) {
  for (const std::size_t count : {0u, 1u, 63u, 64u, 65u, 1000u}) {
    Arena measuring;
    EXPECT_EQ(measuring.make<Probe>(measuring, count), nullptr);
    AlignedBuffer host(measuring.host_used());
    AlignedBuffer place(measuring.place_used());
    Arena arena(host.bytes(), place.bytes());
    Probe* const probe = arena.make<Probe>(arena, count);
    ASSERT_NE(probe, nullptr);
    EXPECT_EQ(arena.host_used(), measuring.host_used());
    EXPECT_EQ(arena.place_used(), measuring.place_used());
    EXPECT_EQ(address(probe), address(host.bytes().data()));
    EXPECT_EQ(probe->words.size(), count);
    for (auto& word : probe->words) word = ~std::uint64_t{0};
    for (auto& byte : probe->bytes) byte = std::byte{0};
    for (const auto& word : probe->words) ASSERT_EQ(word, ~std::uint64_t{0});
    EXPECT_EQ(probe->wire.size(), 3 * count);
  }
}

TEST(ArenaDeathTest, TakingMoreThanThereIsStopsTheProgram) {
  AlignedBuffer host(128);
  AlignedBuffer place(64);
  Arena arena(host.bytes(), place.bytes());
  static_cast<void>(arena.host<std::byte>(128));
  EXPECT_DEATH(static_cast<void>(arena.host<std::byte>(1)), "assertion failed");
  EXPECT_DEATH(static_cast<void>(arena.place<std::uint64_t>(9)), "assertion failed");
}

TEST(Contraction, EveryKindHasItsName) {
  EXPECT_EQ(name_of(Contraction::always), "always");
  EXPECT_EQ(name_of(Contraction::typical), "typical");
  EXPECT_EQ(name_of(Contraction::never), "never");
  EXPECT_EQ(name_of(static_cast<Contraction>(9)), "unknown");
}

}  // namespace
}  // namespace sluice
