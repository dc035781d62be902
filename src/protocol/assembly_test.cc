#include "protocol/assembly.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>

#include "base/bytes.h"
#include "base/random.h"
#include "round/block_sum.h"

namespace sluice::protocol {
namespace {

using Bytes = std::vector<std::byte>;
using Answerer = std::function<Bytes(const Reduction&, std::span<const Contribution>)>;

constexpr std::array<std::uint16_t, 16> kTable{0,  1,  2,  4,  7,  11, 16, 22,
                                               29, 37, 46, 56, 67, 79, 92, 106};
constexpr std::byte kUntouched{0xee};

std::uint64_t everyone_of(std::uint32_t workers) { return ~std::uint64_t{0} >> (64 - workers); }

Bytes random_bytes(std::uint64_t seed, std::size_t size) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(mix(seed, i));
  return bytes;
}

Bytes random_blocks(std::uint64_t seed, const Reduction& what) {
  Bytes bytes(up_size(what));
  std::size_t used = kBlockListHeader;
  std::uint32_t blocks = 0;
  for (std::uint32_t number = 0; number < block_count(what); ++number) {
    if (mix(seed, number) % 3 != 0) continue;
    Bytes integers = random_bytes(mix(seed, number), body_size(what, BlockForm::dense, 0));
    // All forms: a block is zero from somewhere on.
    std::fill(integers.begin() + static_cast<std::ptrdiff_t>(mix(seed, 5) % integers.size()),
              integers.end(), std::byte{0});
    used += write_block(what, number, integers, std::span(bytes).subspan(used));
    ++blocks;
  }
  store_le(std::span(bytes), 0, blocks);
  bytes.resize(used);
  return bytes;
}

// Unused bits of the last byte are zero, as codecs leave them; messages differ in length.
Bytes random_up(std::uint64_t seed, const Reduction& what) {
  if (what.op == Op::block_sum) return random_blocks(seed, what);
  if (what.op == Op::gather) return random_bytes(seed, mix(seed, 7) % (what.count + 1));
  Bytes bytes = random_bytes(seed, up_size(what));
  const auto used = static_cast<unsigned>(std::uint64_t{what.count} * what.bits % 8);
  if (used != 0) bytes.back() &= static_cast<std::byte>((1u << used) - 1);
  return bytes;
}

Bytes combined(const Reduction& what, std::uint32_t workers,
               std::span<const Contribution> contributions) {
  AlignedBuffer scratch(scratch_size(what));
  Bytes down(down_size_max(what, workers));
  down.resize(combine(what, workers, 0, what.count, contributions, scratch.bytes(), down));
  return down;
}

// All workers of one job, and what they hand in.
struct Everybody {
  std::vector<Reduction> whats;
  std::uint32_t workers = 1;
  std::uint64_t only = 0;
  std::vector<std::vector<Bytes>> ups;    // by rank, by round
  std::vector<std::vector<Bytes>> downs;  // by rank, by round
  std::vector<std::vector<Round>> rounds;
  std::vector<std::unique_ptr<Assembly>> assemblies;

  Everybody(std::vector<Reduction> reductions, std::uint32_t n, std::size_t payload_max,
            std::uint64_t subset = 0)
      : whats(std::move(reductions)), workers(n), only(subset), ups(n), downs(n), rounds(n) {
    for (std::uint32_t rank = 0; rank < n; ++rank) {
      for (std::size_t i = 0; i < whats.size(); ++i) {
        ups[rank].push_back(random_up(mix(rank, i), whats[i]));
        downs[rank].emplace_back(down_size_max(whats[i], n), kUntouched);
      }
      for (std::size_t i = 0; i < whats.size(); ++i) {
        rounds[rank].push_back(
            {whats[i], ups[rank][i], downs[rank][i], only == 0 ? Workers{} : Workers{{&only, 1}}});
      }
      assemblies.push_back(std::make_unique<Assembly>(n, rank));
      assemblies.back()->begin(rounds[rank], payload_max);
    }
  }
  Everybody(const Everybody&) = delete;

  [[nodiscard]] std::uint64_t counted() const { return only == 0 ? everyone_of(workers) : only; }

