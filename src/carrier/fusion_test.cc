#include "carrier/fusion.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "device/bench.h"
#include "round/block_sum.h"
#include "tests/support/courier.h"
#include "tests/support/fused_world.h"
#include "tests/support/leg_by_hand.h"

namespace sluice {
namespace {

using support::Bytes;
using support::LegByHand;
using support::run_collectives;

constexpr std::size_t kHeader = 64;
constexpr std::array<std::uint16_t, 16> kTable{0,  1,  2,  3,   5, 8, 13, 21,
                                               34, 55, 89, 144, 7, 7, 7,  9};

const std::vector<Reduction> kEvery{
    {.op = Op::lane_sum, .bits = 4, .count = 1003, .grain = 64},
    {.op = Op::lane_sum, .bits = 4, .count = 333, .table = kTable},
    {.op = Op::lane_sum, .bits = 3, .down = Down::narrow, .count = 1003, .grain = 64},
    {.op = Op::lane_sum, .bits = 5, .down = Down::narrow, .count = 77},
    {.op = Op::lane_sum, .bits = 2, .down = Down::round, .extra = 1, .count = 999, .grain = 32},
    {.op = Op::lane_sum, .bits = 8, .down = Down::round, .extra = 8, .count = 300, .grain = 128},
    {.op = Op::wrap_sum, .bits = 8, .count = 501},
    {.op = Op::wrap_sum, .bits = 64, .count = 100, .grain = 8},
    {.op = Op::max, .bits = 1, .count = 1001},
    {.op = Op::max, .bits = 13, .count = 1},
    {.op = Op::max, .bits = 32, .count = 99},
    {.op = Op::gather, .bits = 8, .count = 60},
    {.op = Op::block_sum, .bits = 16, .count = 200, .grain = 16},
    {.op = Op::f32_sum, .bits = 32, .count = 259},
    {.op = Op::bf16_sum, .bits = 16, .count = 260, .grain = 8},
    {.op = Op::f16_sum, .bits = 16, .count = 31},
};

Bytes random_blocks(const Reduction& what, std::mt19937& random) {
  Bytes bytes(up_size(what));
  Bytes integers(std::size_t{what.grain} * what.bits / 8);
  std::uint32_t count = 0;
  std::size_t used = kBlockListHeader;
  for (std::uint32_t number = 0; number < block_count(what); ++number) {
    if (random() % 3 == 0) continue;
    const auto zeros = random() % 5;
    for (std::byte& byte : integers) {
      byte = static_cast<std::byte>(random() % 4 < zeros ? 0 : random());
    }
    used += write_block(what, number, integers, std::span(bytes).subspan(used));
    ++count;
  }
  store_le(std::span(bytes), 0, count);
  bytes.resize(used);
  return bytes;
}

Bytes random_up(const Reduction& what, std::mt19937& random) {
  if (what.op == Op::block_sum) return random_blocks(what, random);
  Bytes bytes(what.op == Op::gather ? random() % (what.count + 1) : up_size(what));
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

// All workers of a job with their legs at some exchanges.
class Table {
 public:
  explicit Table(std::uint32_t n) : workers(n) {
    for (std::uint32_t rank = 0; rank < n; ++rank) {
      fusions.push_back(std::make_unique<Fusion>(rank, n));
    }
  }
  // Everybody gets random bytes for these reductions.
  std::vector<LegByHand>& legs(std::span<const Reduction> reductions) {
    std::vector<LegByHand>& all = kept_.emplace_back(workers);
    for (LegByHand& leg : all) {
      for (const Reduction& what : reductions) leg.add(what, workers, random_up(what, random));
    }
    return all;
  }
  void post(const Ticket& ticket, const std::vector<LegByHand>& legs) {
    for (std::uint32_t rank = 0; rank < workers; ++rank) {
      ASSERT_TRUE(fusions[rank]->post(ticket, {}, legs[rank].rounds)) << rank;
    }
  }
  void seal() {
    for (const auto& fusion : fusions) {
      const Status sealed = fusion->seal();
      ASSERT_TRUE(sealed.has_value()) << sealed.error().what;
    }
  }
  void run(bool native = false) {
    seal();
    run_collectives(fusions, native);
  }
  // Everybody's answers are those of combine() on everybody's bytes.
  void expect_answers(const Ticket& ticket, const std::vector<LegByHand>& legs) {
    for (std::uint32_t rank = 0; rank < workers; ++rank) {
      const auto answers = fusions[rank]->take(ticket);
      ASSERT_TRUE(answers.has_value()) << answers.error().what;
      ASSERT_EQ(answers->size(), legs[rank].rounds.size());
      for (std::size_t i = 0; i < answers->size(); ++i) {
        const Answer& answer = (*answers)[i];
        EXPECT_TRUE(check_answer(legs[rank].rounds[i], answer, workers)) << rank << ", " << i;
        EXPECT_EQ(Bytes(answer.down.begin(), answer.down.end()), expected(legs, i))
            << "rank " << rank << " of " << workers << ", round " << i;
      }
    }
  }

  std::uint32_t workers;
  std::mt19937 random{7};
  std::vector<std::unique_ptr<Fusion>> fusions;

 private:
  std::deque<std::vector<LegByHand>> kept_;  // fusions read and write them

  [[nodiscard]] Bytes expected(const std::vector<LegByHand>& legs, std::size_t index) const {
    const Round& round = legs[0].rounds[index];
    std::vector<Bytes> ups;
    for (const LegByHand& leg : legs) ups.push_back(*leg.ups[index]);
    const WorkerSet all = WorkerSet::all(workers);
    return support::combined(round.what, ups, round.only.unrestricted() ? all.view() : round.only);
  }
};

// ---- Same bytes as combine().

TEST(Fusion, EveryReductionGivesTheBytesOfCombine) {
  for (const std::uint32_t n : {1u, 2u, 3u, 5u, 8u, 64u, 65u}) {
    Table table(n);
    for (std::uint64_t step = 0; step < 3; ++step) {
      const auto& legs = table.legs(kEvery);
      table.post({4, 9}, legs);
      table.run();
      table.expect_answers({4, 9}, legs);
    }
  }
}

TEST(Fusion, EachReductionByItselfToo) {
  for (const Reduction& what : kEvery) {
    Table table(7);
    const auto& legs = table.legs({&what, 1});
    table.post({1, 2}, legs);
    table.run();
    table.expect_answers({1, 2}, legs);
  }
}

TEST(Fusion, ThreeHundredWorkersGiveTheBytesOfCombine) {
  Table table(300);
  const auto& legs = table.legs(std::span(kEvery).subspan(2, 12));
  table.post({0, 0}, legs);
  table.run();
  table.expect_answers({0, 0}, legs);
}

TEST(Fusion, ManyExchangesAreOneStepInAnyOrderOfPosting) {
  for (const std::uint32_t n : {2u, 5u}) {
    Table table(n);
    std::vector<std::vector<LegByHand>*> all;
    for (std::size_t i = 0; i < 5; ++i) {
      all.push_back(&table.legs(std::span(kEvery).subspan(3 * i, 3)));
    }
    for (std::uint32_t rank = 0; rank < n; ++rank) {
      for (std::size_t i = 0; i < 5; ++i) {
        const std::size_t which = (i * 3 + rank) % 5;
        EXPECT_TRUE(table.fusions[rank]->post({which, 7}, {}, (*all[which])[rank].rounds));
      }
    }
    table.run();
    for (std::size_t i = 0; i < 5; ++i) table.expect_answers({i, 7}, *all[i]);
  }
}

TEST(Fusion, OnlyTheNamedAreCounted) {
  const std::uint32_t n = 70;
  WorkerSet named(n);
  for (const std::uint32_t rank : {2u, 3u, 69u}) named.insert(rank);
  const WorkerSet all = WorkerSet::all(n);
  Table table(n);
  auto& legs = table.legs(kEvery);
  for (LegByHand& leg : legs) {
    for (std::size_t i = 0; i < leg.rounds.size(); ++i) {
      leg.rounds[i].only = i % 3 == 0 ? all.view() : named.view();
    }
  }
  table.post({0, 1}, legs);
  table.run();
  table.expect_answers({0, 1}, legs);
}

// A codec keeps the set in its own memory and may write the next one there.
TEST(Fusion, WhoWasCountedStaysThoughTheSetThatNamedThemIsWrittenOver) {
  const Reduction what{.op = Op::f32_sum, .bits = 32, .count = 9};
  Table table(3);
  WorkerSet named(3);
  named.insert(0);
  named.insert(2);
  auto& legs = table.legs({&what, 1});
  for (LegByHand& leg : legs) leg.rounds[0].only = named.view();
  table.post({0, 1}, legs);
  table.run();
  const auto answers = table.fusions[1]->take({0, 1});
  ASSERT_TRUE(answers.has_value());
  named.insert(1);
  named.erase(0);
  const Workers from = (*answers)[0].parts[0].from;
  EXPECT_TRUE(from.has(0) && !from.has(1) && from.has(2));
}

TEST(Fusion, HeadersSayWhoReducesWhat) {
  Table table(2);
  const Reduction what{.op = Op::max, .bits = 8, .count = 16};
  table.post({5, 1}, table.legs({&what, 1}));
  table.seal();
  std::array<Bytes, 2> sent;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    const auto sizes = table.fusions[rank]->send_sizes();
    EXPECT_EQ(sizes[0], kHeader + 8);
    EXPECT_EQ(sizes[1], kHeader + 8);
    sent[rank].resize(sizes[0] + sizes[1]);
    table.fusions[rank]->pack(sent[rank]);
    for (const std::size_t at : {std::size_t{0}, kHeader + 8}) {
      EXPECT_EQ(load_le<std::uint64_t>(sent[rank], at), load_le<std::uint64_t>(sent[0]));
      EXPECT_EQ(load_le<std::uint64_t>(sent[rank], at + 8), 5u);
      EXPECT_EQ(load_le<std::uint32_t>(sent[rank], at + 16), rank);
    }
  }
}

TEST(Fusion, SizesAreFixedUnlessListsOrNarrowSumsAreThere) {
  const auto sealed = [](const Reduction& what) {
    auto table = std::make_unique<Table>(3);
    table->post({0, 0}, table->legs({&what, 1}));
    table->seal();
    return table;
  };
  for (const Reduction& what : kEvery) {
    const auto table = sealed(what);
    const bool narrow = what.op == Op::lane_sum && what.down == Down::narrow;
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      const Fusion& one = *table->fusions[rank];
      EXPECT_EQ(one.receives_vary(), is_list(what.op));
      EXPECT_EQ(one.answers_vary(), is_list(what.op) || narrow);
      for (std::uint32_t other = 0; other < 3; ++other) {
        const std::uint64_t sent = table->fusions[other]->send_sizes()[rank];
        EXPECT_LE(sent, one.receive_sizes()[other]);
        if (!one.receives_vary()) {
          EXPECT_EQ(sent, one.receive_sizes()[other]);
        }
      }
    }
    run_collectives(table->fusions, false);
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      const Fusion& one = *table->fusions[rank];
      EXPECT_LE(one.answer().size(), one.answer_sizes()[rank]);
      if (!one.answers_vary()) {
        EXPECT_EQ(one.answer().size(), one.answer_sizes()[rank]);
      }
      EXPECT_EQ(one.answer_sizes()[2], table->fusions[2]->answer_sizes()[2]);
    }
  }
}

