#include "round/block_sum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <random>
#include <vector>

#include "base/bytes.h"
#include "tests/support/guarded_bytes.h"

namespace sluice {
namespace {

using Bytes = std::vector<std::byte>;
using Integers = std::vector<std::uint64_t>;

constexpr std::initializer_list<int> kWidths{8, 16, 32, 64};
constexpr std::initializer_list<std::uint32_t> kGrains{8, 16, 24, 40, 64, 72, 256, 264};

Reduction reduction(int bits, std::uint32_t grain) {
  return {.op = Op::block_sum,
          .bits = static_cast<std::uint8_t>(bits),
          .count = 10 * grain,
          .grain = grain};
}

void append(Bytes& into, std::uint64_t value, std::size_t size) {
  for (std::size_t i = 0; i < size; ++i) into.push_back(static_cast<std::byte>(value >> (8 * i)));
}

Bytes bytes_of(const Reduction& what, const Integers& integers) {
  Bytes bytes;
  for (const std::uint64_t integer : integers) append(bytes, integer, what.bits / 8u);
  return bytes;
}

// A body in a form, byte by byte as the form is described.
Bytes body_in(BlockForm form, const Reduction& what, const Integers& integers) {
  if (form == BlockForm::dense) return bytes_of(what, integers);
  Bytes body;
  if (form == BlockForm::bitmap) {
    for (std::size_t first = 0; first < integers.size(); first += 8) {
      unsigned mask = 0;
      for (unsigned i = 0; i < 8; ++i) mask |= (integers[first + i] != 0 ? 1u : 0u) << i;
      body.push_back(static_cast<std::byte>(mask));
    }
  } else {
    const auto zeros = std::count(integers.begin(), integers.end(), 0u);
    append(body, integers.size() - static_cast<std::size_t>(zeros), 2);
  }
  for (std::size_t i = 0; i < integers.size(); ++i) {
    if (integers[i] == 0) continue;
    if (form == BlockForm::pairs) append(body, i, 2);
    append(body, integers[i], what.bits / 8u);
  }
  return body;
}

// Exactly `set` integers that are not zero, anywhere.
Integers integers_with(const Reduction& what, std::uint32_t set, std::mt19937& random) {
  Integers integers(what.grain, 0);
  const std::uint64_t mask = ~std::uint64_t{0} >> (64 - what.bits);
  for (std::uint32_t i = 0; i < set; ++i) {
    integers[i] = std::max<std::uint64_t>(1, (std::uint64_t{random()} << 32 | random()) & mask);
  }
  std::shuffle(integers.begin(), integers.end(), random);
  return integers;
}

template <class Each>
void for_each_density(const Each& each) {
  for (const int bits : kWidths) {
    for (const std::uint32_t grain : kGrains) {
      for (std::uint32_t set = 0; set <= grain; ++set) each(reduction(bits, grain), set);
    }
  }
}

TEST(WriteBlock, TakesTheShortestFormAndTheLowestOnTies) {
  std::mt19937 random(1);
  std::array<int, 3> taken{};
  for_each_density([&](const Reduction& what, std::uint32_t set) {
    const Integers integers = integers_with(what, set, random);
    BlockForm form = BlockForm::dense;
    Bytes body = body_in(form, what, integers);
    for (const BlockForm other : {BlockForm::bitmap, BlockForm::pairs}) {
      const Bytes candidate = body_in(other, what, integers);
      if (candidate.size() >= body.size()) continue;
      form = other;
      body = candidate;
    }
    ++taken[static_cast<std::size_t>(form)];
    Bytes wanted;
    append(wanted, 7, 4);
    append(wanted, static_cast<std::uint64_t>(form), 1);
    wanted.insert(wanted.end(), body.begin(), body.end());
    // Room for what is written and no more.
    support::Guarded to(wanted.size(), set % 4);
    ASSERT_EQ(write_block(what, 7, bytes_of(what, integers), to.bytes()), wanted.size());
    ASSERT_TRUE(std::ranges::equal(to.bytes(), wanted)) << int{what.bits} << ' ' << what.grain;
    ASSERT_TRUE(to.intact());
    ASSERT_LE(wanted.size(), block_size_max(what));
  });
  for (const int times : taken) EXPECT_GT(times, 100);
}

TEST(WriteBlock, ABlockOfTheLargestGrainIsReadBack) {
  std::mt19937 random(2);
  const Reduction what = reduction(8, kBlockGrainMax);
  for (const std::uint32_t set : {0u, 1u, 1000u, 5000u, 50000u, kBlockGrainMax}) {
    const Bytes integers = bytes_of(what, integers_with(what, set, random));
    Bytes list(kBlockListHeader + block_size_max(what));
    store_le(std::span(list), 0, std::uint32_t{1});
    list.resize(kBlockListHeader +
                write_block(what, 9, integers, std::span(list).subspan(kBlockListHeader)));
    BlockReader reader(what, list);
    const auto block = reader.next();
    ASSERT_TRUE(block && *block) << set;
    Bytes read(integers.size());
    add_block(what, **block, read);
    EXPECT_EQ(read, integers) << set;
    EXPECT_FALSE((*reader.next()).has_value());
  }
}

TEST(AddBlock, AddsEachFormModuloTheWidth) {
  std::mt19937 random(3);
  for_each_density([&](const Reduction& what, std::uint32_t set) {
    const Integers integers = integers_with(what, set, random);
    const Integers before = integers_with(what, what.grain, random);
    Integers sums = before;
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += integers[i];
    for (const BlockForm form : {BlockForm::dense, BlockForm::bitmap, BlockForm::pairs}) {
      const Bytes body = body_in(form, what, integers);
      support::Guarded into(bytes_of(what, before), set % 4);
      add_block(what, {0, form, body}, into.bytes());
      ASSERT_TRUE(std::ranges::equal(into.bytes(), bytes_of(what, sums)));
      ASSERT_TRUE(into.intact());
    }
  });
}

// Other forms than the shortest may come from elsewhere, zeros among the integers included.
TEST(MergeBlocks, GivesTheShortestFormsWhateverComesIn) {
  const Reduction what = reduction(16, 16);
  const Integers few{0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0};
  const auto list_of = [&](BlockForm form, const Bytes& body) {
    Bytes list;
    append(list, 1, 4);
    append(list, 3, 4);
    append(list, static_cast<std::uint64_t>(form), 1);
    list.insert(list.end(), body.begin(), body.end());
    return list;
  };
  Bytes wanted(kBlockListHeader + block_size_max(what));
  store_le(std::span(wanted), 0, std::uint32_t{1});
  wanted.resize(kBlockListHeader + write_block(what, 3, bytes_of(what, few),
                                               std::span(wanted).subspan(kBlockListHeader)));
  const Bytes zeros_stated{std::byte{0xff}, std::byte{0x01}};  // nine integers there
  Bytes loose = zeros_stated;
  for (const std::uint64_t integer : {0u, 0u, 9u, 0u, 0u, 0u, 0u, 0u, 0u})
    append(loose, integer, 2);
  const Bytes seven{std::byte{1}, std::byte{0}, std::byte{14},
                    std::byte{0}, std::byte{7}, std::byte{0}};
  const std::vector<std::vector<Bytes>> inputs{
      {list_of(BlockForm::dense, bytes_of(what, few))},
      {list_of(BlockForm::bitmap, body_in(BlockForm::bitmap, what, few))},
      {list_of(BlockForm::bitmap, loose), list_of(BlockForm::pairs, seven)},
      {list_of(BlockForm::pairs, seven), list_of(BlockForm::bitmap, loose)},
  };
  for (const auto& lists : inputs) {
    std::vector<std::span<const std::byte>> cursors(lists.begin(), lists.end());
    Bytes integers(32, std::byte{0xa5});
    Bytes down(up_size(what));
    down.resize(merge_blocks(what, cursors, integers, down));
    EXPECT_EQ(down, wanted);
  }
}

}  // namespace
}  // namespace sluice
