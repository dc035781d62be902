#include "codec/tide/tide.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "base/bytes.h"
#include "codec/tide/tide_rounds_test.h"

namespace sluice::tide {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

void expect_words(const std::string& text, std::initializer_list<std::string_view> words) {
  for (const std::string_view word : words) EXPECT_NE(text.find(word), std::string::npos) << text;
}

// ---- Options.

TEST(TideOptions, ExtraBitsWithoutRoundingAreRefused) {
  for (unsigned extra = 0; extra <= 4; ++extra) {
    for (const Down down : {Down::full, Down::narrow}) {
      const auto made = make(options_of({.down = down, .extra = extra}));
      ASSERT_FALSE(made.has_value());
      EXPECT_EQ(made.error().code, sluice::Code::invalid_argument);
      expect_words(made.error().message, {"tide", "extra=" + std::to_string(extra), "extra=auto",
                                          "down=round", down == Down::full ? "full" : "narrow"});
    }
    EXPECT_TRUE(make(options_of({.down = Down::round, .extra = extra})).has_value());
  }
  EXPECT_TRUE(make(options_of({.down = Down::full})).has_value());
}

TEST(TideOptions, DefaultsAreTheReadmes) {
  EXPECT_EQ(kInfo.id, 6);
  EXPECT_EQ(kInfo.name, "tide");
  ASSERT_EQ(kOptions.size(), 6u);
  EXPECT_EQ(kOptions[0].preset, 4.0);
  EXPECT_EQ(kBlocks[static_cast<std::size_t>(kOptions[1].preset)], "256");
  EXPECT_EQ(kDowns[static_cast<std::size_t>(kOptions[2].preset)], "auto");
  EXPECT_EQ(kExtras[static_cast<std::size_t>(kOptions[3].preset)], "auto");
  EXPECT_EQ(kScales[static_cast<std::size_t>(kOptions[4].preset)], "now");
  EXPECT_EQ(kFloors[static_cast<std::size_t>(kOptions[5].preset)], "1");
}

TEST(TideOptions, SumsFollowTheFeedbackUnlessTold) {
  OptionValues options = options_of({});
  for (const bool feedback : {false, true}) {
    options.values[2] = 3;  // auto
    settle(options, feedback);
    EXPECT_EQ(kDowns[options.choice(2)], feedback ? "narrow" : "round");
    for (const Down down : {Down::full, Down::narrow, Down::round}) {
      OptionValues told = options_of({.down = down});
      settle(told, feedback);
      EXPECT_EQ(told.values, options_of({.down = down}).values);
    }
  }
}

// Where a rounded sum has as many bits as the codes can need, nothing is rounded.
TEST(TideOptions, FeedbackIsTakenWhereSumsLoseNothing) {
  const auto takes = [](const TideOptions& told, std::uint32_t workers) {
    return codec_of(told)->traits(workers).takes_feedback();
  };
  OptionValues follows = options_of({});
  follows.values[2] = 3;
  EXPECT_TRUE((*make(follows))->traits(64).takes_feedback());
  EXPECT_TRUE(takes({.down = Down::full}, 64));
  EXPECT_TRUE(takes({.down = Down::narrow}, 64));
  EXPECT_FALSE(takes({.down = Down::round}, 4));
  EXPECT_TRUE(takes({.down = Down::round}, 2)) << "one bit more is enough for two";
  EXPECT_TRUE(takes({.down = Down::round, .extra = 4}, 16));
  EXPECT_FALSE(takes({.down = Down::round, .extra = 4}, 17));
}

TEST(TideOptions, PlansFollowTheBlocksAndStateHasAWordForEach) {
  for (const std::uint32_t block : {64u, 128u, 256u, 512u, 1024u}) {
    for (const std::uint64_t count : {0u, 1u, 15u, 16u, 200u, 3000u, 65536u}) {
      const Tensor tensor{1, 1, count};
      const Plan now = codec_of({.block = block})->plan(tensor, 3);
      EXPECT_EQ(now.multiple_of, block);
      EXPECT_EQ(now.count_max, 1u << 26);
      EXPECT_EQ(now.state_size, 0u);
      const Plan previous = codec_of({.block = block, .scales = Scales::previous})->plan(tensor, 3);
      EXPECT_EQ(previous.state_size,
                2 * TideLayout(static_cast<std::uint32_t>(count), block).blocks());
    }
  }
}

TEST(TideOptions, BudgetsThatDoNotPayForTheScalesAreRefusedWithTheRange) {
  const auto codec = codec_of({.bits = 1, .block = 64});
  // 17 coordinates are blocks of 16 and 16, of which one is real: 24 bits of scales.
  const Verdict verdict = codec->accepts(std::vector<Tensor>{{1, 1, 17}}, 4);
  ASSERT_FALSE(verdict.has_value());
  EXPECT_EQ(verdict.error().code, sluice::Code::invalid_argument);
  expect_words(verdict.error().message, {"tide", "bits=1", "17 coordinates", "2 blocks", "24 bits",
                                         "1.42 to 8", "larger blocks"});
  EXPECT_TRUE(codec_of({.bits = 1.42, .block = 64})->accepts(std::vector<Tensor>{{1, 1, 17}}, 4));
  EXPECT_FALSE(codec_of({.bits = 1.41, .block = 64})->accepts(std::vector<Tensor>{{1, 1, 17}}, 4));
}

TEST(TideOptions, BudgetsAreThoseOfAllTensorsAndTinyOnesAreOutsideOfThem) {
  const auto codec = codec_of({.bits = 1, .block = 64});
  EXPECT_TRUE(codec->accepts(std::vector<Tensor>{}, 4));
  EXPECT_TRUE(codec->accepts(std::vector<Tensor>{{1, 1, 15}, {2, 3, 5}, {3, 1, 1}}, 4));
  EXPECT_TRUE(codec->accepts(std::vector<Tensor>{{1, 1, 16}}, 4));
  EXPECT_TRUE(codec->accepts(std::vector<Tensor>{{1, 1, 17}, {2, 1, 64}}, 4)) << "81 ≥ 36";
  EXPECT_FALSE(codec->accepts(std::vector<Tensor>{{1, 1, 17}, {2, 1, 15}}, 4));
}

// A worker alone, driven up to its codes.
struct UpToCodes {
  UpToCodes(const TideOptions& told, std::uint32_t n, const Floats& values)
      : codec(codec_of(told)), worker(*codec, 0, n, values) {
    const Round round = worker.ask();
    const WorkerSet all = WorkerSet::all(n);
    const Part part{0, round.what.count, all.view()};
    const Result<Leg> codes = worker.answer(round.up, {&part, 1});
    EXPECT_TRUE(codes.has_value());
    for (const Round& one : codes->rounds) {
      if (one.what.count != 0) rounds.push_back(one);
    }
  }
  std::unique_ptr<Codec> codec;
  support::WorkerByHand worker;
  std::vector<Round> rounds;
};

TEST(TideOptions, ExtraBitsOfARoundedSumFollowTheWorkersUnlessTold) {
  const Floats values = normals(64, 1);
  for (std::uint32_t n = 1; n <= 4096; ++n) {
    const UpToCodes test({.down = Down::round}, n, values);
    const auto half = static_cast<unsigned>(std::floor(std::log2(n) / 2 + 1e-9));
    for (const Round& round : test.rounds) {
      ASSERT_EQ(round.what.down, Down::round);
      ASSERT_EQ(round.what.extra, std::max(1u, half)) << n;
      ASSERT_TRUE(check(round.what, n).has_value()) << n;
    }
    if (n % 512 == 7) {
      EXPECT_EQ(UpToCodes({.down = Down::round, .extra = 3}, n, values).rounds[0].what.extra, 3);
      EXPECT_EQ(UpToCodes({.down = Down::full}, n, values).rounds[0].what.extra, 0);
    }
  }
}

// ---- Rounds.

// The codes' rounds: one per width that occurs, ascending, with the lanes that the README gives.
void expect_rounds(const std::vector<Went>& rounds, const std::vector<unsigned>& widths,
                   const TideLayout& layout, const TideOptions& told) {
  std::array<std::uint32_t, 9> lanes{};
  for (std::uint32_t b = 0; b < layout.blocks(); ++b) lanes[widths[b]] += layout[b].size;
  std::size_t at = 0;
  for (unsigned width = 1; width <= 8; ++width) {
    if (lanes[width] == 0) continue;
    ASSERT_LT(at, rounds.size());
    const Reduction& what = rounds[at++].what;
    ASSERT_EQ(what.op, Op::lane_sum);
    ASSERT_EQ(what.bits, width);
    ASSERT_EQ(what.count, lanes[width]);
    ASSERT_EQ(what.grain, told.block);
    ASSERT_EQ(what.down, told.down);
    ASSERT_TRUE(what.table.empty());
  }
  ASSERT_EQ(at, rounds.size());
}

// Bits of all rounds, bytes as they travel.
std::uint64_t bits_up(const Legs& legs) {
  std::uint64_t bits = 0;
  for (const auto& rounds : legs) {
    for (const Went& round : rounds) bits += 8 * round.ups[0].size();
  }
  return bits;
}

void expect_steps(const Legs& legs, const TideOptions& told, std::uint32_t count) {
  const TideLayout layout(count, told.block);
  ASSERT_EQ(legs.size(), 2u);
  ASSERT_EQ(legs[0].size(), 1u);
  ASSERT_TRUE(legs[0][0].what == (Reduction{.op = Op::max, .bits = 12, .count = layout.blocks()}));
  ASSERT_FALSE(legs[0][0].restricted);
  const auto codes = codes_of(legs[0][0].down, layout);
  expect_rounds(legs[1], widths_by_chunk(codes, layout, told.bits), layout, told);
  for (const Went& round : legs[1]) ASSERT_TRUE(round.restricted && round.from == legs[0][0].from);
  // Scales of an odd number of blocks end in half a byte; a budget may lie within it. A block that
  // exceeds what is left for codes has its turn all the same, once in a while.
  const double budget =
      std::max(std::floor(told.bits * count),
               12.0 * layout.blocks() + (count < 2 * told.block ? layout[0].size : 0));
  const std::uint64_t padding = layout.blocks() % 2 * 4;
  if (std::floor(told.bits * count) > 12.0 * layout.blocks()) {
    ASSERT_LE(static_cast<double>(bits_up(legs) - padding), budget);
  } else {
    ASSERT_TRUE(legs[1].empty()) << "nothing is left for codes";
  }
}

TEST(Tide, OneRoundOfScalesThenOnePerWidthWithinTheBudget) {
  for (const std::uint32_t block : {64u, 256u, 1024u}) {
    for (const double bits : {1.0, 1.3, 2.0, 2.71828, 4.0, 5.5, 7.99, 8.0}) {
      for (const std::uint32_t count :
           {16u, 17u, 63u, 64u, 200u, 255u, 256u, 257u, 1000u, 4096u, 5000u}) {
        const TideOptions told{.bits = bits, .block = block};
        SCOPED_TRACE(::testing::Message() << count << " in " << block << ", bits=" << bits);
        TideByHand group(told, 2, count);
        expect_steps(group.step(gradients_of(2, count, count + block)), told, count);
        if (::testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

TEST(Tide, WholeBytesOfTheBudgetAreKeptWhereBlocksAreEven) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    for (const double bits : {1.0, 1.7, 3.0, 4.25}) {
      TideByHand group({.bits = bits}, 1, 4096);
      const Legs legs = group.step(gradients_of(1, 4096, seed, 5));
      EXPECT_LE(static_cast<double>(bits_up(legs)), bits * 4096);
      EXPECT_GT(static_cast<double>(bits_up(legs)), bits * 4096 - 8 - 256) << "and it is used up";
    }
  }
}

TEST(Tide, ScaleCodesAreThoseOfInputAndResidualAndTheLargestIsAgreed) {
  TideByHand group({.block = 64}, 2, 128);
  std::vector<Floats> gradients{Floats(128, 0.5f), Floats(128, 0.25f)};
  group.residuals[0] = Floats(128, 0.5f);
  gradients[1][70] = 4;
  const Legs legs = group.step(gradients);
  const auto energy = [](double sum) { return std::lround(4 * std::log2(sum / 64) + 1200); };
  EXPECT_EQ(code_at(legs[0][0].ups[0], 0), 1200) << "(0.5 + 0.5)²";
  EXPECT_EQ(code_at(legs[0][0].ups[1], 0), 1184);
  EXPECT_EQ(code_at(legs[0][0].ups[1], 1), energy(63.0 / 16 + 16));
  EXPECT_EQ(code_at(legs[0][0].down, 0), 1200);
  EXPECT_EQ(code_at(legs[0][0].down, 1), std::max(1200l, energy(63.0 / 16 + 16)));
}

// ---- Who is counted.

TEST(Tide, AMissingWorkerSendsZerosKeepsEverythingAndIsInNobodysMean) {
  for (const Down down : {Down::full, Down::narrow, Down::round}) {
    TideByHand with({.bits = 6, .down = down}, 3, 300);
    std::vector<Floats> gradients = gradients_of(3, 300, 5);
    for (float& value : gradients[1]) value *= 1000;
    with.residuals[1] = normals(300, 9);
    const Floats kept = with.residuals[1];
    const Legs legs = with.step(gradients, {1});
    for (const Went& round : legs[1]) {
      EXPECT_EQ(round.ups[1], Bytes(round.ups[1].size())) << "its values may exceed the scale";
      EXPECT_EQ(round.from, (std::vector<bool>{true, false, true}));
    }
    for (std::size_t i = 0; i < 300; ++i) {
      ASSERT_EQ(with.residuals[1][i], gradients[1][i] + kept[i]);
      ASSERT_EQ(with.means[1][i], with.means[0][i]) << "it gets the mean all the same";
    }
    EXPECT_LT(vnmse(true_mean(gradients, {1}), with.means[0]), 0.005);
  }
}

TEST(Tide, AMissingWorkersInfinityStaysAway) {
  TideByHand group({.block = 64}, 2, 64);
  group.residuals[1] = Floats(64, 2.0f);
  const Legs legs = group.step({Floats(64, 1.0f), Floats(64, kInf)}, {1});
  EXPECT_EQ(legs[1][0].what.op, Op::lane_sum);
  for (const float mean : group.means[1]) EXPECT_TRUE(std::isfinite(mean));
  EXPECT_EQ(group.residuals[1], Floats(64, 2.0f));
}

// The mean of a subset is that of a world in which the others' dithers do not exist, up to the
// place of each dither: nothing of a missing one's is taken off.
TEST(Tide, OneCountedWorkerIsDecodedFromItsOwnCodes) {
  TideByHand group({.bits = 5}, 4, 512);
  const auto gradients = gradients_of(4, 512, 6);
  group.step(gradients, {0, 1, 3});
  for (std::size_t i = 0; i < 512; ++i) {
    ASSERT_EQ(group.residuals[2][i], gradients[2][i] - group.means[0][i])
        << "its residual is what the mean of one lacks, bit for bit";
  }
}

// ---- Edges.

TEST(Tide, ZerosAndNothing) {
  TideByHand zeros({.block = 64}, 2, 100);
  const Legs legs = zeros.step({Floats(100, -0.0f), Floats(100)});
  EXPECT_EQ(legs[0][0].down, Bytes(5)) << "three scale codes of zero";
  EXPECT_TRUE(legs[1].empty());
  EXPECT_EQ(zeros.means[0], Floats(100));
  EXPECT_FALSE(std::signbit(zeros.means[0][0]));
  EXPECT_EQ(zeros.residuals[1], Floats(100));

  TideByHand nothing({}, 2, 0);
  for (const auto& rounds : nothing.step({{}, {}})) EXPECT_TRUE(rounds.empty());
}

TEST(Tide, BlocksThatGetNoBitsHaveMeanZeroAndKeepEverything) {
  TideByHand group({.bits = 1, .block = 64, .floor = false}, 2, 1024);
  std::vector<Floats> gradients = gradients_of(2, 1024, 7, 1);
  for (auto& gradient : gradients) {
    for (std::size_t i = 256; i < 320; ++i) gradient[i] *= 1e-6f;
  }
  const Legs legs = group.step(gradients);
  const TideLayout layout(1024, 64);
  const auto widths = widths_by_chunk(codes_of(legs[0][0].down, layout), layout, 1, false);
  ASSERT_EQ(widths[4], 0u);
  for (std::size_t i = 256; i < 320; ++i) {
    ASSERT_EQ(group.means[1][i], 0.0f);
    ASSERT_EQ(group.residuals[0][i], gradients[0][i]);
  }
}

TEST(Tide, TensorsBelowSixteenTravelAsFloatsInOneRound) {
  for (std::uint32_t count = 1; count < 16; ++count) {
    TideByHand group({}, 3, count);
    const auto gradients = gradients_of(3, count, count);
    const Legs legs = group.step(gradients, {1});
    ASSERT_EQ(legs.size(), 1u);
    ASSERT_EQ(legs[0].size(), 1u);
    EXPECT_EQ(legs[0][0].what.op, Op::f32_sum);
    EXPECT_EQ(legs[0][0].ups[0].size(), 4 * count);
    for (std::uint32_t i = 0; i < count; ++i) {
      EXPECT_EQ(group.means[1][i], (gradients[0][i] + gradients[2][i]) / 2);
      EXPECT_EQ(group.residuals[0][i], 0.0f);
      EXPECT_EQ(group.residuals[1][i], gradients[1][i]) << "not counted";
    }
  }
}

TEST(Tide, TheMeanMayBeTheGradientsOwnMemory) {
  for (const bool feedback : {true, false}) {
    for (const std::uint32_t count : {10u, 5000u}) {
      auto gradients = gradients_of(3, count, 8);
      if (count > 10) gradients[1][700] = kNan;  // and a block that travels exactly
      TideByHand apart({.bits = 2}, 3, count, feedback);
      TideByHand same({.bits = 2}, 3, count, feedback);
      same.in_place = true;
      for (const std::vector<std::uint32_t>& missing : {std::vector<std::uint32_t>{}, {2}}) {
        apart.step(gradients, missing);
        same.step(gradients, missing);
        for (std::size_t rank = 0; rank < 3; ++rank) {
          for (std::size_t i = 0; i < count; ++i) {
            ASSERT_EQ(std::bit_cast<std::uint32_t>(same.means[rank][i]),
                      std::bit_cast<std::uint32_t>(apart.means[rank][i]));
          }
          ASSERT_EQ(same.residuals[rank], apart.residuals[rank]);
        }
      }
    }
  }
}

// ---- What is not finite.

TEST(Tide, InfinityAndNanArriveWhereTheyWereAndOtherBlocksDoNotNotice) {
  const std::uint32_t count = 64 * 5 + 16 + 5;
  std::vector<Floats> gradients = gradients_of(3, count, 9, 1);
  // The bad block is empty in the clean run, so that both runs spend alike on the others.
  std::vector<Floats> clean_gradients = gradients;
  for (auto& gradient : clean_gradients) std::fill_n(gradient.begin() + 128, 64, 0.0f);
  gradients[1][130] = kNan;
  gradients[0][131] = kInf;
  gradients[2][190] = -kInf;
  TideByHand clean({.bits = 5, .block = 64}, 3, count);
  clean.step(clean_gradients);
  TideByHand spoilt({.bits = 5, .block = 64}, 3, count);
  const Legs legs = spoilt.step(gradients);
  const Went& exact = legs[1].back();
  ASSERT_TRUE(exact.what == (Reduction{.op = Op::f32_sum, .bits = 32, .count = 64, .grain = 64}));
  EXPECT_EQ(code_at(legs[0][0].down, 2), 4095);
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    for (std::uint32_t i = 0; i < count; ++i) {
      const float mean = spoilt.means[rank][i];
      if (i < 128 || i >= 192) {
        ASSERT_EQ(mean, clean.means[0][i]) << i;
        continue;
      }
      ASSERT_EQ(load_le<float>(exact.ups[rank], 4 * (i - 128)) == gradients[rank][i],
                !std::isnan(gradients[rank][i]));
      const float sum = (gradients[0][i] + gradients[1][i]) + gradients[2][i];
      if (i == 130) {
        ASSERT_TRUE(std::isnan(mean));
      } else {
        ASSERT_EQ(mean, sum / 3) << i;
        ASSERT_TRUE(!std::isfinite(gradients[rank][i]) || spoilt.residuals[rank][i] == 0.0f);
      }
      ASSERT_TRUE(std::isfinite(spoilt.residuals[rank][i])) << i;
    }
  }
}

TEST(Tide, ABadTailIsPaddedWithZeros) {
  Floats values = normals(64 + 7, 10);
  values[70] = kInf;
  TideByHand group({.block = 64}, 2, 71);
  const Legs legs = group.step({values, normals(71, 11)});
  ASSERT_EQ(legs[1].back().what.count, 16u);
  for (std::size_t lane = 7; lane < 16; ++lane) {
    EXPECT_EQ(load_le<std::uint32_t>(legs[1].back().ups[0], 4 * lane), 0u);
  }
  EXPECT_EQ(group.means[0][70], kInf);
}

// Energy beyond float32, though every value is finite.
TEST(Tide, BlocksTooLargeToSquareTravelExactly) {
  TideByHand group({.block = 64}, 2, 64);
  group.step({Floats(64, 3e38f), Floats(64, -1e38f)});
  EXPECT_EQ(group.means[0], Floats(64, (3e38f - 1e38f) / 2));
  EXPECT_EQ(group.residuals[0], Floats(64));
}

TEST(Tide, AResidualNeverHoldsInfinityOrNan) {
  Floats bad(128, 1.0f);
  bad[3] = kNan;
  bad[5] = kInf;
  for (const std::vector<std::uint32_t>& missing : {std::vector<std::uint32_t>{}, {0}, {1}}) {
    TideByHand group({.block = 64}, 2, 128);
    group.residuals[0] = Floats(128, 0.5f);
    group.step({bad, Floats(128, 2.0f)}, missing);
    for (const Floats& residual : group.residuals) {
      for (const float rest : residual) ASSERT_TRUE(std::isfinite(rest));
    }
  }
}

// ---- Down forms.

TEST(Tide, NarrowSumsDecodeToTheBitsOfFullOnes) {
  for (const std::uint32_t n : {1u, 2u, 5u, 17u}) {
    const auto gradients = gradients_of(n, 1500, n);
    TideByHand full({.bits = 3, .down = Down::full}, n, 1500);
    TideByHand narrow({.bits = 3, .down = Down::narrow}, n, 1500);
    const Legs wide = full.step(gradients);
    const Legs tight = narrow.step(gradients);
    EXPECT_EQ(full.means, narrow.means);
    EXPECT_EQ(full.residuals, narrow.residuals);
    for (std::size_t i = 0; i < wide[1].size(); ++i) EXPECT_EQ(wide[1][i].ups, tight[1][i].ups);
  }
}

// Where the rounded lane holds every sum it is the full one.
TEST(Tide, RoundedSumsOfOneWorkerAreExact) {
  const auto gradients = gradients_of(1, 1000, 12);
  TideByHand full({.down = Down::full}, 1, 1000);
  TideByHand rounded({.down = Down::round, .extra = 0}, 1, 1000);
  full.step(gradients);
  rounded.step(gradients);
  EXPECT_EQ(full.means, rounded.means);
}

// A shift of s keeps a sum within (2^s − 1)/2 unless it is cut; in rotated coordinates that is the
// difference of two means, over m steps.
TEST(Tide, RoundedSumsAreWithinHalfOfWhatTheirShiftDrops) {
  const std::uint32_t n = 8;
  const auto gradients = gradients_of(n, 256, 13);
  TideByHand full({.down = Down::full}, n, 256);
  TideByHand rounded({.down = Down::round, .extra = 1}, n, 256);
  full.step(gradients);
  const Legs legs = rounded.step(gradients);
  ASSERT_EQ(legs[1].size(), 1u);
  const unsigned width = legs[1][0].what.bits;
  const auto shift = std::to_integer<unsigned>(legs[1][0].down[0]);
  ASSERT_GT(shift, 0u);
  const double scale = scale_of(code_at(legs[0][0].down, 0));
  const auto exact = rotated<float>(full.means[0], full.key, 256);
  const auto got = rotated<float>(rounded.means[0], full.key, 256);
  const double bound = (std::exp2(shift) - 1) / 2 * step_of(width) / n + float_error(width, 256);
  const double range = std::exp2(width + shift) * step_of(width) / n;  // of lanes that are not cut
  int inside = 0;
  for (std::size_t i = 0; i < 256; ++i) {
    if (std::fabs(exact[i]) / scale > range - step_of(width)) continue;
    ++inside;
    ASSERT_NEAR(got[i] / scale, exact[i] / scale, bound) << i;
  }
  EXPECT_GT(inside, 200);
  EXPECT_EQ(full.residuals, rounded.residuals) << "rounding of sums is in nobody's residual";
}

}  // namespace
}  // namespace sluice::tide
