#include "round/lists.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace sluice {
namespace {

using Bytes = std::vector<std::byte>;

void append_u32(Bytes& into, std::uint32_t value) {
  for (int i = 0; i < 4; ++i) into.push_back(static_cast<std::byte>(value >> (8 * i)));
}

Bytes payload(std::size_t size, unsigned seed) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(seed * 31 + i * 7);
  return bytes;
}

Bytes message_list(const std::vector<std::pair<std::uint32_t, Bytes>>& messages) {
  Bytes list;
  for (const auto& [rank, bytes] : messages) {
    append_u32(list, rank);
    append_u32(list, static_cast<std::uint32_t>(bytes.size()));
    list.insert(list.end(), bytes.begin(), bytes.end());
  }
  return list;
}

// All messages, or the first error.
Result<std::vector<std::pair<std::uint32_t, Bytes>>> read_messages(std::uint32_t size_max,
                                                                   std::span<const std::byte> list,
                                                                   Workers from) {
  const Reduction what{.op = Op::gather, .bits = 8, .count = size_max};
  const std::vector<Part> parts{{0, size_max, from}};
  MessageReader reader(what, {list, parts});
  std::vector<std::pair<std::uint32_t, Bytes>> all;
  while (true) {
    SLUICE_TRY_ASSIGN(const auto message, reader.next());
    if (!message) return all;
    all.emplace_back(message->rank, Bytes(message->bytes.begin(), message->bytes.end()));
  }
}

WorkerSet set_of(std::uint32_t n, const std::vector<std::uint32_t>& ranks) {
  WorkerSet set(n);
  for (const std::uint32_t rank : ranks) set.insert(rank);
  return set;
}

void expect_malformed(const Bytes& list, const WorkerSet& from, const std::string& word) {
  const auto got = read_messages(10, list, from.view());
  ASSERT_FALSE(got.has_value()) << word;
  EXPECT_EQ(got.error().code, Code::malformed);
  EXPECT_NE(std::string(got.error().what).find(word), std::string::npos) << got.error().what;
}

TEST(MessageReader, GivesEveryMessageWithItsRankInOrder) {
  const std::vector<std::pair<std::uint32_t, Bytes>> sent{
      {0, payload(3, 1)}, {5, {}}, {64, payload(10, 2)}, {99, payload(1, 3)}};
  const auto got = read_messages(10, message_list(sent), set_of(100, {0, 5, 64, 99}).view());
  ASSERT_TRUE(got.has_value()) << got.error().what;
  EXPECT_EQ(*got, sent);
}

TEST(MessageReader, StaysAtTheEnd) {
  const Reduction what{.op = Op::gather, .bits = 8, .count = 4};
  const WorkerSet from = set_of(2, {1});
  const std::vector<Part> parts{{0, 4, from.view()}};
  const Bytes list = message_list({{1, payload(4, 1)}});
  MessageReader reader(what, {list, parts});
  ASSERT_TRUE((*reader.next()).has_value());
  EXPECT_FALSE((*reader.next()).has_value());
  EXPECT_FALSE((*reader.next()).has_value());
}

TEST(MessageReader, EveryTruncationIsMalformed) {
  const WorkerSet from = set_of(3, {0, 1, 2});
  const Bytes list = message_list({{0, payload(2, 1)}, {1, {}}, {2, payload(5, 3)}});
  for (std::size_t size = 0; size < list.size(); ++size) {
    const auto got = read_messages(10, std::span(list).first(size), from.view());
    ASSERT_FALSE(got.has_value()) << size;
    EXPECT_EQ(got.error().code, Code::malformed);
  }
  EXPECT_TRUE(read_messages(10, list, from.view()).has_value());
}

TEST(MessageReader, RefusesRanksThatRepeatDescendOrWereNotCounted) {
  const WorkerSet from = set_of(70, {1, 2, 69});
  const Bytes one = payload(1, 1);
  expect_malformed(message_list({{1, one}, {1, one}, {69, one}}), from, "out of order");
  expect_malformed(message_list({{2, one}, {1, one}, {69, one}}), from, "out of order");
  expect_malformed(message_list({{0, one}, {1, one}, {2, one}, {69, one}}), from, "not counted");
  expect_malformed(message_list({{1, one}, {2, one}, {68, one}}), from, "not counted");
  for (const std::uint32_t rank : {70u, 127u, 128u, 4096u, 0x7fffffffu, 0xffffffffu}) {
    expect_malformed(message_list({{1, one}, {2, one}, {rank, one}}), from, "not counted");
  }
}