  [[nodiscard]] std::vector<Contribution> of_piece(std::size_t index) const {
    std::vector<Contribution> contributions;
    for (std::uint32_t rank = 0; rank < workers; ++rank) {
      const Piece& piece = assemblies[rank]->pieces()[index];
      if ((counted() >> rank & 1) == 0 || (piece.is_sparse && piece.up.empty())) continue;
      contributions.push_back({rank, piece.up});
    }
    return contributions;
  }
  // What the aggregator would say.
  [[nodiscard]] Bytes answer_to(std::size_t index) const {
    return combined(assemblies[0]->pieces()[index].what, workers, of_piece(index));
  }
  [[nodiscard]] Bytes expected(std::size_t round) const {
    std::vector<Contribution> contributions;
    for (std::uint32_t rank = 0; rank < workers; ++rank) {
      if ((counted() >> rank & 1) != 0) contributions.push_back({rank, ups[rank][round]});
    }
    return combined(whats[round], workers, contributions);
  }
  void expect_fit(std::size_t payload_max) const {
    for (std::size_t i = 0; i < assemblies[0]->pieces().size(); ++i) {
      const Piece& first = assemblies[0]->pieces()[i];
      ASSERT_TRUE(check(first.what, workers));
      EXPECT_LE(down_size_max(first.what, workers), payload_max);
      EXPECT_EQ(first.size_max, down_size_max(first.what, workers));
      for (const auto& assembly : assemblies) {
        ASSERT_EQ(assembly->pieces().size(), assemblies[0]->pieces().size()) << "numbered alike";
        const Piece& piece = assembly->pieces()[i];
        EXPECT_TRUE(piece.what == first.what && piece.round == first.round);
        EXPECT_EQ(piece.only, counted());
        EXPECT_LE(piece.up.size(), payload_max);
        EXPECT_TRUE((piece.is_sparse && piece.up.empty()) || check_up(piece.what, piece.up));
      }
    }
  }
  // Each assembly in an order of its own.
  void answer_all() {
    std::vector<Bytes> answers;
    for (std::size_t i = 0; i < assemblies[0]->pieces().size(); ++i) {
      answers.push_back(answer_to(i));
    }
    for (std::uint32_t rank = 0; rank < workers; ++rank) {
      for (std::size_t i = 0; i < answers.size(); ++i) {
        const std::size_t index = rank % 2 == 0 ? i : answers.size() - 1 - i;
        EXPECT_FALSE(assemblies[rank]->is_phase_done());
        ASSERT_TRUE(assemblies[rank]->accept(index, answers[index], counted()));
      }
      EXPECT_TRUE(assemblies[rank]->is_phase_done());
    }
  }
  // Whether all are done.
  [[nodiscard]] bool advance() {
    bool all = true;
    for (const auto& assembly : assemblies) {
      const auto done = assembly->advance();
      EXPECT_TRUE(done);
      all &= done && *done;
    }
    return all;
  }
  void expect_answers() const {
    for (std::uint32_t rank = 0; rank < workers; ++rank) {
      const auto answers = assemblies[rank]->answers();
      ASSERT_EQ(answers.size(), whats.size());
      for (std::size_t i = 0; i < whats.size(); ++i) {
        EXPECT_TRUE(std::ranges::equal(answers[i].down, expected(i))) << "rank " << rank;
        EXPECT_EQ(answers[i].down.data(), downs[rank][i].data());
        EXPECT_TRUE(check_answer(rounds[rank][i], answers[i], workers));
        ASSERT_EQ(answers[i].parts.size(), 1u);
        EXPECT_EQ(answers[i].parts[0].from.words[0], counted());
      }
    }
  }
};

Reduction sum(std::uint8_t bits, Down down, std::uint32_t count, std::uint32_t grain,
              std::uint8_t extra = 0) {
  return {.op = Op::lane_sum,
          .bits = bits,
          .down = down,
          .extra = extra,
          .count = count,
          .grain = grain};
}

Reduction with_table(Reduction what) {
  what.table = kTable;
  return what;
}

struct Case {
  const char* name;
  Reduction what;
};

const std::vector<Case> kCases{
    {"full", sum(4, Down::full, 7001, 0)},
    {"full_table", with_table(sum(4, Down::full, 5003, 0))},
    {"narrow", sum(3, Down::narrow, 6000, 64)},
    {"narrow_large_grain", sum(8, Down::narrow, 9001, 4096)},
    {"narrow_one_grain", sum(4, Down::narrow, 6001, 0)},
    {"round", sum(4, Down::round, 5000, 128, 1)},
    {"round_table", with_table(sum(4, Down::round, 5000, 128, 2))},
    {"round_large_grain", with_table(sum(4, Down::round, 9003, 4000, 1))},
    {"wrap8", {.op = Op::wrap_sum, .bits = 8, .count = 3001}},
    {"wrap64", {.op = Op::wrap_sum, .bits = 64, .count = 777}},
    {"or", {.op = Op::max, .bits = 1, .count = 20011}},
    {"max", {.op = Op::max, .bits = 23, .count = 1003}},
    {"gather", {.op = Op::gather, .bits = 8, .count = 3000}},
    {"gather_small", {.op = Op::gather, .bits = 8, .count = 1}},
    {"blocks", {.op = Op::block_sum, .bits = 16, .count = 2000, .grain = 40}},
    {"blocks_one", {.op = Op::block_sum, .bits = 8, .count = 3, .grain = 8}},
    {"blocks_of_a_frame", {.op = Op::block_sum, .bits = 32, .count = 7001, .grain = 256}},
    {"blocks_cut", {.op = Op::block_sum, .bits = 64, .count = 9000, .grain = 808}},
    {"f32", {.op = Op::f32_sum, .bits = 32, .count = 1001}},
    {"bf16", {.op = Op::bf16_sum, .bits = 16, .count = 1501}},
    {"f16", {.op = Op::f16_sum, .bits = 16, .count = 1}},
};

class EveryReduction : public ::testing::TestWithParam<Case> {};

TEST_P(EveryReduction, PiecesFitAndTheirAnswersAreTheRoundsBytes) {
  for (const std::uint32_t workers : {1u, 3u, 64u}) {
    for (const std::size_t payload_max : {kPayloadMin, std::size_t{1392}}) {
      SCOPED_TRACE(testing::Message() << workers << " workers, payload " << payload_max);
      Everybody all({GetParam().what}, workers, payload_max);
      all.expect_fit(payload_max);
      all.answer_all();
      if (is_list(GetParam().what.op)) {
        const bool is_nothing_left = all.advance();
        all.expect_fit(payload_max);
        all.answer_all();
        EXPECT_TRUE(is_nothing_left || all.advance());
      } else {
        EXPECT_TRUE(all.advance());
      }
      all.expect_answers();
    }
  }
}

TEST_P(EveryReduction, OfSomeWorkersCountsExactlyThese) {
  for (const std::uint64_t only : {0b001u, 0b110u, 0b101u}) {
    SCOPED_TRACE(only);
    Everybody all({GetParam().what}, 3, 1392, only);
    all.expect_fit(1392);
    all.answer_all();
    while (!all.advance()) all.answer_all();
    all.expect_answers();
  }
}

TEST_P(EveryReduction, PiecesOfLanesCoverTheRoundInOrder) {
  if (is_list(GetParam().what.op)) return;
  Everybody all({GetParam().what}, 3, 1392);
  const std::byte* next = all.ups[0][0].data();
  std::size_t at = 0;
  std::uint32_t lanes = 0;
  for (const Piece& piece : all.assemblies[0]->pieces()) {
    EXPECT_EQ(piece.up.data(), next);
    EXPECT_EQ(piece.at, at);
    next += piece.up.size();
    at += piece.size_max;
    lanes += piece.what.count;
  }
  EXPECT_EQ(lanes, GetParam().what.count);
  EXPECT_EQ(next, all.ups[0][0].data() + all.ups[0][0].size());
}

TEST_P(EveryReduction, AWrongSizeOrAWrongSetIsMalformedAndChangesNothing) {
  Everybody all({GetParam().what}, 3, 1392);
  Assembly& assembly = *all.assemblies[1];
  for (std::size_t i = 0; i < assembly.pieces().size(); ++i) {
    const Bytes good = all.answer_to(i);
    Bytes longer = good;
    longer.resize(assembly.pieces()[i].size_max + 1);
    for (const std::uint64_t counted : {0b011u, 0b1111u, 0u}) {
      EXPECT_EQ(assembly.accept(i, good, counted).error().code, Code::malformed);
    }
    EXPECT_EQ(assembly.accept(i, longer, 0b111).error().code, Code::malformed);
    const bool is_fixed = is_down_size_fixed(assembly.pieces()[i].what);
    if (is_fixed) {
      const auto shorter = std::span(good).first(good.size() - 1);
      EXPECT_EQ(assembly.accept(i, shorter, 0b111).error().code, Code::malformed);
      EXPECT_EQ(assembly.accept(i, {}, 0b111).error().code, Code::malformed);
    }
    EXPECT_FALSE(assembly.pieces()[i].accepted);
  }
  EXPECT_TRUE(std::ranges::all_of(all.downs[1][0], [](std::byte b) { return b == kUntouched; }));
  all.answer_all();
  while (!all.advance()) all.answer_all();
  all.expect_answers();
}

INSTANTIATE_TEST_SUITE_P(Reductions, EveryReduction, ::testing::ValuesIn(kCases),
                         [](const auto& i) { return std::string(i.param.name); });

TEST(Assembly, GrainsLargerThanAFrameAreAskedForAsFullSums) {
  Everybody all({sum(8, Down::narrow, 9001, 4096)}, 3, 1392);
  for (const Piece& piece : all.assemblies[0]->pieces()) {
    EXPECT_EQ(piece.what.down, Down::full);
    EXPECT_EQ(piece.what.extra, 0);
  }
  EXPECT_GT(all.assemblies[0]->pieces().size(), 9001u * 10 / 8 / 1392);
}

TEST(Assembly, SeveralRoundsOfEveryWayTravelTogether) {
  std::vector<Reduction> whats;
  for (const Case& one : kCases) whats.push_back(one.what);
  Everybody all(whats, 5, 1392);
  all.expect_fit(1392);
  all.answer_all();
  ASSERT_FALSE(all.advance()) << "lists have a second phase";
  for (const Piece& piece : all.assemblies[0]->pieces()) {
    EXPECT_TRUE(is_list(whats[piece.round].op)) << "of lists alone";
  }
  all.expect_fit(1392);
  all.answer_all();
  ASSERT_TRUE(all.advance());
  all.expect_answers();
}

TEST(Assembly, IsUsedAgainAndAgain) {
  Everybody all({sum(4, Down::narrow, 3000, 64), kCases[12].what}, 3, 1392);
  for (int i = 0; i < 3; ++i) {
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      all.assemblies[rank]->begin(all.rounds[rank], i == 1 ? kPayloadMin : 1392);
    }
    all.answer_all();
    while (!all.advance()) all.answer_all();
    all.expect_answers();
  }
}

