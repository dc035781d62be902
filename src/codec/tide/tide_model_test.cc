// One waterline for the whole model, from the second step on.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/bytes.h"
#include "codec/tide/tide_rounds_test.h"

namespace sluice::tide {
namespace {

// All blocks of a model with the codes that were agreed.
struct Known {
  std::vector<Code12> codes;
  std::vector<TideLayout::Block> blocks;

  void add(const std::vector<Code12>& more, const TideLayout& layout) {
    for (std::uint32_t b = 0; b < layout.blocks(); ++b) {
      codes.push_back(more[b]);
      blocks.push_back(layout[b]);
    }
  }
  // One in `turns` live blocks has a bit at any waterline; 0: none.
  [[nodiscard]] double spent(std::int32_t waterline, double turns) const {
    double sum = 0;
    double silent = 0;
    for (std::size_t b = 0; b < codes.size(); ++b) {
      const unsigned width = deserved(codes[b], waterline);
      sum += 1.0 * blocks[b].size * width;
      silent += is_live(codes[b]) && width == 0 ? blocks[b].size : 0;
    }
    return sum + (turns == 0 ? 0 : std::ceil(silent / turns));
  }
  [[nodiscard]] double live() const {
    double sum = 0;
    for (std::size_t b = 0; b < codes.size(); ++b) sum += is_live(codes[b]) ? blocks[b].size : 0;
    return sum;
  }
  [[nodiscard]] double budget(double bits) const {
    double real = 0;
    for (const TideLayout::Block& block : blocks) real += block.count;
    return std::max(0.0, std::floor(bits * real) - 12.0 * static_cast<double>(blocks.size()));
  }
};

// The README's rule for one chunk, given all that is known of the model.
std::vector<unsigned> widths_by_model(const Known& known, const std::vector<Code12>& codes,
                                      const TideLayout& layout, const TideOptions& told,
                                      std::uint64_t key, std::uint64_t step) {
  double budget = known.budget(told.bits);
  double turns = told.floor ? 1 : 0;
  while (turns > 0 && std::ceil(known.live() / turns) > budget) turns *= 2;
  if (turns > 1) {
    const double spread =
        4 * std::sqrt(known.live() / told.block * (1 / turns) * (1 - 1 / turns)) * told.block;
    budget = std::max(std::ceil(known.live() / turns), budget - std::floor(spread));
  }
  std::int32_t waterline = 607;
  while (known.spent(waterline, turns) > budget) ++waterline;
  const double raise = known.spent(waterline - 1, turns) - known.spent(waterline, turns);
  const double left = budget - known.spent(waterline, turns);
  const double s = raise == 0 ? 0 : std::min(1.0, left / raise);
  const double share =
      raise == 0 ? 0 : std::max(0.0, s - 4 * std::sqrt(s * (1 - s) / (raise / told.block)));
  const RandomStream draws(key, Purpose::selection, kShared);
  std::vector<unsigned> widths;
  for (std::uint32_t b = 0; b < layout.blocks(); ++b) {
    const std::uint64_t hash = mix(mix(0x7475726e73, 1), layout[b].first);
    const bool turn =
        turns > 0 && is_live(codes[b]) && (hash + step) % static_cast<std::uint64_t>(turns) == 0;
    widths.push_back(std::max(turn ? 1u : 0u, deserved(codes[b], waterline)));
    const bool raised = deserved(codes[b], waterline - 1) > widths.back() &&
                        draws.word(layout[b].first / 16) < std::floor(share * 4294967296.0);
    widths.back() += raised ? 1 : 0;
  }
  return widths;
}

void expect_lanes(const std::vector<Went>& rounds, const std::vector<unsigned>& widths,
                  const TideLayout& layout) {
  std::array<std::uint32_t, 9> wanted{};
  for (std::uint32_t b = 0; b < layout.blocks(); ++b) wanted[widths[b]] += layout[b].size;
  std::array<std::uint32_t, 9> got{};
  for (const Went& round : rounds) {
    if (round.what.op == Op::lane_sum) got[round.what.bits] = round.what.count;
  }
  for (unsigned width = 1; width <= 8; ++width) EXPECT_EQ(got[width], wanted[width]) << width;
}

// Tensors of a model whose energies differ by `apart`, run by hand with a common model state.
struct Model {
  Model(const TideOptions& how, float apart) : told(how) {
    for (std::uint32_t t = 0; t < 2; ++t) {
      groups.emplace_back(told, 2, kCounts[t], false);
      groups[t].with_model = true;
      gradients.push_back(gradients_of(2, kCounts[t], 20 + t, 2));
      if (t == 0) continue;
      for (Floats& gradient : gradients[t]) {
        for (float& value : gradient) value *= apart;
      }
    }
  }
  std::vector<Legs> step(std::uint64_t number) {
    std::vector<Legs> logs;
    for (std::uint32_t t = 0; t < 2; ++t) {
      groups[t].key = chunk_key(1, number, t);
      groups[t].number = number;
      logs.push_back(groups[t].step(gradients[t]));
    }
    std::vector<std::uint64_t> tally = groups[0].tallies[0];
    for (std::size_t i = 0; i < tally.size(); ++i) tally[i] += groups[1].tallies[0][i];
    for (TideByHand& group : groups) {
      group.codec().end_step(tally, group.model);
      for (auto& mine : group.tallies) std::ranges::fill(mine, std::uint64_t{0});
    }
    return logs;
  }

