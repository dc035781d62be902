#include "codec/thc/thc.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <string>

#include "base/bytes.h"
#include "codec/thc/thc_rounds_test.h"
#include "tests/support/hex.h"

namespace sluice::thc {
namespace {

using support::expect_malformed;
using support::hex;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kMax = std::numeric_limits<float>::max();

std::uint32_t key_at(const Bytes& bytes, std::size_t index) {
  return load_le<std::uint32_t>(bytes, 4 * index);
}

std::string refusal(const Given& given) {
  const auto made = make(options_of(given));
  EXPECT_FALSE(made.has_value());
  EXPECT_TRUE(made || made.error().code == Code::invalid_argument);
  return made ? "" : made.error().message;
}

void expect_words(const std::string& text, std::initializer_list<std::string_view> words) {
  for (const std::string_view word : words) EXPECT_NE(text.find(word), std::string::npos) << text;
}

TEST(ThcOptions, ContradictionsAreRefusedWithWhatIsAccepted) {
  expect_words(refusal({{kGrid, 14}}), {"g=14", "bits=4", "15 to 4095"});
  expect_words(refusal({{kBits, 8}, {kGrid, 30}}), {"g=30", "bits=8", "255 to 4095"});
  expect_words(refusal({{kRotation, 1000}}), {"rotation=1000", "power of two"});
  expect_words(refusal({{kRotation, 8}}), {"rotation=8", "grouping=blocks", "16 to 1048576"});
  expect_words(refusal({{kRotation, 1}, {kGrouping, 2}}), {"rotation=1", "grouping=full"});
  expect_words(refusal({{kRange, 1}, {kRotation, 1024}}), {"rotation=1024", "minmax", "0 or 1"});
  expect_words(refusal({{kRange, 1}, {kGrouping, 1}}), {"strided", "minmax", "blocks or full"});
  expect_words(refusal({{kRange, 1}, {kGrid, 30}}), {"g=30", "minmax", "0 or 15"});
  expect_words(refusal({{kRange, 1}, {kMass, 0.1}}), {"p=0.1", "minmax", "default"});
  expect_words(refusal({{kExtra, 1}}), {"extra=1", "down=full", "down=round"});
}

TEST(ThcOptions, EveryWidthWorksWithoutNamingAGrid) {
  for (std::uint32_t bits = 1; bits <= 8; ++bits) {
    const auto codec = codec_of({{kBits, bits}});
    WorkersByHand team = workers_of(*codec, normal_gradients(2, 100, bits));
    const Legs legs = run(team);
    EXPECT_EQ(legs[1][0].what.bits, bits);
    EXPECT_EQ(value_max(legs[1][0].what), bits == 4 ? 30u : (1u << bits) - 1);
  }
}

TEST(ThcOptions, PlansFollowTheBlocks) {
  const auto plan_of = [](const Given& given) { return codec_of(given)->plan({}, 3); };
  EXPECT_EQ(plan_of({}).multiple_of, 1024u);
  EXPECT_EQ(plan_of({}).count_max, 1u << 20);
  EXPECT_EQ(plan_of({{kRotation, 16}}).multiple_of, 16u);
  EXPECT_EQ(plan_of({{kRotation, 1 << 20}}).multiple_of, 1u << 20);
  EXPECT_EQ(plan_of({{kGrouping, 1}}).multiple_of, 1u << 20);
  EXPECT_EQ(plan_of({{kGrouping, 2}}).multiple_of, 1u << 20);
  EXPECT_EQ(plan_of({{kGrouping, 2}, {kRotation, 4096}}).count_max, 4096u);
  EXPECT_EQ(plan_of({{kRange, 1}}).multiple_of, 1024u);
}

// Error feedback only where a step takes something off.
TEST(ThcOptions, OneBitWithTheDefaultClampIsNoContraction) {
  EXPECT_EQ(codec_of()->traits(8).contraction, Contraction::typical);
  EXPECT_EQ(codec_of({{kBits, 1}})->traits(8).contraction, Contraction::never);
  EXPECT_EQ(codec_of({{kBits, 1}, {kMass, 0.5}})->traits(8).contraction, Contraction::typical);
  EXPECT_EQ(codec_of({{kBits, 1}, {kRange, 1}})->traits(8).contraction, Contraction::never);
  EXPECT_FALSE(codec_of()->traits(8).unbiased);
}

TEST(Thc, TwoStepsOneGrainOfNormsThenOneLanePerCoordinate) {
  const auto codec = codec_of();
  WorkersByHand team = workers_of(*codec, normal_gradients(3, 5000, 1));
  const Legs legs = run(team);
  ASSERT_EQ(legs.size(), 2u);
  // 4 blocks of 1024, then 512, 256, 128, 8.
  EXPECT_TRUE(legs[0][0].what == (Reduction{.op = Op::max, .bits = 32, .count = 8}));
  ASSERT_EQ(legs[1].size(), 1u);
  const Reduction& codes = legs[1][0].what;
  EXPECT_EQ(codes.op, Op::lane_sum);
  EXPECT_EQ(codes.bits, 4);
  EXPECT_EQ(codes.count, 5000u);
  EXPECT_EQ(codes.grain, 256u);
  EXPECT_EQ(sum_bits(codes, 3), 7u);
}

TEST(Thc, KeysAreNormsAndTheirMaximumIsAgreed) {
  Floats first(1024 + 2, 0.0f);
  first[5] = 3;
  first[900] = -4;
  first[1024] = 1;
  Floats second(1024 + 2, 0.0f);
  second[7] = 2;
  second[1025] = -8;
  const auto codec = codec_of();
  WorkersByHand team = workers_of(*codec, {first, second});
  const Legs legs = run(team);
  EXPECT_EQ(key_at(legs[0][0].ups[0], 0), std::bit_cast<std::uint32_t>(5.0f));
  EXPECT_EQ(key_at(legs[0][0].ups[0], 1), std::bit_cast<std::uint32_t>(1.0f));
  EXPECT_EQ(key_at(legs[0][0].ups[1], 1), std::bit_cast<std::uint32_t>(8.0f));
  EXPECT_EQ(key_at(legs[0][0].down, 0), std::bit_cast<std::uint32_t>(5.0f));
  EXPECT_EQ(key_at(legs[0][0].down, 1), std::bit_cast<std::uint32_t>(8.0f));
}

// Blocks of 16, 4, 2 and 1; the other program was written from the README.
TEST(Thc, SmallCaseHasTheBytesThatAnotherProgramComputed) {
  std::vector<Floats> gradients(2, Floats(23));
  for (int worker = 0; worker < 2; ++worker) {
    for (int i = 0; i < 23; ++i) {
      gradients[static_cast<std::size_t>(worker)][static_cast<std::size_t>(i)] = static_cast<float>(
          ((i * 37 % 101) - 50) * 0.013 * (worker + 1) * (i >= 16 ? 100.0 : 1.0));
    }
  }
  const auto codec = codec_of({{kRotation, 16}});
  WorkersByHand team = workers_of(*codec, gradients);
  for (auto& worker : team) {
    worker->chunk.key = 0x0123456789abcdef;
    worker->restart();
  }
  const Legs legs = run(team);
  ASSERT_EQ(legs.size(), 2u);
  EXPECT_EQ(hex(legs[0][0].ups[0]), "e7d2c43f049aac426a7e0842cdcc6442");
  EXPECT_EQ(hex(legs[0][0].down), "e7d24440049a2c436a7e8842cdcce442");
  EXPECT_EQ(hex(legs[1][0].ups[0]), "67554477599687b56b98740a");
  EXPECT_EQ(hex(legs[1][0].ups[1]), "563410792ba587d26ea8820b");
  EXPECT_EQ(hex(legs[1][0].down), "1c464909037a2684911e08b9b00692ce8702");
  EXPECT_EQ(hex(std::as_bytes(std::span(team[0]->mean))),
            "11c373bfaf3a70bee429e93e246f50bfdc9229bd391b2d3f371b2dbf67b4373e7fa1653f2ec5bebe"
            "7a60943e80a165bfab3a70be764bf73eed7f57bf301962bc16508842b00e5fc275b49441d418a142"
            "cbfe12c23b982642d244a4c2");
}

TEST(Thc, BlocksOfZerosAreLeftOut) {
  auto gradients = normal_gradients(2, 4096 + 7, 2);
  for (Floats& gradient : gradients) {
    std::fill(gradient.begin() + 1024, gradient.begin() + 2048, 0.0f);
    gradient[4096] = gradient[4097] = gradient[4098] = gradient[4099] = -0.0f;
  }
  const auto codec = codec_of();
  WorkersByHand team = workers_of(*codec, gradients, {Floats(4103), Floats(4103)});
  const Legs legs = run(team);
  EXPECT_EQ(legs[1][0].what.count, 3072u + 3u);
  for (std::size_t i = 1024; i < 2048; ++i) {
    ASSERT_EQ(std::bit_cast<std::uint32_t>(team[1]->mean[i]), 0u);
    ASSERT_EQ(team[1]->residual[i], 0.0f);
  }
  for (std::size_t i = 4096; i < 4100; ++i) EXPECT_EQ(team[0]->mean[i], 0.0f);
  EXPECT_NE(team[0]->mean[4100], 0.0f);
}

TEST(Thc, AChunkOfZerosAndAChunkOfNothing) {
  const auto codec = codec_of();
  WorkersByHand zeros =
      workers_of(*codec, {Floats(2000), Floats(2000)}, {Floats(2000), Floats(2000)});
  const Legs legs = run(zeros);
  EXPECT_EQ(legs[1][0].what.count, 0u);
  EXPECT_EQ(zeros[0]->mean, Floats(2000));
  EXPECT_EQ(zeros[0]->residual, Floats(2000));

  WorkersByHand nothing = workers_of(*codec, {{}, {}});
  EXPECT_EQ(run(nothing).size(), 2u);
}

// The error of a tail is that of the codes: no coordinate is padded, dropped or moved.
TEST(Thc, TailsOfEveryLength) {
  std::vector<std::size_t> counts;
  for (std::size_t count = 1; count <= 40; ++count) counts.push_back(count);
  for (const std::size_t power : {64u, 128u, 256u, 512u, 1024u, 2048u, 4096u}) {
    for (const std::size_t count : {power - 1, power, power + 1, power + 7})
      counts.push_back(count);
  }
  for (Given given :
       {Given{{kBits, 8}, {kMass, 1e-6}}, Given{{kBits, 8}, {kMass, 1e-6}, {kRotation, 16}},
        Given{{kBits, 7}, {kMass, 1e-6}, {kGrouping, 1}, {kRotation, 32}},
        Given{{kBits, 8}, {kMass, 1e-6}, {kGrouping, 2}}, Given{{kBits, 8}, {kRange, 1}}}) {
    const auto codec = codec_of(given);
    for (const std::size_t count : counts) {
      const auto gradients = normal_gradients(3, count, static_cast<unsigned>(count));
      WorkersByHand team = workers_of(*codec, gradients);
      const Legs legs = run(team);
      EXPECT_EQ(legs[1][0].what.count, count);
      EXPECT_LT(nmse(gradients, team[0]->mean), 5e-3) << count;
      EXPECT_EQ(team[0]->mean, team[2]->mean);
    }
  }
}

// Borders, signs and draws follow the tensor, so how it is cut into chunks changes nothing.
TEST(Thc, ChunksDoNotMatter) {
  const std::uint32_t count = 5000;
  const auto gradients = normal_gradients(2, count, 3);
  for (const Given& given : {Given{}, Given{{kRotation, 16}, {kRounding, 1}}}) {
    const auto codec = codec_of(given);
    WorkersByHand whole = workers_of(*codec, gradients);
    run(whole);
    Floats pieced;
    for (std::uint32_t first = 0; first < count; first += 2048) {
      const std::uint32_t size = std::min(2048u, count - first);
      std::vector<Floats> parts;
      for (const Floats& gradient : gradients) {
        parts.emplace_back(gradient.begin() + first, gradient.begin() + first + size);
      }
      WorkersByHand team = workers_of(*codec, parts);
      for (auto& worker : team) {
        worker->chunk.extent.tensor.cols = count;
        worker->chunk.extent.offset = first;
        worker->restart();
      }
      run(team);
      pieced.insert(pieced.end(), team[0]->mean.begin(), team[0]->mean.end());
    }
    EXPECT_EQ(pieced, whole[0]->mean);
  }
}

TEST(Thc, NarrowAnswersGiveTheSameMeanAndRoundedOnesAreNear) {
  const auto gradients = normal_gradients(6, 3000, 4);
  const auto mean_with = [&](const Given& given) {
    const auto codec = codec_of(given);
    WorkersByHand team = workers_of(*codec, gradients);
    run(team);
    return team[3]->mean;
  };
  const Floats full = mean_with({});
  EXPECT_EQ(mean_with({{kDown, 1}}), full);
  EXPECT_EQ(mean_with({{kDown, 2}, {kExtra, 4}}), full) << "8 bits hold 6 sums of 30";
  const double exact = nmse(gradients, full);
  const double rounded = nmse(gradients, mean_with({{kDown, 2}, {kExtra, 2}}));
  EXPECT_GT(rounded, exact);
  EXPECT_LT(rounded, 1.2 * exact);
}

TEST(Thc, InfinityAndNanArriveWhereTheyWereAndOtherBlocksDoNotNotice) {
  for (const Given& given : {Given{}, Given{{kRange, 1}}}) {
    const auto codec = codec_of(given);
    auto gradients = normal_gradients(3, 3000, 5);
    WorkersByHand clean = workers_of(*codec, gradients);
    run(clean);
    gradients[1][40] = kNan;
    gradients[0][41] = kInf;
    gradients[2][2999] = -kInf;
    WorkersByHand spoilt = workers_of(*codec, gradients);
    const Legs legs = run(spoilt);
    ASSERT_EQ(legs[1].size(), 2u);
    EXPECT_EQ(legs[1][1].what.count, 1024u + 8u);
    EXPECT_EQ(legs[1][0].what.count, 3000u - 1024u - 8u);
    for (const auto& worker : spoilt) {
      for (std::size_t i = 0; i < 3000; ++i) {
        if (i >= 1024 && i < 2992) {
          // Codes lie elsewhere in the round, draws do not.
          ASSERT_EQ(worker->mean[i], clean[0]->mean[i]) << i;
          continue;
        }
        const float sum = gradients[0][i] + gradients[1][i] + gradients[2][i];
        if (i == 40) {
          ASSERT_EQ(std::bit_cast<std::uint32_t>(worker->mean[i]), 0x7fc00000u);
        } else {
          ASSERT_EQ(worker->mean[i], sum / 3) << i;
        }
      }
    }
  }
}

// Norms whose squares leave float32 travel as floats too: nothing comes back finite and wrong.
TEST(Thc, LargeAndTinyValuesSurvive) {
  for (const Given& given : {Given{}, Given{{kRange, 1}}}) {
    const auto codec = codec_of(given);
    for (const float value : {kMax, 1e25f, 1e-30f, 0x1p-126f, 0x1p-149f}) {
      Floats values(1500, 0.0f);
      values[3] = value;
      values[1400] = -value;
      WorkersByHand team =
          workers_of(*codec, {values, Floats(1500, 0.0f)}, {Floats(1500), Floats(1500)});
      run(team);
      const float sum = value + 0.0f;
      EXPECT_EQ(team[1]->mean[3], sum / 2) << value;
      EXPECT_EQ(team[1]->mean[1400], -sum / 2) << value;
      EXPECT_EQ(team[0]->residual, Floats(1500)) << value;
    }
  }
}

TEST(Thc, AResidualNeverHoldsInfinityOrNan) {
  const auto codec = codec_of();
  for (const std::vector<std::uint32_t>& missing : {std::vector<std::uint32_t>{}, {0}, {1}}) {
    Floats bad(1100, 1.0f);
    bad[3] = kNan;
    bad[1099] = kInf;
    WorkersByHand team =
        workers_of(*codec, {bad, Floats(1100, 2.0f)}, {Floats(1100, 0.5f), Floats(1100, 0.25f)});
    run(team, missing);
    for (const auto& worker : team) {
      for (const float rest : worker->residual) ASSERT_TRUE(std::isfinite(rest));
    }
    if (missing.empty()) {
      EXPECT_EQ(team[1]->mean[0], (1.5f + 2.25f) / 2);
      EXPECT_EQ(team[1]->residual[0], 0.0f) << "what went as a float was counted whole";
    }
  }
}

TEST(Thc, AMissingWorkerSendsNothingMoreAndKeepsEverything) {
  const auto codec = codec_of({{kBits, 8}, {kMass, 1e-4}});
  auto gradients = normal_gradients(3, 3000, 6);
  for (float& value : gradients[2]) value *= 1000;
  gradients[2][7] = kInf;
  const Floats kept(3000, 0.25f);
  WorkersByHand team = workers_of(*codec, gradients, {Floats(3000), Floats(3000), kept});
  const Legs legs = run(team, {2});
  EXPECT_EQ(legs[1].size(), 1u) << "an infinity that is not counted stays away";
  EXPECT_EQ(legs[1][0].ups[2], Bytes(3000));
  const std::vector<Floats> counted{gradients[0], gradients[1]};
  for (const auto& worker : team) EXPECT_LT(nmse(counted, worker->mean), 1e-3);
  for (std::size_t i = 0; i < 3000; ++i) {
    EXPECT_EQ(team[2]->residual[i], i == 7 ? 0.25f : gradients[2][i] + 0.25f);
  }
}

// Everything sent plus what is left is everything there was.
TEST(Thc, SentAndKeptIsAllThereWas) {
  for (const Given& given : {Given{}, Given{{kGrouping, 1}}, Given{{kRotation, 4096}},
                             Given{{kRange, 1}, {kBits, 3}}, Given{{kRounding, 2}, {kBits, 2}}}) {
    const auto codec = codec_of(given);
    const std::size_t count = 5003;
    Floats gradient(count);
    Floats residual(count, 0.0f);
    std::vector<double> sent(count);
    std::vector<double> brought(count);
    for (unsigned step = 0; step < 12; ++step) {
      gradient = normal_values(count, 50 + step);
      WorkersByHand team = workers_of(*codec, {gradient}, {residual});
      team[0]->chunk.key = step;
      team[0]->restart();
      run(team);
      residual = team[0]->residual;
      for (std::size_t i = 0; i < count; ++i) {
        sent[i] += team[0]->mean[i];
        brought[i] += gradient[i];
      }
    }
    double left = 0;
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_NEAR(sent[i] + residual[i], brought[i], 2e-5) << i;
      left += residual[i] * residual[i];
    }
    EXPECT_LT(left / count, 2.0) << "feedback keeps the residual bounded";
  }
}

TEST(Thc, TheMeanMayBeTheGradientsOwnMemory) {
  for (const Given& given : {Given{}, Given{{kGrouping, 1}}, Given{{kRange, 1}}}) {
    const auto codec = codec_of(given);
    auto gradients = normal_gradients(2, 3077, 8);
    gradients[0][2000] = kInf;
    const std::vector<Floats> kept(2, Floats(3077, 0.125f));
    support::expect_same_in_place(*codec, gradients, kept);
  }
}

// ---- Answers from somebody hostile.

struct Alone : support::LoneWorker {
  explicit Alone(const Floats& gradient, const Given& given = {})
      : LoneWorker(codec_of(given), 2, gradient, Floats(gradient.size(), 0.5f)) {}
};

Bytes keys_of(std::initializer_list<std::uint32_t> keys) {
  Bytes bytes(4 * keys.size());
  std::size_t at = 0;
  for (const std::uint32_t key : keys) store_le(bytes, 4 * at++, key);
  return bytes;
}

const WorkerSet kBoth = WorkerSet::all(2);

TEST(ThcHostile, AnAgreedNormBelowMyOwnIsMalformed) {
  WorkerSet other(2);
  other.insert(1);
  // 64 values of 1.5: the norm is 12.
  const auto own = std::bit_cast<std::uint32_t>(12.0f);
  for (const std::uint32_t agreed : {0u, 1u, own - 1, own, own + 1, 0x7f800000u, 0xffffffffu}) {
    Alone mine(Floats(64, 1.0f));
    const Part with_me{0, 1, kBoth.view()};
    const Result<Leg> leg = mine.answer(keys_of({agreed}), {&with_me, 1});
    EXPECT_EQ(leg.has_value(), agreed >= own) << agreed;
    EXPECT_TRUE(leg || leg.error().code == Code::malformed);
    mine.expect_untouched();
    Alone left_out(Floats(64, 1.0f));
    const Part without_me{0, 1, other.view()};
    EXPECT_TRUE(left_out.answer(keys_of({agreed}), {&without_me, 1}).has_value());
  }
}

TEST(ThcHostile, WrongSizesPartsAndNumbersOfAnswersAreMalformed) {
  const auto own = std::bit_cast<std::uint32_t>(12.0f);
  const Part right{0, 1, kBoth.view()};
  expect_malformed(Alone(Floats(64, 1.0f)).answer(Bytes(3), {&right, 1}));
  expect_malformed(Alone(Floats(64, 1.0f)).answer(Bytes(8), {&right, 1}));
  expect_malformed(Alone(Floats(64, 1.0f)).answer(keys_of({own}), {}));
  Alone none(Floats(64, 1.0f));
  expect_malformed(none.worker.exchange->next({}));

  const Part lanes{0, 64, kBoth.view()};
  Alone values(Floats(64, 1.0f));
  ASSERT_TRUE(values.answer(keys_of({own}), {&right, 1}).has_value());
  expect_malformed(values.answer(Bytes(47), {&lanes, 1}));
  values.expect_untouched();

  Alone beyond(Floats(64, 1.0f));
  ASSERT_TRUE(beyond.answer(keys_of({own}), {&right, 1}).has_value());
  Bytes sums(48, std::byte{0});  // 64 sums of 6 bits, at most 60
  sums[47] = std::byte{0xff};
  expect_malformed(beyond.answer(sums, {&lanes, 1}));
  beyond.expect_untouched();
}

TEST(ThcHostile, AnySumDecodesToSomethingAndNeverEntersTheResidual) {
  std::mt19937 random(9);
  for (const Given& given : {Given{}, Given{{kRange, 1}}}) {
    for (int trial = 0; trial < 100; ++trial) {
      Alone test(Floats(64, 1.0f), given);
      const bool norm = given.empty();
      const Part keys{0, norm ? 1u : 2u, kBoth.view()};
      const std::uint32_t high = 0xc2000000u + static_cast<std::uint32_t>(random() % 0x3dffffff);
      const Bytes agreed =
          norm ? keys_of({0x41400000u + static_cast<std::uint32_t>(random())})
               : keys_of({high, 0xffffffffu - static_cast<std::uint32_t>(random() % 0x40000000)});
      const Result<Leg> leg = test.answer(agreed, {&keys, 1});
      if (!leg) continue;
      std::vector<Bytes> downs;
      std::vector<Part> parts(leg->rounds.size());
      std::vector<Answer> answers;
      for (const Round& round : leg->rounds) {
        downs.emplace_back(round.what.count == 0 ? 0 : down_size_max(round.what, 2));
        for (std::byte& byte : downs.back()) byte = static_cast<std::byte>(random() & 0x33);
      }
      for (std::size_t i = 0; i < downs.size(); ++i) {
        parts[i] = {0, leg->rounds[i].what.count, kBoth.view()};
        answers.push_back({downs[i], parts[i].count == 0 ? std::span<const Part>()
                                                         : std::span<const Part>(&parts[i], 1)});
      }
      const Result<Leg> last = test.worker.exchange->next(answers);
      EXPECT_TRUE(last || last.error().code == Code::malformed);
      for (const float rest : test.worker.residual) ASSERT_TRUE(std::isfinite(rest));
    }
  }
}

}  // namespace
}  // namespace sluice::thc