// ---- Turns.

TEST(Fusion, AnExchangePostsItsNextStepWhileOthersStillTake) {
  Table table(3);
  const auto& first = table.legs(std::span(kEvery).first(2));
  const auto& second = table.legs(std::span(kEvery).subspan(2, 2));
  table.post({8, 1}, first);
  table.post({9, 1}, second);
  table.run();
  table.expect_answers({8, 1}, first);
  const auto& third = table.legs(std::span(kEvery).subspan(4, 2));
  table.post({8, 1}, third);  // before 9 is taken
  EXPECT_EQ(table.fusions[0]->take({8, 1}).error().code, Code::pending);
  EXPECT_FALSE(table.fusions[0]->empty());
  table.expect_answers({9, 1}, second);
  table.run();
  table.expect_answers({8, 1}, third);
  EXPECT_TRUE(table.fusions[0]->empty());
}

TEST(Fusion, AnswersAreThereOnceAfterTheSpread) {
  Table table(2);
  const auto& legs = table.legs(kEvery);
  Fusion& one = *table.fusions[0];
  EXPECT_TRUE(one.empty());
  EXPECT_EQ(one.take({3, 3}).error().code, Code::invalid_argument);
  table.post({3, 3}, legs);
  EXPECT_FALSE(one.empty());
  EXPECT_EQ(one.take({3, 3}).error().code, Code::pending);
  EXPECT_EQ(one.post({3, 3}, {}, legs[0].rounds).error().code, Code::exhausted);
  table.seal();
  EXPECT_FALSE(one.empty());
  EXPECT_EQ(one.take({3, 3}).error().code, Code::pending);
  EXPECT_EQ(one.post({3, 3}, {}, legs[0].rounds).error().code, Code::exhausted);
  run_collectives(table.fusions, false);
  EXPECT_TRUE(one.empty());
  table.expect_answers({3, 3}, legs);
  EXPECT_EQ(one.take({3, 3}).error().code, Code::invalid_argument);
  EXPECT_EQ(one.wait(std::chrono::seconds(1)).error().code, Code::unavailable);
}