TEST(MessageReader, RefusesAMissingMessage) {
  const WorkerSet from = set_of(70, {1, 2, 69});
  const Bytes one = payload(1, 1);
  expect_malformed({}, from, "missing");
  expect_malformed(message_list({{1, one}, {69, one}}), from, "missing");
  expect_malformed(message_list({{1, one}, {2, one}}), from, "missing");
}

TEST(MessageReader, RefusesSizesBeyondTheStatedOrTheBytes) {
  const WorkerSet from = set_of(2, {0});
  expect_malformed(message_list({{0, payload(11, 1)}}), from, "longer");
  EXPECT_TRUE(read_messages(10, message_list({{0, payload(10, 1)}}), from.view()).has_value());
  for (const std::uint32_t size : {6u, 10u, 0x7fffffffu, 0xfffffff8u, 0xffffffffu}) {
    Bytes list;
    append_u32(list, 0);
    append_u32(list, size);
    list.resize(list.size() + 5);
    expect_malformed(list, from, "longer");
  }
}

TEST(MessageReader, RefusesBytesAfterTheLastMessage) {
  const WorkerSet from = set_of(2, {0, 1});
  Bytes list = message_list({{0, payload(1, 1)}, {1, payload(1, 2)}});
  list.push_back(std::byte{0});
  expect_malformed(list, from, "cut off");
  list.resize(list.size() + 7);
  expect_malformed(list, from, "out of order");
}

// A zero-lane round is answered by no bytes and no parts, and a codec may still read that answer.
TEST(MessageReader, AnAnswerWithoutPartsHasNoMessages) {
  const Reduction what{.op = Op::gather, .bits = 8, .count = 0};
  MessageReader reader(what, Answer{});
  const auto got = reader.next();
  ASSERT_TRUE(got.has_value());
  EXPECT_FALSE(got->has_value());
}

constexpr Reduction kBlocks{.op = Op::block_sum, .bits = 16, .count = 75, .grain = 8};

struct Body {
  int form = 0;
  Bytes bytes;

  friend bool operator==(const Body&, const Body&) = default;
};
using Blocks = std::vector<std::pair<std::uint32_t, Body>>;

Body dense(unsigned seed) { return {0, payload(16, seed)}; }

// A bitmap of eight and so many integers behind it.
Body bitmap(unsigned mask, std::size_t integers) {
  Bytes bytes = payload(1 + 2 * integers, mask);
  bytes[0] = static_cast<std::byte>(mask);
  return {1, bytes};
}

// As many pairs as positions, below the stated count.
Body pairs(unsigned count, const std::vector<unsigned>& positions) {
  Bytes bytes{static_cast<std::byte>(count), static_cast<std::byte>(count >> 8)};
  for (const unsigned position : positions) {
    bytes.push_back(static_cast<std::byte>(position));
    bytes.push_back(static_cast<std::byte>(position >> 8));
    bytes.insert(bytes.end(), {std::byte{1}, std::byte{2}});
  }
  return {2, bytes};
}

Bytes block_list(const Blocks& blocks) {
  Bytes list;
  append_u32(list, static_cast<std::uint32_t>(blocks.size()));
  for (const auto& [number, body] : blocks) {
    append_u32(list, number);
    list.push_back(static_cast<std::byte>(body.form));
    list.insert(list.end(), body.bytes.begin(), body.bytes.end());
  }
  return list;
}

Result<Blocks> read_blocks(std::span<const std::byte> list) {
  BlockReader reader(kBlocks, list);
  Blocks all;
  while (true) {
    SLUICE_TRY_ASSIGN(const auto block, reader.next());
    if (!block) return all;
    all.push_back(
        {block->number, {static_cast<int>(block->form), {block->body.begin(), block->body.end()}}});
  }
}

void expect_bad(const Blocks& blocks, const std::string& word) {
  const auto got = read_blocks(block_list(blocks));
  ASSERT_FALSE(got.has_value()) << word;
  EXPECT_EQ(got.error().code, Code::malformed);
  EXPECT_NE(std::string(got.error().what).find(word), std::string::npos) << got.error().what;
}

