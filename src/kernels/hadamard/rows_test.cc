#include "kernels/hadamard/rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/random.h"
#include "kernels/energy/energy.h"
#include "kernels/hadamard/hadamard.h"
#include "kernels/hadamard/hadamard_values_test.h"
#include "kernels/level.h"

namespace sluice::hadamard {
namespace {

// What was written `offset` floats into guarded, aligned memory.
template <class Write>
std::vector<float> written(std::size_t count, std::size_t offset, const Write& write) {
  AlignedVector<float> memory(kGuard + offset + count + kGuard, kCanary);
  const auto inner = std::span(memory).subspan(kGuard + offset, count);
  write(inner);
  const auto before = std::span(memory).first(kGuard + offset);
  const auto after = std::span(memory).last(kGuard);
  const auto intact = [](float value) { return value == kCanary; };
  EXPECT_TRUE(std::all_of(before.begin(), before.end(), intact));
  EXPECT_TRUE(std::all_of(after.begin(), after.end(), intact));
  return {inner.begin(), inner.end()};
}

TEST(HadamardRows, AreRotatedAsByThemselvesAndMeasuredAsBefore) {
  for (std::size_t row = kRowMin; row <= kRowMax; row *= 2) {
    for (const std::size_t rows : {0u, 1u, 2u, 3u}) {
      for (const bool with_more : {false, true}) {
        const std::vector<float> from = random_values(row * rows, 1);
        const std::vector<float> more = random_values(with_more ? from.size() : 0, 2);
        const std::vector<std::uint32_t> words = random_words(from.size(), 3);
        std::vector<float> expected(from.size());
        std::vector<float> sums(from.size());
        for (std::size_t i = 0; i < from.size(); ++i) {
          sums[i] = with_more ? from[i] + more[i] : from[i];
        }
        for (std::size_t at = 0; at < from.size(); at += row) {
          scalar::rotate(std::span(sums).subspan(at, row), std::span(words).subspan(at / 32), 0, 1,
                         std::span(expected).subspan(at, row));
        }
        std::vector<float> energies(from.size() / kMeasured);
        energy::scalar::blocks(from, more, kMeasured, energies);
        at_each_level([&] {
          std::vector<float> measured(energies.size());
          const std::vector<float> into =
              written(from.size(), row % 7 + rows, [&](std::span<float> floats) {
                rotate_rows(from, more, words, row, floats, measured);
              });
          ASSERT_TRUE(same_bits(into, expected)) << row << " × " << rows;
          ASSERT_TRUE(same_bits(measured, energies)) << row << " × " << rows;
        });
      }
    }
  }
}

TEST(HadamardRows, OfSumsAreMeansUnrotatedHoweverTheyAreStored) {
  const RandomStream stream(4, Purpose::data, 0);
  for (std::size_t row = kRowMin; row <= kRowMax; row *= 2) {
    std::vector<std::int32_t> twice(2 * row);
    for (std::size_t i = 0; i < twice.size(); ++i) twice[i] = std::int32_t(stream.word(i) % 121);
    const std::vector<std::uint32_t> words = random_words(2 * row, 5);
    std::vector<float> expected(2 * row);
    const float units[] = {0.01f, 0.7f};
    for (std::size_t i = 0; i < 2 * row; ++i) {
      expected[i] = static_cast<float>(twice[i] - 60) * units[i / row];
    }
    for (std::size_t r = 0; r < 2; ++r) {
      const auto one = std::span(expected).subspan(r * row, row);
      scalar::unrotate(one, std::span(words).subspan(r * row / 32), 0, one);
    }
    at_each_level([&] {
      for (const Stores stores : {Stores::through, Stores::around}) {
        for (const std::size_t offset : {0u, 1u, 8u}) {
          const std::vector<float> into = written(2 * row, offset, [&](std::span<float> floats) {
            std::vector<SumRow> rows;
            for (std::size_t r = 0; r < 2; ++r) {
              rows.push_back({std::span(twice).subspan(r * row, row), units[r],
                              std::span(words).subspan(r * row / 32),
                              floats.subspan(r * row, row)});
            }
            unrotate_sums(60, rows, stores);
            finish_stores();
          });
          ASSERT_TRUE(same_bits(into, expected)) << row << " at " << offset;
        }
      }
    });
  }
}

TEST(HadamardRows, OfSeveralSizesMayBeGivenAtOnce) {
  const std::vector<std::int32_t> twice(1024 + 64 + 256, 33);
  const std::vector<std::uint32_t> words = random_words(1024, 6);
  std::vector<float> expected(twice.size());
  at_each_level([&] {
    std::vector<float> into(twice.size());
    const auto row_of = [&](std::size_t at, std::size_t size, std::vector<float>& memory) {
      return SumRow{std::span(twice).subspan(at, size), 0.5f, words,
                    std::span(memory).subspan(at, size)};
    };
    const std::vector<SumRow> rows{row_of(0, 1024, into), row_of(1024, 64, into),
                                   row_of(1088, 256, into)};
    unrotate_sums(7, rows, Stores::around);
    finish_stores();
    scalar::unrotate_sums(7, row_of(0, 1024, expected));
    scalar::unrotate_sums(7, row_of(1024, 64, expected));
    scalar::unrotate_sums(7, row_of(1088, 256, expected));
    EXPECT_TRUE(same_bits(into, expected));
    unrotate_sums(7, {}, Stores::around);
  });
}

TEST(Hadamard, RowsThenColumnsAreTheWholeTransform) {
  for (const std::size_t size : {8u, 64u, 1024u, 4096u, 65536u}) {
    const std::vector<float> original = random_values(size, 7);
    std::vector<float> expected = original;
    scalar::transform(expected);
    for (const std::size_t row : {std::size_t{1}, size / 8, size / 2, size}) {
      at_each_level([&] {
        std::vector<float> values = original;
        for (std::size_t at = 0; at < size; at += row)
          transform(std::span(values).subspan(at, row));
        transform_from(row, values);
        EXPECT_TRUE(same_bits(values, expected)) << size << " by " << row;
      });
    }
  }
}

TEST(HadamardRowsDeathTest, OddRowsAndShortSpansAreOurBugs) {
  std::vector<float> values(128);
  std::vector<float> energies(2);
  const std::vector<std::uint32_t> words(4);
  const std::vector<std::int32_t> twice(128);
  EXPECT_DEATH(rotate_rows(values, {}, words, 32, values, energies), "row");
  EXPECT_DEATH(rotate_rows(values, {}, words, 2048, values, energies), "row");
  EXPECT_DEATH(rotate_rows(std::span(values).first(100), {}, words, 64, values, energies), "row");
  EXPECT_DEATH(rotate_rows(values, std::span(values).first(64), words, 64, values, energies),
               "more");
  EXPECT_DEATH(rotate_rows(values, {}, std::span(words).first(3), 64, values, energies), "sign");
  EXPECT_DEATH(rotate_rows(values, {}, words, 64, values, std::span(energies).first(1)),
               "energies");
  const SumRow short_words{twice, 1, std::span(words).first(3), values};
  EXPECT_DEATH(unrotate_sums(0, {&short_words, 1}, Stores::through), "sign_words");
  const SumRow short_target{twice, 1, words, std::span(values).first(64)};
  EXPECT_DEATH(unrotate_sums(0, {&short_target, 1}, Stores::through), "into");
}

}  // namespace
}  // namespace sluice::hadamard
