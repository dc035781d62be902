// Sums as they are written and read back follow the rule.
#include "round/sum_rule_test.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "kernels/level.h"

namespace sluice {
namespace {

// Bytes and read-back of one case against the rule; returns how many ties there were.
int expect_rule(const Reduction& what, std::uint32_t n, std::uint32_t m, std::mt19937& random) {
  int ties = 0;
  const Naive naive(what, n, m);
  for (const SumsShape shape :
       {SumsShape::uniform, SumsShape::centred, SumsShape::constant, SumsShape::edges}) {
    const Sums sums = make_sums(shape, what.count, naive.top_value * m, random);
    std::vector<std::int32_t> wanted_back;
    const Bytes wanted = naive.write(sums, wanted_back, ties);
    EXPECT_EQ(written<std::uint32_t>(what, n, m, sums), wanted) << label(what, n, m);
    if (naive.full_bits <= 16) {
      EXPECT_EQ(written<std::uint16_t>(what, n, m, sums), wanted) << label(what, n, m);
    }
    if (naive.full_bits <= 8) {
      EXPECT_EQ(written<std::uint8_t>(what, n, m, sums), wanted) << label(what, n, m);
    }
    const auto back = read_all(what, n, m, wanted);
    EXPECT_TRUE(back.has_value()) << label(what, n, m) << ": " << back.error().what;
    if (!back) continue;
    EXPECT_EQ(*back, wanted_back) << label(what, n, m);
  }
  return ties;
}

std::vector<std::uint16_t> bent_table(unsigned bits, std::uint16_t largest) {
  std::vector<std::uint16_t> table(std::size_t{1} << bits);
  for (std::size_t i = 0; i < table.size(); ++i) {
    table[i] =
        static_cast<std::uint16_t>(largest * i * i / ((table.size() - 1) * (table.size() - 1)));
  }
  return table;
}

TEST(Sums, FullAndNarrowFollowTheRuleForEveryWidthAndContributorCount) {
  std::mt19937 random(1);
  for (const Down down : {Down::full, Down::narrow}) {
    for (std::uint8_t bits = 1; bits <= 8; ++bits) {
      for (const std::uint32_t n : {1u, 2u, 3u, 8u, 65u}) {
        for (std::uint32_t m = 1; m <= n; m += n > 8 ? 21 : 1) {
          for (const std::uint32_t grain : {0u, 8u, 40u}) {
            Reduction what{.op = Op::lane_sum, .bits = bits, .down = down, .count = 85};
            what.grain = grain;
            expect_rule(what, n, m, random);
          }
        }
      }
    }
  }
}

TEST(Sums, RoundedFollowsTheRuleForEveryContributorCount) {
  std::mt19937 random(2);
  int ties = 0;
  for (const std::uint32_t n : {1u, 2u, 3u, 5u, 8u, 16u, 64u}) {
    for (std::uint32_t m = 1; m <= n; ++m) {
      for (const std::uint8_t bits : Widths{1, 2, 4, 8}) {
        for (std::uint8_t extra = 0; extra <= 4; extra = static_cast<std::uint8_t>(extra + 2)) {
          Reduction what{.op = Op::lane_sum, .bits = bits, .down = Down::round, .count = 100};
          what.extra = extra;
          what.grain = 32;
          ties += expect_rule(what, n, m, random);
        }
      }
    }
  }
  EXPECT_GT(ties, 100) << "ties decide which shift is written, so the cases must contain some";
}

TEST(Sums, RoundedFollowsTheRuleForSeveralGrainsAndShortEnds) {
  std::mt19937 random(3);
  for (const std::uint32_t grain : {0u, 8u, 16u, 64u, 512u, 1024u, 2048u}) {
    for (const std::uint32_t count : {1u, 7u, 8u, 9u, 63u, 513u, 1025u, 2049u}) {
      for (const std::uint8_t extra : Widths{0, 3}) {
        Reduction what{.op = Op::lane_sum, .bits = 4, .down = Down::round, .count = count};
        what.extra = extra;
        what.grain = grain;
        expect_rule(what, 64, 61, random);
      }
    }
  }
}

TEST(Sums, TablesFollowTheRuleUpToTheWidestSums) {
  std::mt19937 random(4);
  for (const std::uint16_t largest : Values{1, 30, 999, 65535}) {
    for (const std::uint8_t bits : Widths{1, 4, 8}) {
      const auto table = bent_table(bits, largest);
      for (const std::uint32_t n : {1u, 7u, 4096u}) {
        for (const std::uint32_t m : {1u, (n + 1) / 2, n}) {
          for (const Down down : {Down::full, Down::narrow, Down::round}) {
            Reduction what{.op = Op::lane_sum, .bits = bits, .down = down, .count = 30};
            what.grain = 16;
            what.table = table;
            ASSERT_TRUE(check(what, n).has_value());
            expect_rule(what, n, m, random);
          }
        }
      }
    }
  }
}

TEST(Sums, EveryLevelFollowsTheRuleForEveryWidthUpToTheMostWorkers) {
  std::mt19937 random(9);
  const std::vector<std::uint32_t> grains{8, 16, 40, 64, 256, 264, 512, 1024};
  std::size_t turn = 0;
  for (const Level level : available_levels()) {
    SCOPED_TRACE(name_of(level));
    const ScopedLevel scoped(level);
    for (std::uint8_t bits = 1; bits <= 8; ++bits) {
      for (std::uint8_t extra = 0; extra <= 5; ++extra) {
        for (const std::uint32_t n : {1u, 4u, 30u, 300u, 4096u}) {
          Reduction what{.op = Op::lane_sum, .bits = bits};
          what.down = extra == 5 ? Down::full : extra == 4 ? Down::narrow : Down::round;
          what.extra = what.down == Down::round ? extra : 0;
          what.grain = grains[++turn % grains.size()];
          what.count = what.grain + 8 * (n % 3) + 3;
          expect_rule(what, n, 1 + static_cast<std::uint32_t>(random()) % n, random);
          expect_rule(what, n, n, random);
        }
      }
    }
  }
}

TEST(Sums, ATableOfZerosHasSumsOfOneBit) {
  const std::vector<std::uint16_t> zeros{0, 0};
  std::mt19937 random(5);
  for (const Down down : {Down::full, Down::narrow, Down::round}) {
    const Reduction what{
        .op = Op::lane_sum, .bits = 1, .down = down, .count = 20, .grain = 8, .table = zeros};
    expect_rule(what, 4096, 4096, random);
  }
}

TEST(Sums, RoundedIsFullWhereTheLanesAreWideEnough) {
  const Sums sums{0, 15, 30, 44, 45};
  const Reduction full{.op = Op::lane_sum, .bits = 4, .count = 5};
  Reduction round = full;
  round.down = Down::round;
  for (const std::uint8_t extra : Widths{2, 3, 20}) {
    round.extra = extra;
    EXPECT_EQ(written<std::uint8_t>(round, 3, 3, sums), written<std::uint8_t>(full, 3, 3, sums));
  }
  round.extra = 1;
  EXPECT_EQ(written<std::uint8_t>(round, 3, 3, sums).size(), 1 + 4u);
}

TEST(Sums, NarrowBytesAreThoseDoneByHand) {
  // Four workers of 8 bits: sums of up to 1020 need 10 bits, so the minimum takes two bytes.
  const Reduction what{
      .op = Op::lane_sum, .bits = 8, .down = Down::narrow, .count = 10, .grain = 8};
  const Sums sums{600, 601, 602, 603, 604, 605, 606, 607, 1020, 1020};
  const Bytes wanted{std::byte{3},    std::byte{0x58}, std::byte{0x02},
                     std::byte{0x88}, std::byte{0xc6}, std::byte{0xfa},
                     std::byte{0},    std::byte{0xfc}, std::byte{0x03}};
  EXPECT_EQ(written<std::uint16_t>(what, 4, 4, sums), wanted);
}

TEST(Sums, RoundedBytesAreThoseDoneByHand) {
  // Four workers of 2 bits, b = 2: centre (12 + 1) >> 1 = 6. Around it shift 0 keeps 4 … 7 exactly.
  Reduction what{.op = Op::lane_sum, .bits = 2, .down = Down::round, .count = 8, .grain = 8};
  EXPECT_EQ(written<std::uint8_t>(what, 4, 4, {4, 5, 6, 7, 4, 5, 6, 7}),
            (Bytes{std::byte{0}, std::byte{0xe4}, std::byte{0xe4}}));
  // At the edges shift 2 wins: cells of 4 from 6 − 8, read back as −1, 7, 15, 23 halves.
  const Bytes edges = written<std::uint8_t>(what, 4, 4, {0, 0, 0, 12, 12, 12, 0, 12});
  EXPECT_EQ(edges, (Bytes{std::byte{2}, std::byte{0xc0}, std::byte{0xcf}}));
  EXPECT_EQ(*read_all(what, 4, 4, edges),
            (std::vector<std::int32_t>{-1, -1, -1, 23, 23, 23, -1, 23}));
}

}  // namespace
}  // namespace sluice