TEST(Assembly, OfNoRoundsIsDoneAtOnce) {
  Assembly assembly(2, 0);
  assembly.begin({}, kPayloadMin);
  EXPECT_TRUE(assembly.pieces().empty());
  EXPECT_TRUE(assembly.is_phase_done());
  EXPECT_TRUE(*assembly.advance());
  EXPECT_TRUE(assembly.answers().empty());
}

TEST(Assembly, AGatherOfNothingEndsAfterTheSizes) {
  Assembly assembly(1, 0);
  const Reduction what{.op = Op::gather, .bits = 8, .count = 100};
  Bytes down(down_size_max(what, 1), kUntouched);
  const Round round{what, {}, down};
  assembly.begin({&round, 1}, kPayloadMin);
  ASSERT_EQ(assembly.pieces().size(), 1u);
  const Contribution mine{0, assembly.pieces()[0].up};
  ASSERT_TRUE(assembly.accept(0, combined(assembly.pieces()[0].what, 1, {&mine, 1}), 1));
  EXPECT_TRUE(*assembly.advance());
  EXPECT_EQ(assembly.answers()[0].down.size(), kMessageHeader);
}

// --- hostile lists ---

Bytes message(std::uint32_t rank, std::span<const std::byte> bytes) {
  Bytes out(kMessageHeader);
  store_le(std::span(out), 0, rank);
  store_le(std::span(out), 4, static_cast<std::uint32_t>(bytes.size()));
  out.insert(out.end(), bytes.begin(), bytes.end());
  return out;
}

