// Answers from somebody hostile, at every stage of an exchange.
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "codec/tide/tide_rounds_test.h"

namespace sluice::tide {
namespace {

constexpr std::uint32_t kCount = 300;  // with blocks of 64: four, 32 and 16 of which 12 are real

using support::Lie;
using support::OwnAnswer;

// Two workers of whom rank 0 is lied to. With scales=previous it is their second step, in which one
// block has outgrown its scale and another holds infinity.
class Attack {
 public:
  explicit Attack(const TideOptions& told, const std::vector<std::uint32_t>& missing = {})
      : group_(told, 2, kCount), missing_(missing), gradients_(gradients_of(2, kCount, 1, 1)) {
    group_.step(gradients_);
    group_.key = 0;
    group_.residuals.assign(2, Floats(kCount, 0.5f));
    if (told.scales == Scales::previous) {
      for (std::size_t i = 0; i < 64; ++i) gradients_[0][i] *= 1000;
    }
    gradients_[1][130] = INFINITY;
  }

  // What rank 0 says to the answers of a leg once tampered with.
  Result<Leg> run(std::size_t leg, const Lie& lie) {
    return group_.deceive(gradients_, all_but(2, missing_), {leg}, lie);
  }
  // The same, but it is told the truth again from there on: what it says in the end.
  Result<Leg> run_to_end(std::size_t leg, const Lie& lie) {
    return group_.deceive(gradients_, all_but(2, missing_), {leg, true}, lie);
  }
  void expect_malformed(std::size_t leg, const Lie& lie) {
    support::expect_malformed(run(leg, lie), "leg " + std::to_string(leg));
    expect_untouched();
  }
  void expect_untouched() const { worker().expect_untouched(); }
  [[nodiscard]] const support::WorkerByHand& worker() const { return group_.worker(0); }