TEST(Fusion, WhatIsPostedAfterASealBelongsToTheNextStep) {
  Table table(2);
  const auto& first = table.legs(std::span(kEvery).first(1));
  const auto& second = table.legs(std::span(kEvery).subspan(1, 1));
  table.post({0, 1}, first);
  table.seal();
  table.post({1, 1}, second);
  run_collectives(table.fusions, false);
  EXPECT_FALSE(table.fusions[0]->empty());
  table.expect_answers({0, 1}, first);
  EXPECT_EQ(table.fusions[0]->take({1, 1}).error().code, Code::pending);
  table.run();
  table.expect_answers({1, 1}, second);
}

TEST(Fusion, CallsOutOfTurnAreRefused) {
  Table table(2);
  Fusion& one = *table.fusions[0];
  const std::array<std::uint64_t, 2> sizes{};
  EXPECT_EQ(one.combine({}, sizes).error().code, Code::invalid_argument);
  EXPECT_EQ(one.spread({}, 0, sizes).error().code, Code::invalid_argument);
  EXPECT_EQ(one.spread_native({}).error().code, Code::invalid_argument);
  table.post({0, 0}, table.legs(std::span(kEvery).first(1)));
  table.seal();
  EXPECT_EQ(one.seal().error().code, Code::invalid_argument);
  EXPECT_EQ(one.spread({}, 0, sizes).error().code, Code::invalid_argument);
}

