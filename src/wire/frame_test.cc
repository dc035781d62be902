#include "wire/frame.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <set>

#include "base/bytes.h"
#include "base/random.h"
#include "kernels/checksum/checksum.h"
#include "kernels/level.h"
#include "wire/bodies.h"
#include "wire/golden_test.h"

namespace sluice::wire {
namespace {

constexpr std::array kKinds{Kind::contribution, Kind::result,     Kind::wait,  Kind::restore,
                            Kind::restored,     Kind::need_table, Kind::table, Kind::join,
                            Kind::welcome,      Kind::refused,    Kind::leave, Kind::gone,
                            Kind::ask,          Kind::prove,      Kind::left};
constexpr std::array<std::uint16_t, 8> kTable{0, 1, 3, 7, 15, 31, 63, 65535};
constexpr std::uint64_t kToken = 0xFEEDFACECAFEBEEF;
constexpr std::uint64_t kCookie = 0x1032547698BADCFE;

struct Known {
  Header header;
  std::string payload;
};

std::string text_of(std::initializer_list<int> bytes) {
  std::string text;
  for (const int byte : bytes) text += static_cast<char>(byte);
  return text;
}

std::string entries_of(std::span<const std::uint16_t> table) {
  std::string text(2 * table.size(), '\0');
  const auto bytes = std::as_writable_bytes(std::span(text));
  for (std::size_t i = 0; i < table.size(); ++i) store_le<std::uint16_t>(bytes, 2 * i, table[i]);
  return text;
}

std::string join_body(bool is_first) {
  std::string body;
  write_join({.workers = 3,
              .slots = 512,
              .frame_size = 576,
              .fits = is_first ? 0u : 1472u,
              .is_bound = !is_first,
              .token = kToken,
              .cookie = is_first ? 0 : kCookie,
              .terms = "sluice 1, thc:bits=4"},
             body);
  return body;
}

std::string welcome_body(std::size_t size) {
  std::string body;
  write_welcome({3, 256, 1472, 32}, size, body);
  return body;
}

std::string cookie_body() {
  std::string body;
  write_cookie(kCookie, body);
  return body;
}

Header header_of(Kind kind) {
  Header header;
  header.kind = kind;
  header.job = 0x1122334455667788;
  header.epoch = 3;
  header.worker = 1;
  return header;
}

Header placed(Kind kind) {
  Header header = header_of(kind);
  header.slot = 2;
  header.use = 5;
  return header;
}

Header summed(Kind kind, std::uint64_t workers) {
  Header header = placed(kind);
  header.digest = 0x0123456789ABCDEF;
  header.workers = workers;
  header.what = {Op::lane_sum, 4, Down::round, 1, 16, 8};
  return header;
}

// Of the greatest value in every field.
Header topmost() {
  Header header = summed(Kind::contribution, ~std::uint64_t{0});
  header.flags = kNonFinite;
  header.worker = 63;
  header.job = header.digest = ~std::uint64_t{0};
  header.epoch = header.use = header.table = header.next = ~0u;
  header.slot = 0xFFFF;
  header.what = {Op::f16_sum, 255, Down::round, 255, ~0u, ~0u};
  return header;
}

// The frames of good.txt, as this library describes them.
std::map<std::string, Known> known_frames() {
  const std::string lanes = text_of({0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17});
  const std::string sums(20, '\0');
  std::map<std::string, Known> known;
  known["contribution"] = {summed(Kind::contribution, 7), lanes};
  known["contribution_table"] = {summed(Kind::contribution, 7), lanes};
  known["contribution_table"].header.table = table_name(kTable);
  known["contribution_nothing"] = {summed(Kind::contribution, 7), ""};
  known["contribution_nothing"].header.what = {Op::gather, 8, Down::full, 0, 0, 0};
  known["contribution_top"] = {topmost(), "\xff"};
  known["contribution_blocks"] = {summed(Kind::contribution, 7),
                                  text_of({1, 0, 0, 0, 1, 0, 0, 0, 2, 1, 0, 3, 0, 2, 1})};
  known["contribution_blocks"].header.slot = 600;
  known["contribution_blocks"].header.next = 9;
  known["contribution_blocks"].header.what = {Op::block_sum, 16, Down::full, 0, 16, 8};
  known["contribution_silent"] = {known["contribution_blocks"].header, ""};
  known["contribution_silent"].header.use = 7;
  known["result"] = {summed(Kind::result, 5), sums};
  known["result_flagged"] = {summed(Kind::result, 7), text_of({0, 0, 0x80, 0x7F})};
  known["result_flagged"].header.flags = kNonFinite;
  known["result_flagged"].header.what = {Op::f32_sum, 32, Down::full, 0, 1, 0};
  known["result_repeated"] = {summed(Kind::result, 5), sums};
  known["result_repeated"].header.flags = kRepeated;
  known["result_repeated"].header.stamp = 0x89ABCDEF;
  known["restore"] = {summed(Kind::restore, 5), sums};
  known["wait"] = {placed(Kind::wait), ""};
  known["wait"].header.digest = 0x0123456789ABCDEF;
  known["wait"].header.workers = 3;
  known["wait"].header.stamp = 7;
  known["restored"] = {placed(Kind::restored), ""};
  known["need_table"] = {header_of(Kind::need_table), ""};
  known["need_table"].header.table = table_name(kTable);
  known["table"] = {header_of(Kind::table), entries_of(kTable)};
  known["table"].header.table = table_name(kTable);
  for (const auto* const name : {"join", "join_first"}) {
    known[name] = {header_of(Kind::join), join_body(name == std::string_view("join_first"))};
    known[name].header.epoch = 0;
  }
  known["prove"] = {header_of(Kind::prove), cookie_body()};
  known["prove"].header.epoch = 0;
  known["prove"].header.digest = kToken;
  known["welcome"] = {header_of(Kind::welcome), welcome_body(0)};
  known["welcome"].header.digest = kToken;
  known["welcome"].header.workers = 7;
  known["welcome_early"] = {header_of(Kind::welcome), welcome_body(576 - kHeaderSize)};
  known["welcome_early"].header.digest = kToken;
  known["welcome_early"].header.epoch = 0;
  known["welcome_early"].header.workers = 2;
  known["refused"] = {header_of(Kind::refused),
                      "worker 1 says 3 workers, worker 0 says 4 – réfusé"};
  known["refused"].header.digest = kToken;
  known["left"] = {header_of(Kind::left), ""};
  known["left"].header.workers = 5;
  known["leave"] = {header_of(Kind::leave), ""};
  known["gone"] = {header_of(Kind::gone), ""};
  known["ask"] = {placed(Kind::ask), ""};
  known["ask"].header.digest = 0x0123456789ABCDEF;
  known["ask"].header.stamp = 0x89ABCDEF;
  return known;
}

Datagram written(const Header& header, std::span<const std::byte> payload) {
  Datagram datagram(kHeaderSize, std::byte{0xA5});
  write_header(header, payload, std::span(datagram).first<kHeaderSize>());
  datagram.insert(datagram.end(), payload.begin(), payload.end());
  return datagram;
}

Datagram written(const Known& known) { return written(known.header, bytes_of(known.payload)); }

// Sets length and checksum right again after the frame was changed.
void seal(Datagram& datagram) {
  store_le<std::uint16_t>(datagram, 4, static_cast<std::uint16_t>(datagram.size()));
  store_le<std::uint32_t>(datagram, 64, 0);
  store_le<std::uint32_t>(datagram, 64, checksum::crc32c(datagram));
}

void expect_equal(const Header& a, const Header& b) {
  EXPECT_EQ(a.kind, b.kind);
  EXPECT_EQ(a.flags, b.flags);
  EXPECT_EQ(a.worker, b.worker);
  EXPECT_EQ(a.job, b.job);
  EXPECT_EQ(a.epoch, b.epoch);
  EXPECT_EQ(a.slot, b.slot);
  EXPECT_EQ(a.use, b.use);
  EXPECT_EQ(a.digest, b.digest);
  EXPECT_EQ(a.workers, b.workers);
  EXPECT_EQ(a.table, b.table);
  EXPECT_TRUE(a.what == b.what);
}

void expect_malformed(std::span<const std::byte> datagram, std::string_view what) {
  const auto frame = parse(datagram);
  ASSERT_FALSE(frame) << what;
  EXPECT_EQ(frame.error().code, Code::malformed);
  EXPECT_EQ(frame.error().what, what)
      << hex(datagram.first(std::min(kHeaderSize, datagram.size())));
}

TEST(Frame, IsWrittenAsTheGoldenFilesHaveIt) {
  const auto golden = good_frames();
  const auto known = known_frames();
  ASSERT_EQ(golden.size(), known.size());
  for (const Level level : available_levels()) {
    const ScopedLevel scope(level);
    for (const auto& [name, frame] : known) {
      EXPECT_EQ(hex(written(frame)), hex(golden.at(name))) << name;
    }
  }
}

TEST(Frame, OfTheGoldenFilesIsRead) {
  const auto known = known_frames();
  for (const auto& [name, datagram] : good_frames()) {
    SCOPED_TRACE(name);
    const auto frame = parse(datagram);
    ASSERT_TRUE(frame) << frame.error().what;
    expect_equal(frame->header, known.at(name).header);
    EXPECT_EQ(hex(frame->payload), hex(bytes_of(known.at(name).payload)));
    EXPECT_EQ(frame->payload.data(), datagram.data() + kHeaderSize) << "within the datagram";
    EXPECT_EQ(hex(written(frame->header, frame->payload)), hex(datagram));
  }
}

TEST(Frame, TheGoldenBadOnesAreMalformedForTheReasonGiven) {
  for (const auto* const file : {"bad.txt", "truncated.txt"}) {
    for (const auto& line : golden_lines(file, 2)) expect_malformed(from_hex(line[0]), line[1]);
  }
}

TEST(Frame, TheExampleOfTheSpecificationIsTheGoldenContribution) {
  std::ifstream file(std::string(SLUICE_TEST_DATA) + "/../../docs/wire-format.md");
  ASSERT_TRUE(file.good());
  std::string digits;
  for (std::string line; std::getline(file, line);) {
    const std::size_t at = digits.size() / 2;
    const std::string label = "00" + hex(std::array{static_cast<std::byte>(at)}) + "  ";
    if (line.rfind(label, 0) != 0) continue;
    for (const char c : line.substr(label.size(), line.find("  ", label.size()) - label.size())) {
      if (c != ' ') digits += c;
    }
  }
  EXPECT_EQ(digits, hex(good_frames().at("contribution")));
}

TEST(Frame, EveryKindIsAmongTheGoldenOnes) {
  std::set<Kind> seen;
  for (const auto& [name, datagram] : good_frames()) seen.insert(parse(datagram)->header.kind);
  EXPECT_EQ(seen, std::set<Kind>(kKinds.begin(), kKinds.end()));
}

TEST(Frame, EveryTruncationIsMalformed) {
  for (const auto& [name, datagram] : good_frames()) {
    for (std::size_t size = 0; size < datagram.size(); ++size) {
      // Bytes that end with their allocation show a read beyond to an address sanitizer.
      const Datagram cut(datagram.begin(), datagram.begin() + static_cast<std::ptrdiff_t>(size));
      const auto frame = parse(cut);
      ASSERT_FALSE(frame) << name << ", " << size;
      ASSERT_EQ(frame.error().code, Code::malformed);
    }
  }
}

TEST(Frame, EveryFlippedBitIsMalformed) {
  for (auto& [name, datagram] : good_frames()) {
    Datagram flipped = datagram;
    for (std::size_t bit = 0; bit < 8 * flipped.size(); ++bit) {
      flipped[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
      ASSERT_FALSE(parse(flipped)) << name << ", bit " << bit;
      flipped[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
    }
  }
}

// With the checksum made right a flipped bit is refused or says something else; no two datagrams
// say the same.
TEST(Frame, EveryFlippedBitUnderARightChecksumIsMalformedOrMeansSomething) {
  for (const auto& [name, datagram] : good_frames()) {
    for (std::size_t bit = 0; bit < 8 * datagram.size(); ++bit) {
      Datagram flipped = datagram;
      flipped[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
      seal(flipped);
      const auto frame = parse(flipped);
      if (frame) {
        const Kind kind = frame->header.kind;
        if (kind == Kind::join && !parse_join(frame->payload)) continue;
        if (kind == Kind::welcome && !parse_welcome(frame->payload)) continue;
        ASSERT_EQ(hex(written(frame->header, frame->payload)), hex(flipped)) << name << ' ' << bit;
      } else {
        ASSERT_EQ(frame.error().code, Code::malformed) << name << ' ' << bit;
      }
    }
  }
}

TEST(Frame, RandomBytesAreMalformedWhateverTheirChecksum) {
  std::size_t accepted = 0;
  for (std::uint64_t seed = 0; seed < 20'000; ++seed) {
    Datagram datagram(kHeaderSize + mix(seed, 0) % 40);
    for (std::size_t i = 0; i < datagram.size(); ++i) {
      datagram[i] = static_cast<std::byte>(mix(seed, i + 1));
    }
    EXPECT_FALSE(parse(datagram));
    store_le<std::uint16_t>(datagram, 0, 0x4C53);
    store_le<std::uint8_t>(datagram, 2, kVersion);
    std::fill(datagram.begin() + 60, datagram.begin() + 80, std::byte{0});
    seal(datagram);
    accepted += parse(datagram).has_value() ? 1 : 0;
  }
  EXPECT_LT(accepted, 20u) << "kind, flags, worker, count, op and form are right by chance";
}

TEST(Frame, IsReadAtEveryAddress) {
  const Datagram golden = good_frames().at("table");
  for (std::size_t offset = 0; offset < 9; ++offset) {
    Datagram held(offset);
    held.insert(held.end(), golden.begin(), golden.end());
    EXPECT_TRUE(parse(std::span<const std::byte>(held).subspan(offset))) << offset;
  }
}

TEST(Frame, OfTheGreatestLengthIsReadAndOneLongerIsNot) {
  const Datagram lanes(kFrameSizeMax - kHeaderSize, std::byte{0x5A});
  Datagram datagram = written(summed(Kind::contribution, 7), lanes);
  ASSERT_EQ(datagram.size(), kFrameSizeMax);
  EXPECT_TRUE(parse(datagram));
  datagram.push_back(std::byte{0});
  seal(datagram);
  expect_malformed(datagram, "longer than a frame may be");
  datagram.resize(0x10000 + kHeaderSize);  // its length in two bytes is that of a header alone
  seal(datagram);
  expect_malformed(datagram, "longer than a frame may be");
}

// A reply may start as a copy of what it answers: what its kind does not use stays behind.
TEST(Frame, FieldsThatAKindDoesNotUseAreWrittenAsZero) {
  for (const auto& [name, known] : known_frames()) {
    SCOPED_TRACE(name);
    Header full = topmost();
    full.kind = known.header.kind;
    if (full.kind == Kind::table) full.table = known.header.table;
    const auto frame = parse(written(full, bytes_of(known.payload)));
    ASSERT_TRUE(frame) << frame.error().what;
    EXPECT_EQ(frame->header.job, full.job);
    EXPECT_EQ(frame->header.worker, full.worker);
    const bool sums =
        full.kind == Kind::contribution || full.kind == Kind::result || full.kind == Kind::restore;
    const bool counts =
        sums || full.kind == Kind::wait || full.kind == Kind::welcome || full.kind == Kind::left;
    const bool answers_join =
        full.kind == Kind::prove || full.kind == Kind::welcome || full.kind == Kind::refused;
    const bool is_digested =
        sums || answers_join || full.kind == Kind::wait || full.kind == Kind::ask;
    const bool is_before = full.kind == Kind::join || full.kind == Kind::prove;
    EXPECT_EQ(frame->header.what == full.what, sums);
    EXPECT_EQ(frame->header.what == Reduction{}, !sums);
    EXPECT_EQ(frame->header.flags, sums ? full.flags : 0);
    EXPECT_EQ(frame->header.workers, counts ? full.workers : 0);
    EXPECT_EQ(frame->header.digest, is_digested ? full.digest : 0);
    EXPECT_EQ(frame->header.epoch, is_before ? 0 : full.epoch);
  }
}

TEST(Frame, TheTableOfAReductionDoesNotTravelWithIt) {
  Header header = summed(Kind::contribution, 7);
  const Datagram without = written(header, {});
  header.what.table = kTable;
  EXPECT_EQ(hex(written(header, {})), hex(without));
}

TEST(Frame, CountsTheWorkersItNames) {
  for (std::uint32_t n = 0; n <= kWorkersMax; ++n) {
    const std::uint64_t workers = n == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << n) - 1;
    const Datagram datagram = written(summed(Kind::result, workers), {});
    EXPECT_EQ(std::to_integer<std::uint32_t>(datagram[7]), n);
    EXPECT_TRUE(parse(datagram));
  }
}

TEST(TableName, IsTheOneOfTheGoldenFrameAndNeverZero) {
  EXPECT_EQ(load_le<std::uint32_t>(good_frames().at("table"), 28), table_name(kTable));
  for (std::uint16_t entry = 0; entry < 1000; ++entry) {
    EXPECT_NE(table_name(std::array{entry}), 0u);
  }
}

TEST(TableName, DependsOnEveryEntryItsPlaceAndTheirNumber) {
  std::set<std::uint32_t> names;
  std::vector<std::uint16_t> table(kTable.begin(), kTable.end());
  names.insert(table_name(table));
  std::size_t tables = 1;
  for (std::size_t i = 0; i < table.size(); ++i) {
    for (unsigned bit = 0; bit < 16; ++bit, ++tables) {
      std::vector<std::uint16_t> other = table;
      other[i] = static_cast<std::uint16_t>(other[i] ^ (1u << bit));
      names.insert(table_name(other));
    }
  }
  for (std::size_t i = 1; i < table.size(); ++i, ++tables) {
    std::vector<std::uint16_t> other = table;
    std::swap(other[i - 1], other[i]);
    names.insert(table_name(other));
  }
  for (std::size_t size = 1; size <= 256; ++size, ++tables) {
    names.insert(table_name(std::vector<std::uint16_t>(size)));
  }
  EXPECT_EQ(names.size(), tables);
}

TEST(TableName, TablesOfEverySizeTravel) {
  for (std::size_t size = 1; size <= 256; ++size) {
    std::vector<std::uint16_t> table(size);
    for (std::size_t i = 0; i < size; ++i) table[i] = static_cast<std::uint16_t>(mix(size, i));
    Header header = header_of(Kind::table);
    header.table = table_name(table);
    const std::string entries = entries_of(table);
    EXPECT_TRUE(parse(written(header, bytes_of(entries)))) << size;
  }
}

TEST(FrameDeathTest, WhatMayNotBeSentStopsTheProgram) {
  Header header = summed(Kind::contribution, 7);
  header.worker = 64;
  EXPECT_DEATH(written(header, {}), "worker");
  header.worker = 1;
  header.flags = 2;
  EXPECT_DEATH(written(header, {}), "flags");
  header.flags = 0;
  header.what.op = static_cast<Op>(8);
  EXPECT_DEATH(written(header, {}), "op");
  header.what.op = Op::max;
  EXPECT_DEATH(written(header, Datagram(kFrameSizeMax - kHeaderSize + 1)), "payload.size");
  header.kind = static_cast<Kind>(0);
  EXPECT_DEATH(written(header, {}), "is_kind");
  EXPECT_DEATH(written(header_of(Kind::gone), Datagram(1)), "check_payload");
  EXPECT_DEATH(written(header_of(Kind::need_table), {}), "check_payload");
  EXPECT_DEATH(written(header_of(Kind::table), Datagram(2)), "check_payload");
  EXPECT_DEATH(written(header_of(Kind::refused), {}), "kRefusalMax");
  EXPECT_DEATH(written(header_of(Kind::refused), Datagram(1025)), "kRefusalMax");
  EXPECT_DEATH(written(header_of(Kind::prove), Datagram(8)), "check_payload");
  EXPECT_DEATH(written(header_of(Kind::prove), Datagram(7, std::byte{1})), "check_payload");
  EXPECT_DEATH(written(header_of(Kind::left), Datagram(1)), "check_payload");
  EXPECT_DEATH(table_name({}), "table");
  EXPECT_DEATH(table_name(std::vector<std::uint16_t>(257)), "table");
}

}  // namespace
}  // namespace sluice::wire