 private:
  TideByHand group_;
  std::vector<std::uint32_t> missing_;
  std::vector<Floats> gradients_;
};

TideOptions told_of(Scales scales, Down down = Down::full) {
  TideOptions told{.bits = 5, .block = 64, .down = down, .scales = scales};
  if (down == Down::round) told.extra = 0;  // or two workers' sums would be full ones
  return told;
}

constexpr std::array kBoth{Scales::now, Scales::previous};

TEST(TideHostile, HonestAnswersAreAccepted) {
  for (const Scales scales : kBoth) {
    for (const Down down : {Down::full, Down::narrow, Down::round}) {
      Attack attack(told_of(scales, down));
      const Result<Leg> asked = attack.run(0, [](auto&) {});
      ASSERT_TRUE(asked && asked->kind == Leg::Kind::ask);
      attack.expect_untouched();
      const Result<Leg> last = attack.run(1, [](auto&) {});
      ASSERT_TRUE(last && last->kind == Leg::Kind::done);
      EXPECT_NE(attack.worker().mean[0], -77.0f);
    }
  }
}

// Scale codes of blocks 0 to 5 lie well between 700 and 1300 here, but for the bad block 2.
TEST(TideHostile, AgreedScalesBelowMyOwnAreMalformed) {
  for (const Scales scales : kBoth) {
    Attack attack(told_of(scales));
    for (const std::uint32_t block : {0u, 1u, 4u, 5u}) {
      for (const std::uint32_t code : {0u, 656u, 700u}) {
        attack.expect_malformed(
            0, [=](auto& answers) { lanes::put(answers[0].down, block, kCodeBits, code); });
      }
    }
  }
}

TEST(TideHostile, AnAgreedScaleMayLieBelowThatOfAWorkerThatIsNotCounted) {
  for (const Scales scales : kBoth) {
    Attack attack(told_of(scales), {0});
    EXPECT_TRUE(attack.run(0, [](auto& answers) {
      for (std::size_t b = 0; b < 6; ++b) lanes::put(answers[0].down, b, kCodeBits, 700);
    }));
    attack.expect_untouched();
  }
}

TEST(TideHostile, ScalesThatNoBlockCanHaveAreMalformed) {
  for (const Scales scales : kBoth) {
    for (const bool counted : {true, false}) {
      Attack attack(told_of(scales),
                    counted ? std::vector<std::uint32_t>{} : std::vector<std::uint32_t>{0});
      for (const std::uint32_t code : {1697u, 2000u, 4094u}) {
        attack.expect_malformed(
            0, [=](auto& answers) { lanes::put(answers[0].down, 3, kCodeBits, code); });
      }
      EXPECT_TRUE(attack.run(0, [](auto& answers) {
        lanes::put(answers[0].down, 3, kCodeBits, 1696);
        lanes::put(answers[0].down, 4, kCodeBits, 4095);
      }));
    }
  }
}

TEST(TideHostile, WrongNumbersOfAnswersAreMalformed) {
  for (const Scales scales : kBoth) {
    Attack attack(told_of(scales));
    for (const std::size_t stage : {0u, 1u}) {
      attack.expect_malformed(stage, [](auto& answers) { answers.clear(); });
      attack.expect_malformed(stage, [](auto& answers) { answers.pop_back(); });
      attack.expect_malformed(stage, [](auto& answers) { answers.emplace_back(); });
      attack.expect_malformed(stage, [](auto& answers) { answers.push_back(answers[0]); });
    }
  }
}

// Applies a lie to each answer with lanes of a stage.
void expect_each_malformed(const TideOptions& told, std::size_t stage,
                           const std::function<void(OwnAnswer&)>& lie) {
  Attack attack(told);
  std::size_t rounds = 0;
  ASSERT_TRUE(attack.run(stage, [&](auto& answers) { rounds = answers.size(); }));
  std::size_t tried = 0;
  for (std::size_t i = 0; i < rounds; ++i) {
    bool has_lanes = false;
    ASSERT_TRUE(attack.run(stage, [&](auto& answers) { has_lanes = !answers[i].parts.empty(); }));
    if (!has_lanes) continue;
    ++tried;
    SCOPED_TRACE(::testing::Message() << "answer " << i << " of stage " << stage);
    attack.expect_malformed(stage, [&](auto& answers) { lie(answers[i]); });
  }
  EXPECT_GE(tried, stage == 0 && told.scales == Scales::now ? 1u : 2u);
}

TEST(TideHostile, WrongSizesAreMalformed) {
  for (const Scales scales : kBoth) {
    for (const Down down : {Down::full, Down::narrow, Down::round}) {
      for (const std::size_t stage : {0u, 1u}) {
        const TideOptions told = told_of(scales, down);
        // Narrow sums have any size up to the most: what is cut off is found when it is read.
        if (stage == 0 && scales == Scales::previous && down == Down::narrow) continue;
        expect_each_malformed(told, stage, [](OwnAnswer& one) { one.down.clear(); });
        expect_each_malformed(told, stage, [](OwnAnswer& one) { one.down.pop_back(); });
        expect_each_malformed(told, stage, [](OwnAnswer& one) { one.down.emplace_back(); });
      }
    }
  }
}

TEST(TideHostile, WrongPartsAndSetsAreMalformed) {
  static const WorkerSet kNobody(2);
  static const WorkerSet kStranger = [] {
    WorkerSet set = WorkerSet::all(2);
    set.insert(5);
    return set;
  }();
  static const WorkerSet kMany(100);
  for (const Scales scales : kBoth) {
    for (const std::size_t stage : {0u, 1u}) {
      const TideOptions told = told_of(scales);
      const auto expect_bad = [&](const std::function<void(OwnAnswer&)>& lie) {
        expect_each_malformed(told, stage, lie);
      };
      expect_bad([](OwnAnswer& one) { one.parts.clear(); });
      expect_bad([](OwnAnswer& one) { one.parts.back().count -= 1; });
      expect_bad([](OwnAnswer& one) { one.parts.back().count += 1; });
      expect_bad([](OwnAnswer& one) { one.parts.front().first = 1; });
      expect_bad([](OwnAnswer& one) { one.parts.push_back(one.parts.back()); });
      expect_bad([](OwnAnswer& one) { one.parts.front().from = kNobody.view(); });
      expect_bad([](OwnAnswer& one) { one.parts.front().from = kStranger.view(); });
      expect_bad([](OwnAnswer& one) { one.parts.front().from = kMany.view(); });
      expect_bad([](OwnAnswer& one) { one.parts.front().from = {}; });
    }
  }
}

TEST(TideHostile, CodesOfOthersThanTheScalesContributorsAreMalformed) {
  static const WorkerSet kOne = set_of(2, {0});
  for (const Scales scales : kBoth) {
    expect_each_malformed(told_of(scales), 1,
                          [](OwnAnswer& one) { one.parts.back().from = kOne.view(); });
  }
}

// Of two workers' codes of w bits the sum has w + 1 bits and is never all ones.
TEST(TideHostile, SumsBeyondReachAreMalformed) {
  for (const Scales scales : kBoth) {
    Attack attack(told_of(scales));
    for (const std::size_t at : {0u, 7u, 63u}) {
      attack.expect_malformed(1, [&](auto& answers) {
        for (std::size_t i = 0; i + 1 < answers.size(); ++i) {
          if (answers[i].parts.empty()) continue;
          const Part& last = answers[i].parts.back();
          const std::size_t lanes = last.first + last.count;
          const auto bits = static_cast<unsigned>(8 * answers[i].down.size() / lanes);
          lanes::put(answers[i].down, at % lanes, bits, (1u << bits) - 1);
          return;
        }
      });
    }
  }
}

// Codes of the first step of scales=previous may be read as late as with the blocks sent again:
// even then nothing has been written.
TEST(TideHostile, BadSumsInAFirstStepThatGoesOnAreMalformed) {
  for (const Down down : {Down::full, Down::narrow, Down::round}) {
    Attack attack(told_of(Scales::previous, down));
    const std::vector<std::function<void(Bytes&)>> lies{
        [](Bytes& bytes) { std::fill(bytes.begin(), bytes.end(), std::byte{0xff}); },
        [](Bytes& bytes) { bytes.clear(); },
        [](Bytes& bytes) { bytes.pop_back(); },
    };
    for (const auto& lie : lies) {
      const Result<Leg> leg = attack.run_to_end(0, [&](auto& answers) {
        for (std::size_t i = 1; i < answers.size(); ++i) {
          if (!answers[i].parts.empty()) lie(answers[i].down);
        }
      });
      ASSERT_FALSE(leg.has_value()) << name_of(down);
      EXPECT_EQ(leg.error().code, sluice::Code::malformed);
      attack.expect_untouched();
    }
  }
}

TEST(TideHostile, HeadersOutOfRangeAreMalformed) {
  for (const Scales scales : kBoth) {
    for (const Down down : {Down::narrow, Down::round}) {
      Attack attack(told_of(scales, down));
      for (const unsigned header : {17u, 33u, 255u}) {
        attack.expect_malformed(1, [&](auto& answers) {
          for (std::size_t i = 0; i + 1 < answers.size(); ++i) {
            if (answers[i].parts.empty()) continue;
            answers[i].down[0] = static_cast<std::byte>(header);
            return;
          }
        });
      }
    }
  }
}

// Whatever the sums say: no crash, an error writes nothing, and a residual is made of one's own
// codes alone.
TEST(TideHostile, RandomSumsNeverEnterTheResidual) {
  std::mt19937 random(9);
  for (const Scales scales : kBoth) {
    for (const Down down : {Down::full, Down::narrow, Down::round}) {
      Attack attack(told_of(scales, down));
      ASSERT_TRUE(attack.run(1, [](auto&) {}));
      const Floats honest = attack.worker().residual;
      int accepted = 0;
      for (int trial = 0; trial < 100; ++trial) {
        const Result<Leg> leg = attack.run(1, [&](auto& answers) {
          for (OwnAnswer& one : answers) {
            if (one.down.empty()) continue;
            one.down[random() % one.down.size()] ^= static_cast<std::byte>(1 + random() % 255);
          }
        });
        if (!leg) {
          ASSERT_EQ(leg.error().code, sluice::Code::malformed);
          attack.expect_untouched();
          continue;
        }
        ++accepted;
        ASSERT_EQ(leg->kind, Leg::Kind::done);
        ASSERT_EQ(attack.worker().residual, honest);
      }
      EXPECT_GT(accepted, 0);
    }
  }
}

}  // namespace
}  // namespace sluice::tide