TEST(Fusion, AStepWithoutRoundsIsAStep) {
  Table table(3);
  table.run();
  EXPECT_EQ(table.fusions[1]->native(), Fusion::Native::none);
  EXPECT_EQ(table.fusions[1]->send_sizes()[2], kHeader);
  EXPECT_TRUE(table.fusions[1]->empty());
  const auto& legs = table.legs(kEvery);
  table.post({0, 0}, legs);
  table.run();
  table.expect_answers({0, 0}, legs);
}

TEST(Fusion, AnAbandonedEndTouchesNothing) {
  Table table(2);
  const auto& legs = table.legs(kEvery);
  table.post({0, 0}, legs);
  table.seal();
  Fusion& one = *table.fusions[0];
  one.abandon();
  const std::array<std::uint64_t, 2> sizes{};
  EXPECT_EQ(one.combine({}, sizes).error().code, Code::unavailable);
  EXPECT_EQ(one.seal().error().code, Code::unavailable);
  EXPECT_EQ(one.post({1, 0}, {}, legs[0].rounds).error().code, Code::unavailable);
  EXPECT_EQ(one.take({0, 0}).error().code, Code::invalid_argument);
  EXPECT_TRUE(one.empty());
}

TEST(Fusion, AStepAfterOneThatFailedIsAnswered) {
  Table table(2);
  const auto& legs = table.legs(kEvery);
  table.post({0, 1}, legs);
  table.seal();
  const std::vector<std::span<const std::byte>> none(2);
  for (const auto& fusion : table.fusions) {
    EXPECT_FALSE(fusion->combine(none).has_value());
    EXPECT_EQ(fusion->take({0, 1}).error().code, Code::malformed);
    EXPECT_NE(fusion->explain({0, 1}), "");
  }
  table.post({0, 1}, legs);
  table.run();
  table.expect_answers({0, 1}, legs);
  EXPECT_EQ(table.fusions[1]->explain({0, 1}), "");
}