  static constexpr std::array<std::uint32_t, 2> kCounts{20'000, 12'345};
  TideOptions told;
  std::vector<TideByHand> groups;
  std::vector<std::vector<Floats>> gradients;  // by tensor and rank
};

std::uint64_t bits_of(const std::vector<Went>& rounds) {
  std::uint64_t bits = 0;
  for (const Went& round : rounds) bits += std::uint64_t{round.what.bits} * round.what.count;
  return bits;
}

TEST(TideModel, LaterStepsFollowOneWaterlineOverAllTensors) {
  for (const double bits : {1.0, 1.5, 3.0, 4.0}) {
    for (const float apart : {1e-3f, 0.2f}) {
      const bool floor = apart < 0.01f || bits < 1.5;
      SCOPED_TRACE(::testing::Message() << bits << " bits, " << apart << ", floor " << floor);
      Model model({.bits = bits, .floor = floor}, apart);
      const auto first = model.step(0);
      Known known;
      for (std::uint32_t t = 0; t < 2; ++t) {
        const TideLayout layout(Model::kCounts[t], 256);
        const auto codes = codes_of(first[t][0][0].down, layout);
        expect_lanes(first[t][1], widths_by_chunk(codes, layout, bits, floor), layout);
        known.add(codes, layout);
      }
      const auto second = model.step(1);
      std::uint64_t up = 0;
      for (std::uint32_t t = 0; t < 2; ++t) {
        const TideLayout layout(Model::kCounts[t], 256);
        const auto codes = codes_of(second[t][0][0].down, layout);
        expect_lanes(second[t][1],
                     widths_by_model(known, codes, layout, model.told, model.groups[t].key, 1),
                     layout);
        up += bits_of(second[t][0]) + bits_of(second[t][1]);
      }
      const double most = bits * (Model::kCounts[0] + Model::kCounts[1]);
      EXPECT_LE(static_cast<double>(up), most);
      EXPECT_GT(static_cast<double>(up), (bits < 1.5 ? 0.7 : 0.9) * most);
      if (apart < 0.01f) {
        EXPECT_GT(bits_of(second[0][1]) * 12'345, bits_of(second[1][1]) * 20'000)
            << "bits go where the energy is";
      }
    }
  }
}

TEST(TideModel, KeptScalesAndTheWaterlineWorkTogether) {
  Model model({.bits = 3, .scales = Scales::previous}, 0.05f);
  Known known;
  const auto first = model.step(0);
  for (std::uint32_t t = 0; t < 2; ++t) {
    known.add(codes_of(first[t][0][0].down, TideLayout(Model::kCounts[t], 256)),
              TideLayout(Model::kCounts[t], 256));
  }
  const auto second = model.step(1);
  for (std::uint32_t t = 0; t < 2; ++t) {
    ASSERT_EQ(second[t].size(), 1u);
    const TideLayout layout(Model::kCounts[t], 256);
    const auto kept = codes_of(first[t][0][0].down, layout);
    expect_lanes(second[t][0],
                 widths_by_model(known, kept, layout, model.told, model.groups[t].key, 1), layout);
  }
}

// Rows of a table that are touched, others every step, beside a part that always is. `share` of the
// rows is touched on average; how many differs from step to step by up to a third.
std::vector<Floats> touched(std::vector<Floats> gradients, std::uint32_t step, double share) {
  std::mt19937 random(step);
  const double now = share * std::uniform_real_distribution<double>(2.0 / 3, 4.0 / 3)(random);
  const auto rows = static_cast<std::uint32_t>(gradients[0].size() / 256);
  for (std::uint32_t row = rows / 8; row < rows; ++row) {
    if (std::uniform_real_distribution<double>()(random) < now) continue;
    for (Floats& gradient : gradients) {
      std::fill_n(gradient.begin() + std::ptrdiff_t{256} * row, 256, 0.0f);
    }
  }
  return gradients;
}

// The budget was found for the rows of the step before. What a step sends beyond it is at most what
// the rows that are touched now would take at that waterline.
TEST(TideModel, BlocksThatWakeUpAddToTheBudget) {
  constexpr std::uint32_t kRows = 512;
  constexpr std::uint32_t kSteps = 40;
  std::vector<std::vector<Floats>> whole;
  for (std::uint32_t step = 0; step < kSteps; ++step) {
    whole.push_back(gradients_of(2, std::size_t{256} * kRows, 100 + step, 2));
  }
  for (const double bits : {1.5, 2.0, 3.0, 4.0}) {
    for (const double share : {0.1, 0.5}) {
      TideByHand group({.bits = bits}, 2, std::size_t{256} * kRows, false);
      group.with_model = true;
      const double most = bits * 256 * kRows;
      double worst = -1;
      double sum = 0;
      for (std::uint32_t step = 0; step < kSteps; ++step) {
        group.number = step;
        group.key = chunk_key(1, group.number, 1);
        const Legs legs = group.step(touched(whole[step], step, share));
        group.end_step();
        const double over = static_cast<double>(bits_of(legs[0]) + bits_of(legs[1])) / most - 1;
        if (step == 0) {
          EXPECT_LE(over, 0) << "the budget of a first step is its own";
          continue;
        }
        worst = std::max(worst, over);
        sum += over;
      }
      const double mean = sum / (kSteps - 1);
      // Twice as many live rows as before cost at most twice the budget, scales apart.
      EXPECT_LT(worst, 1) << bits << ", " << share;
      EXPECT_LT(mean, 0.05) << bits << ", " << share;
      GTEST_LOG_(INFO) << fmt::format("bits={}, {} of the rows: worst {:+.1f} %, mean {:+.1f} %",
                                      bits, share, 100 * worst, 100 * mean);
    }
  }
}

TEST(TideModel, TheTallyCountsEveryBlockOnceAndTinyTensorsNot) {
  TideByHand group({.block = 64}, 2, 1000, false);
  group.with_model = true;
  auto gradients = gradients_of(2, 1000, 3, 2);
  gradients[0][70] = INFINITY;
  const Legs legs = group.step(gradients);
  const TideLayout layout(1000, 64);
  std::vector<std::uint64_t> wanted(kCodeMost - kCodeLeast + 3u);
  for (std::uint32_t b = 0; b < layout.blocks(); ++b) {
    const Code12 code = code_at(legs[0][0].down, b);
    if (code != 4095) wanted[static_cast<std::size_t>(code - kCodeLeast)] += layout[b].size;
  }
  wanted[wanted.size() - 2] = 1000;
  wanted.back() = layout.blocks();
  EXPECT_EQ(group.tallies[0], wanted);

  TideByHand tiny({}, 2, 15, false);
  tiny.with_model = true;
  tiny.step(gradients_of(2, 15, 3));
  EXPECT_EQ(tiny.tallies[0], std::vector<std::uint64_t>(wanted.size()));
}

}  // namespace
}  // namespace sluice::tide
