// Sketches: one step where the last one is a guide, two where it is not, and always the exact mean.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/bytes.h"
#include "base/random.h"
#include "codec/lossless/lossless_by_hand_test.h"

namespace sluice::lossless {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr std::size_t kCount = 6000;

struct Shape {
  std::uint64_t keys = 300;  // of each worker, about
  int top = 0;               // values below 2^top …
  int low = -10;             // … and multiples of 2^low; both occur
  std::uint64_t seed = 1;
};

Gradients gradients_of(std::uint32_t n, const Shape& shape) {
  Gradients gradients(n, Floats(kCount, 0.0f));
  for (std::uint32_t rank = 0; rank < n; ++rank) {
    for (std::size_t i = 0; i < kCount; ++i) {
      const std::uint64_t word = mix(mix(shape.seed, rank), i);
      if (word % kCount >= shape.keys) continue;
      const std::uint64_t span = std::uint64_t{1} << std::min(shape.top - shape.low, 20);
      const auto integer = static_cast<float>(1 + (word >> 20) % (span - 1));
      const bool is_low = (word >> 60) % 2 == 0;
      gradients[rank][i] = std::ldexp(is_low ? 1.0f : integer, shape.low);
    }
    gradients[rank][17 + rank] = std::ldexp(-1.0f, shape.top - 1);
    gradients[rank][18 + rank] = std::ldexp(1.0f, shape.low);
  }
  return gradients;
}

std::vector<std::uint32_t> first(std::uint32_t n) {
  std::vector<std::uint32_t> ranks(n);
  for (std::uint32_t rank = 0; rank < n; ++rank) ranks[rank] = rank;
  return ranks;
}

// A step of all workers, which must come out exact.
Legs step_exactly(LosslessByHand& group, const Gradients& gradients) {
  const auto n = static_cast<std::uint32_t>(gradients.size());
  Legs legs = group.step(gradients);
  for (const Floats& mean : group.means) {
    EXPECT_EQ(bits_of(mean), bits_of(paper_mean(gradients, first(n))));
  }
  return legs;
}

TEST(LosslessSketch, TheFirstTakesTwoStepsAndTheNextOne) {
  const Gradients gradients = gradients_of(3, {});
  const std::uint32_t keys = union_size(gradients);
  LosslessByHand group("lossless:mode=sketch,index=bitmap", 3, kCount);
  Legs legs = step_exactly(group, gradients);
  ASSERT_EQ(legs.size(), 2u);
  ASSERT_EQ(legs[0].size(), 2u);
  EXPECT_TRUE(is(legs[0][0], Op::max, 1, kCount));
  EXPECT_TRUE(is(legs[0][1], Op::max, 9, 2)) << "one block";
  ASSERT_EQ(legs[1].size(), 2u);
  // 10 bits, the sign and two for three workers.
  EXPECT_EQ(legs[1][0].what.op, Op::wrap_sum);
  EXPECT_EQ(legs[1][0].what.bits, 16);
  EXPECT_GE(legs[1][0].what.count, 1.222 * keys);
  EXPECT_LE(legs[1][0].what.count, 1.6 * keys);
  EXPECT_TRUE(is(legs[1][1], Op::max, 32, 1));

  legs = step_exactly(group, gradients);
  ASSERT_EQ(legs.size(), 1u);
  ASSERT_EQ(legs[0].size(), 4u);
  EXPECT_TRUE(is(legs[0][0], Op::max, 1, kCount));
  EXPECT_TRUE(is(legs[0][1], Op::max, 9, 2));
  EXPECT_EQ(legs[0][2].what.op, Op::wrap_sum);
  EXPECT_EQ(legs[0][2].what.bits, 16) << "with 1 bit more at the top and 2 at the bottom";
  EXPECT_EQ(legs[0][3].what.op, Op::max);
  EXPECT_EQ(legs[0][3].what.bits, 32);
  EXPECT_EQ(group.counted(Count::chunks_sketch), 2u);
  EXPECT_EQ(group.counted(Count::sketches_again), 0u);
  EXPECT_EQ(group.counted(Count::union_keys), 2 * keys);
}

// What changes from one step to the next, and whether the one-step form holds.
struct Change {
  std::string_view what;
  Shape next;
  bool fits;
  Shape first = {.keys = 60};
};

void expect_fits(const std::string& spec, const Change& change) {
  LosslessByHand group(spec, 3, kCount);
  step_exactly(group, gradients_of(3, change.first));
  EXPECT_EQ(step_exactly(group, gradients_of(3, change.first)).size(), 1u);
  const Legs legs = step_exactly(group, gradients_of(3, change.next));
  EXPECT_EQ(legs.size() == 1, change.fits) << spec << ", " << change.what;
  EXPECT_EQ(group.counted(Count::sketches_again), change.fits ? 0u : 1u)
      << spec << ", " << change.what;
  step_exactly(group, gradients_of(3, change.next));
  EXPECT_EQ(group.counted(Count::chunks_sketch), 4u);
}

TEST(LosslessSketch, OneStepWhileRangeAndSizeFitElseOnceMore) {
  for (const std::string_view index : {"bitmap", "bloom"}) {
    const std::string spec = "lossless:mode=sketch,index=" + std::string(index);
    for (const Change& change :
         {Change{"other places", {.keys = 60, .seed = 2}, true},
          Change{"a bit more", {.keys = 60, .top = 1, .low = -10}, true},
          Change{"two bits less", {.keys = 60, .top = 0, .low = -12}, true},
          Change{"both", {.keys = 60, .top = 1, .low = -12}, true},
          // 12 bits, one more at the top, the sign and two for three workers are 16.
          Change{"two bits less of a full integer",
                 {.keys = 60, .low = -14},
                 true,
                 {.keys = 60, .low = -12}},
          Change{"fewer keys", {.keys = 10, .seed = 4}, true},
          Change{"too large", {.keys = 60, .top = 2, .low = -10}, false},
          Change{"far too large", {.keys = 60, .top = 40, .low = 20}, false},
          Change{"far too small", {.keys = 60, .top = -60, .low = -80}, false},
          Change{"too many", {.keys = 120, .seed = 5}, false},
          Change{"all", {.keys = kCount, .seed = 6}, false}}) {
      expect_fits(spec, change);
    }
  }
}

// Keys side by side are as many as scattered ones: whole runs, columns, every coordinate.
TEST(LosslessSketch, OneStepWhateverThePattern) {
  for (const std::size_t length : {40u, 400u, 4000u}) {
    Gradients run(2, Floats(kCount, 0.0f));
    std::fill_n(run[0].begin() + 1000, length, 1.5f);
    std::fill_n(run[1].begin() + 1010, length, -2.5f);
    LosslessByHand group("lossless:mode=sketch", 2, kCount);
    step_exactly(group, run);
    for (int step = 0; step < 3; ++step) {
      const std::uint64_t stuck = group.counted(Count::stuck_keys);
      const std::size_t legs = step_exactly(group, run).size();
      EXPECT_EQ(legs, group.counted(Count::stuck_keys) > stuck ? 2u : 1u) << length;
    }
    EXPECT_EQ(group.counted(Count::sketches_again), 0u) << length;
  }
}

TEST(LosslessSketch, AfterASecondTryTheNextStepIsOneAgain) {
  LosslessByHand group("lossless:mode=sketch", 2, kCount);
  step_exactly(group, gradients_of(2, {}));
  EXPECT_GT(step_exactly(group, gradients_of(2, {.top = 30, .low = 10})).size(), 1u);
  EXPECT_EQ(step_exactly(group, gradients_of(2, {.top = 30, .low = 10})).size(), 1u);
  EXPECT_EQ(group.counted(Count::sketches_again), 1u);
}

TEST(LosslessSketch, ValuesComeAndGo) {
  for (const std::string_view index : {"bitmap", "bloom"}) {
    LosslessByHand group("lossless:mode=sketch,index=" + std::string(index), 2, kCount);
    const Gradients none(2, Floats(kCount, 0.0f));
    const Gradients one{sparse(kCount, {{kCount - 1, 3.0f}}), Floats(kCount, -0.0f)};
    const Gradients full(2, Floats(kCount, -0.5f));
    const Gradients some = gradients_of(2, {});
    for (const Gradients& gradients :
         {none, none, one, one, none, some, none, some, one, some, full, full, one, one}) {
      step_exactly(group, gradients);
    }
  }
}

TEST(LosslessSketch, SumsOfZeroAndWideSumsPeelToo) {
  LosslessByHand group("lossless:mode=sketch", 2, kCount);
  Gradients gradients = gradients_of(2, {.top = 60, .low = 2});
  for (std::size_t i = 0; i < kCount; i += 2) gradients[1][i] = -gradients[0][i];
  EXPECT_EQ(step_exactly(group, gradients)[1][0].what.bits, 64);
  step_exactly(group, gradients);
}

TEST(LosslessSketch, ExceptionsJoinTheSumsOfASketch) {
  LosslessByHand group("lossless:mode=sketch", 3, kCount);
  const Gradients plain = gradients_of(3, {});
  Gradients bad = plain;
  bad[1][40] = kNan;
  bad[2][41] = kInf;
  bad[0][42] = 0x1p-100f;  // does not fit beside the others
  bad[1][42] = 0.5f;
  step_exactly(group, plain);
  step_exactly(group, bad);
  EXPECT_GT(group.counted(Count::exceptions, 1), 0u);
  step_exactly(group, bad);
  step_exactly(group, plain);
  // Nothing but what does not fit.
  LosslessByHand alone("lossless:mode=sketch", 2, kCount);
  for (int step = 0; step < 2; ++step) {
    step_exactly(alone, {sparse(kCount, {{5, kInf}}), sparse(kCount, {{9, kNan}, {5, -kInf}})});
  }
}

// ---- Keys that are stuck.

TEST(LosslessSketch, StuckKeysTravelOnceMorePacked) {
  const Gradients gradients = gradients_of(3, {});
  LosslessByHand group("lossless:mode=sketch,room=0.6", 3, kCount);
  const Legs two = step_exactly(group, gradients);
  ASSERT_EQ(two.size(), 3u);
  ASSERT_EQ(two[2].size(), 1u);
  const std::uint64_t stuck = group.counted(Count::stuck_keys);
  EXPECT_GT(stuck, 0u);
  EXPECT_LE(stuck, union_size(gradients));
  EXPECT_TRUE(is(two[2][0], Op::wrap_sum, two[1][0].what.bits, static_cast<std::uint32_t>(stuck)));

  const Legs one = step_exactly(group, gradients);
  ASSERT_EQ(one.size(), 2u);
  EXPECT_EQ(one[1].size(), 1u);
  EXPECT_GT(group.counted(Count::stuck_keys), stuck);
  for (std::uint32_t rank = 1; rank < 3; ++rank) {
    EXPECT_EQ(group.counted(Count::stuck_keys, rank), group.counted(Count::stuck_keys));
  }
}

TEST(LosslessSketch, RoomMakesBuckets) {
  std::uint32_t before = 0;
  for (const std::string_view room : {"0.5", "1", "2", "4"}) {
    LosslessByHand group("lossless:mode=sketch,room=" + std::string(room), 2, kCount);
    const std::uint32_t buckets = step_exactly(group, gradients_of(2, {}))[1][0].what.count;
    EXPECT_GT(buckets, before * 3 / 2);
    before = buckets;
  }
}

TEST(LosslessSketch, EverySizeUpToFullUnitsAndOneMore) {
  for (std::size_t count = 1; count <= 200; ++count) {
    LosslessByHand group("lossless:mode=sketch", 2, count);
    const Gradients gradients{Floats(count, 1.0f), Floats(count, 2.0f)};
    for (int step = 0; step < 2; ++step) {
      group.step(gradients);
      ASSERT_EQ(group.means[0], Floats(count, 1.5f)) << count;
    }
  }
  // More coordinates than full units have, of which those at the end are not there.
  Gradients gradients(2, Floats(1025, 1.0f));
  gradients[0][1024] = gradients[1][1024] = 0.0f;
  LosslessByHand group("lossless:mode=sketch", 2, 1025);
  step_exactly(group, gradients);
  step_exactly(group, gradients);
}

// ---- Other workers in one round than in another.

TEST(LosslessSketch, TheIndexSaysWhoIsCountedWhateverTheOtherRoundsSay) {
  constexpr std::uint32_t kN = 4;
  const Gradients gradients = gradients_of(kN, {});
  for (const bool has_last : {false, true}) {
    for (const std::size_t round : {0u, 1u, 2u, 3u}) {
      for (std::uint32_t missing = 0; missing < kN; ++missing) {
        LosslessByHand group("lossless:mode=sketch", kN, kCount, true);
        if (has_last) step_exactly(group, gradients);
        const Legs legs = group.step(gradients, [&](std::size_t, std::size_t now, std::uint32_t) {
          return now == round ? support::set_without(kN, {missing}) : WorkerSet::all(kN);
        });
        std::vector<std::uint32_t> counted = first(kN);
        if (round == 0) counted.erase(counted.begin() + missing);
        for (std::uint32_t rank = 0; rank < kN; ++rank) {
          EXPECT_EQ(bits_of(group.means[rank]), bits_of(paper_mean(gradients, counted)))
              << "round " << round << " without " << missing;
          const bool is_kept = round == 0 && rank == missing;
          EXPECT_EQ(group.residuals[rank], is_kept ? gradients[rank] : Floats(kCount, 0.0f));
        }
        if (has_last) {
          EXPECT_EQ(group.counted(Count::sketches_again), 1u) << round;
        }
        EXPECT_GT(legs.size(), 1u);
      }
    }
  }
}

TEST(LosslessSketch, AGrainOfTheSketchWithoutAWorkerIsNotUsed) {
  constexpr std::uint32_t kN = 3;
  const Gradients gradients = gradients_of(kN, {});
  LosslessByHand group("lossless:mode=sketch", kN, kCount);
  step_exactly(group, gradients);
  group.step(gradients, [&](std::size_t, std::size_t round, std::uint32_t grain) {
    return round == 2 && grain == 1 ? support::set_without(kN, {1}) : WorkerSet::all(kN);
  });
  EXPECT_EQ(bits_of(group.means[0]), bits_of(paper_mean(gradients, first(kN))));
  EXPECT_EQ(group.counted(Count::sketches_again), 1u);
}

TEST(LosslessSketch, AlwaysTheSameAreMissingAndOneStepIsEnough) {
  const Gradients gradients = gradients_of(3, {});
  LosslessByHand group("lossless:mode=sketch", 3, kCount, true);
  group.step(gradients, all_but(3, {1}));
  EXPECT_EQ(bits_of(group.means[1]), bits_of(paper_mean(gradients, {0, 2})));
  group.residuals[1] = Floats(kCount, 0.0f);
  EXPECT_EQ(group.step(gradients, all_but(3, {1})).size(), 1u);
  EXPECT_EQ(bits_of(group.means[1]), bits_of(paper_mean(gradients, {0, 2})));
  EXPECT_EQ(group.residuals[1], gradients[1]);
}

// ---- The automatic choice.

TEST(LosslessSketch, IsTakenWhereStepsAreDearAndNeverWhereTheyAreFree) {
  Gradients gradients(2, Floats(1000, 0.0f));
  for (std::size_t i = 0; i < 1000; i += 30) gradients[0][i] = gradients[1][i + 1] = 2.0f;
  LosslessByHand dear("lossless:step_bytes=10000", 2, 1000);
  step_exactly(dear, gradients);
  EXPECT_EQ(dear.counted(Count::chunks_sketch), 0u) << "nothing is known yet";
  EXPECT_EQ(step_exactly(dear, gradients).size(), 1u);
  EXPECT_EQ(dear.counted(Count::chunks_sketch), 1u);
  EXPECT_EQ(dear.counted(Count::chunks_packed), 1u);
  // What does not fit goes on packed, the places being known.
  for (Floats& gradient : gradients) {
    for (float& value : gradient) value *= 0x1p30f;
  }
  step_exactly(dear, gradients);
  EXPECT_EQ(dear.counted(Count::sketches_again), 1u);

  LosslessByHand free("lossless:step_bytes=0", 2, 1000);
  for (int step = 0; step < 3; ++step) step_exactly(free, gradients);
  EXPECT_EQ(free.counted(Count::chunks_sketch), 0u);
}

TEST(LosslessSketch, IsNeverTakenForFloatSums) {
  Gradients gradients(2, Floats(1000, 0.0f));
  gradients[0][500] = gradients[1][501] = 2.0f;
  LosslessByHand group("lossless:sum=float,step_bytes=16777216", 2, 1000);
  for (int step = 0; step < 3; ++step) step_exactly(group, gradients);
  EXPECT_EQ(group.counted(Count::chunks_sketch), 0u);
}

}  // namespace
}  // namespace sluice::lossless