// What a rank sends to all others together decides, and all ranks decide alike.
TEST(Fusion, StepsUpToTheStatedBytesAreNotCut) {
  const Reduction what{.op = Op::max, .bits = 8, .count = 100};
  for (const std::uint64_t most : {0u, 199u, 200u, 201u}) {
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      Fusion one(rank, 3, most);
      LegByHand leg;
      leg.add(what, 3, Bytes(100));
      ASSERT_TRUE(one.post({0, 0}, {}, leg.rounds));
      ASSERT_TRUE(one.seal());
      EXPECT_EQ(one.whole(), most >= 200) << most;
      EXPECT_EQ(one.native(), most >= 200 ? Fusion::Native::none : Fusion::Native::max);
      if (most < 200) continue;
      for (const std::uint64_t size : one.send_sizes()) EXPECT_EQ(size, kHeader + 100);
    }
  }
}

TEST(Fusion, WhatCannotBeReducedIsRefusedAndTaken) {
  const Reduction good{.op = Op::max, .bits = 8, .count = 8};
  const auto refused = [](Round round) {
    Fusion one(0, 2);
    EXPECT_TRUE(one.post({0, 0}, {}, {&round, 1}));
    const Status sealed = one.seal();
    EXPECT_FALSE(sealed.has_value());
    EXPECT_TRUE(one.empty());
    EXPECT_EQ(one.take({0, 0}).error().code, sealed.error().code);
    return sealed.error().code;
  };
  Bytes up(8);
  Bytes down(8);
  EXPECT_EQ(refused({{.op = Op::max, .bits = 33, .count = 8}, up, down, {}}),
            Code::invalid_argument);
  EXPECT_EQ(refused({{.op = Op::max, .bits = 8, .count = 0}, {}, down, {}}),
            Code::invalid_argument);
  EXPECT_EQ(refused({good, std::span(up).first(7), down, {}}), Code::malformed);
  EXPECT_EQ(refused({good, up, std::span(down).first(7), {}}), Code::invalid_argument);
  EXPECT_EQ(refused({good, up, down, WorkerSet(2).view()}), Code::invalid_argument);
  EXPECT_EQ(refused({good, up, down, WorkerSet::all(3).view()}), Code::invalid_argument);
  Fusion one(0, 2);
  EXPECT_EQ(one.post({0, 0}, {}, {}).error().code, Code::invalid_argument);
  const Round round{good, up, down, {}};
  const device::Accelerator device{&device::emulated(), 0};
  device::Bench bench(device, nullptr);
  EXPECT_EQ(one.post({0, 0}, Place{&bench}, {&round, 1}).error().code, Code::unavailable);
}

// ---- All-reduce.

TEST(Fusion, AllReduceGivesTheSameBytes) {
  std::vector<Reduction> maxima;
  for (std::uint8_t bits = 1; bits <= 32; ++bits) {
    maxima.push_back({.op = Op::max, .bits = bits, .count = 9 + bits * 7u});
  }
  const std::vector<Reduction> sums{{.op = Op::wrap_sum, .bits = 32, .count = 1001},
                                    {.op = Op::wrap_sum, .bits = 32, .count = 1}};
  for (const std::uint32_t n : {1u, 2u, 5u, 65u}) {
    for (const auto& reductions : {maxima, sums}) {
      Table table(n);
      auto& legs = table.legs(reductions);
      const WorkerSet all = WorkerSet::all(n);
      for (LegByHand& leg : legs) leg.rounds[0].only = all.view();
      table.post({0, 0}, legs);
      table.seal();
      const bool is_sum = reductions[0].op == Op::wrap_sum;
      EXPECT_EQ(table.fusions[0]->native(), is_sum ? Fusion::Native::sum : Fusion::Native::max);
      run_collectives(table.fusions, true);
      table.expect_answers({0, 0}, legs);
    }
  }
}