TEST(BlockReader, GivesEveryBlockWithItsNumberAndForm) {
  // 75 coordinates in blocks of 8 are 10 blocks, the last one whole on the wire as well.
  const Blocks sent{{0, dense(1)},        {1, bitmap(0, 0)}, {2, bitmap(0x91, 3)},
                    {3, bitmap(0x7f, 7)}, {4, pairs(0, {})}, {5, pairs(3, {0, 4, 7})},
                    {9, dense(3)}};
  const auto got = read_blocks(block_list(sent));
  ASSERT_TRUE(got.has_value()) << got.error().what;
  EXPECT_EQ(*got, sent);
}

TEST(BlockReader, AListOfNoBlocksIsItsHeader) {
  const auto got = read_blocks(block_list({}));
  ASSERT_TRUE(got.has_value());
  EXPECT_TRUE(got->empty());
}

TEST(BlockReader, BytesAfterTheLastBlockAreMalformed) {
  for (const Blocks& blocks : {Blocks{}, Blocks{{1, dense(1)}}, Blocks{{1, pairs(1, {2})}}}) {
    Bytes list = block_list(blocks);
    list.push_back(std::byte{0});
    EXPECT_FALSE(read_blocks(list).has_value());
  }
}

TEST(BlockReader, EveryTruncationIsMalformed) {
  const Bytes list = block_list(
      {{1, dense(1)}, {2, bitmap(0x18, 2)}, {3, pairs(2, {1, 2})}, {4, bitmap(0x80, 1)}});
  for (std::size_t size = 0; size <= list.size(); ++size) {
    EXPECT_EQ(read_blocks(std::span(list).first(size)).has_value(), size == list.size()) << size;
  }
}

TEST(BlockReader, RefusesNumbersOutOfOrderOrRange) {
  const Body one = dense(1);
  const std::vector<Blocks> bad{
      {{3, one}, {3, one}}, {{3, one}, {2, one}},  {{0, one}, {9, one}, {0, one}},
      {{10, one}},          {{0, one}, {10, one}}, {{0x7fffffff, one}},
      {{0xffffffff, one}},  {{9, one}, {10, one}},
  };
  for (const Blocks& blocks : bad) expect_bad(blocks, "order or range");
}

TEST(BlockReader, RefusesFormsItDoesNotKnow) {
  for (int form = 3; form < 256; ++form) expect_bad({{0, {form, payload(16, 1)}}}, "unknown form");
}

TEST(BlockReader, RefusesPositionsOutOfOrderOrRange) {
  const std::vector<std::vector<unsigned>> bad{{1, 1},  {2, 1},         {8},    {0, 8},
                                               {65535}, {0, 1, 0x8000}, {7, 8}, {0, 256}};
  for (const auto& positions : bad) {
    expect_bad({{4, pairs(static_cast<unsigned>(positions.size()), positions)}}, "positions");
  }
}

// So block_size_max() bounds every block, and a list of them all what is stated for the round.
TEST(BlockReader, RefusesBlocksLongerThanAllTheirIntegers) {
  expect_bad({{4, pairs(4, {0, 1, 2, 3})}}, "longer");
  expect_bad({{4, pairs(8, {0, 1, 2, 3, 4, 5, 6, 7})}}, "longer");
  expect_bad({{4, bitmap(0xff, 8)}}, "longer");
  for (const unsigned count : {9u, 256u, 65535u}) expect_bad({{4, pairs(count, {1})}}, "longer");
}

TEST(BlockReader, RefusesFewerIntegersThanTheirBodyStates) {
  expect_bad({{9, pairs(3, {1, 2})}}, "cut off");
  expect_bad({{9, bitmap(0x07, 2)}}, "cut off");
  for (Body body : {dense(1), bitmap(0x07, 3), pairs(2, {1, 2})}) {
    body.bytes.pop_back();
    expect_bad({{9, body}}, "cut off");
  }
}

TEST(BlockReader, ARoundOfNoLanesHasNoBlocks) {
  const Reduction none{.op = Op::block_sum, .bits = 16, .count = 0, .grain = 8};
  BlockReader empty(none, {});
  EXPECT_FALSE((*empty.next()).has_value());
  const Bytes list = block_list({{0, dense(1)}});
  BlockReader reader(none, list);
  EXPECT_FALSE(reader.next().has_value());
}

}  // namespace
}  // namespace sluice
