// The wire format, byte for byte. golden/*.txt come from golden/make_tide_golden.py, which was
// written from the README and shares nothing with the library.
#include <gtest/gtest.h>

#include <fstream>
#include <limits>
#include <sstream>
#include <string>

#include "codec/tide/tide_rounds_test.h"
#include "kernels/level.h"
#include "tests/support/hex.h"

namespace sluice::tide {
namespace {

using support::hex;
std::string hex(const Floats& values) { return hex(std::as_bytes(std::span(values))); }

// Integers by powers of two: no program rounds them.
float value(std::uint32_t worker, std::uint32_t i, std::uint32_t step) {
  const std::uint32_t number = (i * 37 + worker * 53 + step * 29 + i * i * 7) % 101;
  return std::ldexp(static_cast<float>(number) - 50.0f, -4 - 2 * static_cast<int>(i / 64 % 3));
}

std::vector<Floats> gradients_at(std::uint32_t n, std::uint32_t count, std::uint32_t step) {
  std::vector<Floats> gradients(n, Floats(count));
  for (std::uint32_t k = 0; k < n; ++k) {
    for (std::uint32_t i = 0; i < count; ++i) gradients[k][i] = value(k, i, step);
  }
  return gradients;
}

// Three blocks of 64 in four have almost nothing.
std::vector<Floats> weak_gradients_at(std::uint32_t n, std::uint32_t count, std::uint32_t step) {
  auto gradients = gradients_at(n, count, step);
  for (Floats& gradient : gradients) {
    for (std::uint32_t i = 0; i < count; ++i) {
      if (i / 64 % 4 != 0) gradient[i] = std::ldexp(gradient[i], -12);
    }
  }
  return gradients;
}

// What happens, in the words of the golden files.
class Diary {
 public:
  Diary(const TideOptions& told, std::uint32_t n, std::uint32_t count, bool feedback)
      : group(told, n, count, feedback) {}

  void step(std::uint64_t number, const std::vector<Floats>& gradients,
            const std::vector<std::uint32_t>& missing = {}) {
    group.key = chunk_key(7, number, 1);
    group.number = number;
    // In the kept scales' second step a leg of the exchange says which blocks went again.
    const bool kept = number > 3 && !group.states[0].empty();
    const Legs legs = group.step(gradients, missing);
    text << "step " << number << '\n';
    for (std::size_t i = 0; i < legs.size(); ++i) {
      if (kept && i == 1) text << "again\n";
      for (const Went& round : legs[i]) note(round);
    }
    for (const Floats& mean : group.means) EXPECT_EQ(hex(mean), hex(group.means[0]));
    text << "mean " << hex(group.means[0]) << '\n';
    for (std::size_t k = 0; k < group.residuals.size() && !group.residuals[k].empty(); ++k) {
      text << "residual " << k << ' ' << hex(group.residuals[k]) << '\n';
    }
    if (group.with_model) group.end_step();
  }
  void expect_golden(const std::string& name) const {
    std::string path(SLUICE_TEST_DATA);
    path += "/../../src/codec/tide/golden/" + name + ".txt";
    std::ifstream file(path);
    ASSERT_TRUE(file.good()) << path;
    std::istringstream mine(text.str());
    std::string wanted;
    std::string got;
    for (int line = 1; std::getline(file, wanted); ++line) {
      ASSERT_TRUE(std::getline(mine, got)) << name << ": ends before line " << line;
      ASSERT_EQ(got, wanted) << name << ", line " << line;
    }
    EXPECT_FALSE(std::getline(mine, got)) << name << ": goes on with " << got;
  }

  TideByHand group;

 private:
  void note(const Went& round) {
    text << "round " << name_of(round.what.op) << ' ' << int{round.what.bits} << ' '
         << round.what.count << '\n';
    for (std::size_t k = 0; k < round.ups.size(); ++k) {
      text << "up " << k << ' ' << hex(round.ups[k]) << '\n';
    }
    text << "down " << hex(round.down) << '\n';
  }