TEST(Fusion, AllReduceIsForWhatItCanDo) {
  const Reduction max{.op = Op::max, .bits = 8, .count = 8};
  const Reduction sum{.op = Op::wrap_sum, .bits = 32, .count = 8};
  const Reduction narrow_sum{.op = Op::wrap_sum, .bits = 16, .count = 8};
  const auto native = [](const std::vector<Reduction>& reductions, bool restricted) {
    Table table(3);
    WorkerSet some(3);
    some.insert(1);
    auto& legs = table.legs(reductions);
    for (LegByHand& leg : legs) {
      if (restricted) leg.rounds.back().only = some.view();
    }
    table.post({0, 0}, legs);
    table.seal();
    return table.fusions[0]->native();
  };
  EXPECT_EQ(native({max, max}, false), Fusion::Native::max);
  EXPECT_EQ(native({sum, sum}, false), Fusion::Native::sum);
  EXPECT_EQ(native({max, sum}, false), Fusion::Native::none);
  EXPECT_EQ(native({narrow_sum}, false), Fusion::Native::none);
  EXPECT_EQ(native({max, max}, true), Fusion::Native::none);
  EXPECT_EQ(native({sum}, true), Fusion::Native::none);
}

// A rank whose digest is the largest in every lane would not see it by maxima of the digest alone;
// of so many digests some are.
TEST(Fusion, AllReduceShowsDisagreementOnEveryRank) {
  for (const Op op : {Op::max, Op::wrap_sum}) {
    const Reduction what{.op = op, .bits = 32, .count = 20};
    for (std::uint64_t other = 2; other < 34; ++other) {
      Table table(4);
      const auto& legs = table.legs({&what, 1});
      for (std::uint32_t rank = 0; rank < 4; ++rank) {
        const Ticket ticket{0, rank == 2 ? other : 1u};
        ASSERT_TRUE(table.fusions[rank]->post(ticket, {}, legs[rank].rounds));
      }
      table.run(true);
      for (const auto& fusion : table.fusions) {
        const auto taken = fusion->take({0, 1});
        ASSERT_FALSE(taken.has_value()) << other;
        EXPECT_EQ(taken.error().code, Code::mismatch);
        EXPECT_EQ(taken.error().detail, -1);
        EXPECT_NE(fusion->explain({0, 1}).find("some rank"), std::string::npos);
      }
    }
  }
}

TEST(Fusion, RanksThatNameOthersAreSeenOnEveryRankThoughTheyNameAsMany) {
  for (const Reduction& what : kEvery) {
    Table table(70);
    auto& legs = table.legs({&what, 1});
    WorkerSet named(70);
    WorkerSet others(70);
    for (const std::uint32_t rank : {0u, 1u, 68u}) named.insert(rank);
    for (const std::uint32_t rank : {0u, 1u, 69u}) others.insert(rank);
    for (std::uint32_t rank = 0; rank < 70; ++rank) {
      legs[rank].rounds[0].only = rank == 5 ? others.view() : named.view();
    }
    table.post({0, 1}, legs);
    table.run(true);
    for (std::uint32_t rank = 0; rank < 70; ++rank) {
      const auto taken = table.fusions[rank]->take({0, 1});
      ASSERT_FALSE(taken.has_value()) << rank;
      EXPECT_EQ(taken.error().code, Code::mismatch);
      EXPECT_EQ(taken.error().detail, rank == 5 ? 0 : 5);
    }
  }
}

}  // namespace
}  // namespace sluice