Bytes size_message(std::uint32_t rank, std::uint32_t size) {
  std::array<std::byte, 4> bytes{};
  store_le(std::span<std::byte>(bytes), 0, size);
  return message(rank, bytes);
}

Bytes joined(std::initializer_list<Bytes> parts) {
  Bytes all;
  for (const Bytes& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

TEST(Assembly, HostileSizesAreMalformed) {
  Everybody all({{.op = Op::gather, .bits = 8, .count = 500}}, 2, kPayloadMin);
  Assembly& assembly = *all.assemblies[0];
  const std::array<Bytes, 8> hostile{Bytes{},
                                     size_message(0, 5),
                                     joined({size_message(1, 5), size_message(0, 5)}),
                                     joined({size_message(0, 5), size_message(0, 5)}),
                                     joined({size_message(0, 5), size_message(2, 5)}),
                                     joined({size_message(0, 5), size_message(1, 501)}),
                                     joined({size_message(0, 5), size_message(1, ~0u)}),
                                     joined({size_message(0, 5), message(1, Bytes(3))})};
  for (const Bytes& bytes : hostile) {
    EXPECT_EQ(assembly.accept(0, bytes, 0b11).error().code, Code::malformed);
    EXPECT_FALSE(assembly.is_phase_done());
  }
  ASSERT_TRUE(assembly.accept(0, joined({size_message(0, 500), size_message(1, 0)}), 0b11));
  EXPECT_FALSE(*assembly.advance());
}

TEST(Assembly, MessagesOfAnotherSizeThanTheySaidAreMalformed) {
  Everybody all({{.op = Op::gather, .bits = 8, .count = 2000}}, 2, kPayloadMin);
  Assembly& assembly = *all.assemblies[0];
  const std::uint32_t slice = kPayloadMin / 2 - kMessageHeader;
  ASSERT_TRUE(assembly.accept(0, joined({size_message(0, slice + 3), size_message(1, 10)}), 0b11));
  ASSERT_FALSE(*assembly.advance());
  ASSERT_EQ(assembly.pieces().size(), 2u);
  const Bytes whole = random_bytes(1, slice);
  const Bytes ten = random_bytes(2, 10);
  const Bytes three = random_bytes(3, 3);
  const std::array<Bytes, 3> hostile{joined({message(0, whole), message(1, whole)}),
                                     joined({message(0, ten), message(1, ten)}),
                                     joined({message(0, whole), message(1, {})})};
  for (const Bytes& bytes : hostile) {
    EXPECT_EQ(assembly.accept(0, bytes, 0b11).error().code, Code::malformed);
  }
  EXPECT_EQ(assembly.accept(1, joined({message(0, three), message(1, three)}), 0b11).error().code,
            Code::malformed)
      << "worker 1 had said everything";
  ASSERT_TRUE(assembly.accept(1, joined({message(0, three), message(1, {})}), 0b11));
  ASSERT_TRUE(assembly.accept(0, joined({message(0, whole), message(1, ten)}), 0b11));
  ASSERT_TRUE(*assembly.advance());
  EXPECT_EQ(Bytes(assembly.answers()[0].down.begin(), assembly.answers()[0].down.end()),
            joined({message(0, joined({whole, three})), message(1, ten)}));
}

TEST(Assembly, FullSumsBeyondWhatWorkersCanSendDoNoHarm) {
  for (const Down down : {Down::narrow, Down::round}) {
    Reduction what = with_table(sum(4, down, 9000, 8000));
    Everybody all({what}, 3, kPayloadMin, 0b011);
    Assembly& assembly = *all.assemblies[0];
    for (std::size_t i = 0; i < assembly.pieces().size(); ++i) {
      ASSERT_EQ(assembly.pieces()[i].what.down, Down::full);
      ASSERT_TRUE(assembly.accept(i, Bytes(assembly.pieces()[i].size_max, std::byte{0xff}), 0b011));
    }
    const auto done = assembly.advance();
    if (!done) {
      EXPECT_EQ(done.error().code, Code::malformed);
    } else {
      EXPECT_LE(assembly.answers()[0].down.size(), down_size_max(what, 3));
    }
  }
}

}  // namespace
}  // namespace sluice::protocol