  std::ostringstream text;
};

// Every instruction set writes the same book.
class TideGolden : public ::testing::TestWithParam<Level> {
 private:
  ScopedLevel level_{GetParam()};
};

TEST_P(TideGolden, FullSumsOfEverybody) {
  Diary diary({.bits = 4, .block = 256, .down = Down::full, .floor = false}, 2, 200, false);
  diary.step(3, gradients_at(2, 200, 0));
  diary.expect_golden("full");
}

TEST_P(TideGolden, RoundedSumsWithFeedbackAndAWorkerMissing) {
  Diary diary({.bits = 3, .block = 64, .down = Down::round, .floor = false}, 3, 300, true);
  for (const std::uint32_t step : {3u, 4u}) diary.step(step, gradients_at(3, 300, step), {1});
  diary.expect_golden("round");
}

TEST_P(TideGolden, NarrowSumsAndABlockThatTravelsExactly) {
  Diary diary({.bits = 5, .block = 64, .down = Down::narrow, .floor = false}, 2, 200, true);
  auto gradients = gradients_at(2, 200, 0);
  gradients[1][70] = std::numeric_limits<float>::infinity();
  diary.step(3, gradients);
  diary.expect_golden("infinite");
}

TEST_P(TideGolden, KeptScalesWithABlockSentAgainAndOneDamped) {
  Diary diary({.bits = 4, .block = 64, .scales = Scales::previous, .floor = false}, 2, 330, true);
  diary.step(3, gradients_at(2, 330, 3));
  auto gradients = gradients_at(2, 330, 4);
  for (Floats& gradient : gradients) {
    for (std::size_t i = 0; i < 128; ++i) gradient[i] *= i < 64 ? 64.0f : 2.0f;
  }
  diary.step(4, gradients);
  diary.expect_golden("previous");
}

TEST_P(TideGolden, ASecondStepByTheModelsWaterline) {
  Diary diary({.bits = 3.5, .block = 64, .floor = false}, 2, 64 * 24, false);
  diary.group.with_model = true;
  for (const std::uint32_t step : {3u, 4u}) diary.step(step, gradients_at(2, 64 * 24, step));
  diary.expect_golden("model");
}

TEST_P(TideGolden, WeakBlocksHaveABitInBothSteps) {
  Diary diary({.bits = 2, .block = 64}, 2, 64 * 24 + 40, false);
  diary.group.with_model = true;
  for (const std::uint32_t step : {3u, 4u}) diary.step(step, weak_gradients_at(2, 1576, step));
  diary.expect_golden("floor");
}

TEST_P(TideGolden, WeakBlocksTakeTurnsWhereTheBudgetCannotPay) {
  Diary diary({.bits = 1, .block = 64}, 2, 64 * 24 + 40, false);
  diary.group.with_model = true;
  for (const std::uint32_t step : {3u, 4u, 5u, 6u}) {
    diary.step(step, weak_gradients_at(2, 1576, step));
  }
  diary.expect_golden("turns");
}

TEST_P(TideGolden, KeptScalesWithABlockThatWakesUp) {
  Diary diary({.bits = 2, .block = 64, .down = Down::narrow, .scales = Scales::previous}, 2, 330,
              true);
  auto gradients = weak_gradients_at(2, 330, 3);
  for (Floats& gradient : gradients) std::fill_n(gradient.begin(), 128, 0.0f);
  diary.step(3, gradients);
  diary.step(4, weak_gradients_at(2, 330, 4));
  diary.expect_golden("woken");
}

// By block of 64: faint and twice as large, faint and then not, the other way round, faint and then
// zero, and at the end faint and then much fainter, while worker 0 waits.
TEST_P(TideGolden, KeptScalesOfFaintBlocks) {
  Diary diary({.bits = 4, .block = 64, .down = Down::narrow, .scales = Scales::previous}, 2, 300,
              true);
  constexpr int kZero = 1000;
  const std::array<std::array<int, 5>, 2> shifts{{{80, 120, 0, 100, 70}, {79, 10, 70, kZero, 110}}};
  for (const std::uint32_t step : {3u, 4u}) {
    auto gradients = gradients_at(2, 300, step);
    for (Floats& gradient : gradients) {
      for (std::size_t i = 0; i < 300; ++i) {
        gradient[i] = std::ldexp(gradient[i], -shifts[step - 3][i / 64]);
      }
    }
    if (step == 4) std::fill(gradients[0].begin() + 256, gradients[0].end(), 0.0f);
    diary.step(step, gradients);
  }
  diary.expect_golden("faint");
}

INSTANTIATE_TEST_SUITE_P(Levels, TideGolden, ::testing::ValuesIn(available_levels()),
                         [](const auto& one) { return std::string(name_of(one.param)); });

}  // namespace
}  // namespace sluice::tide
