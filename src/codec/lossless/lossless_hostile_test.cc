// Answers from somebody hostile, at every step of every kind of exchange.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "base/bytes.h"
#include "codec/lossless/lossless_by_hand_test.h"
#include "kernels/lanes/lanes.h"
#include "round/lists.h"

namespace sluice::lossless {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr std::uint32_t kCount = 1003;  // 8 bits do not divide it, nor does 64
constexpr std::uint32_t kN = 3;
constexpr Tensor kTensor{1, 59, 17};

// Scattered, overlapping and with exceptions; worker 0 has some of everything.
Gradients gradients_of(bool with_exceptions, std::size_t every) {
  Gradients gradients(kN, Floats(kCount, 0.0f));
  for (std::uint32_t rank = 0; rank < kN; ++rank) {
    for (std::size_t i = rank; i < kCount; i += every) gradients[rank][i] = 1.0f + float(i % 50);
    for (std::size_t i = 0; i < kCount; i += 111) gradients[rank][i] = -2.5f;
  }
  gradients[1][500] = 0.0f;
  gradients[0][1002] = 7.0f;
  if (with_exceptions) {
    gradients[0][64] = kInf;
    gradients[0][66] = kInf;
    gradients[1][65] = -kInf;
    gradients[2][1001] = kInf;
  }
  return gradients;
}

struct Kind {
  std::string_view name;
  std::string_view spec;
  bool is_second = false;  // the second step of the group, when the first is a guide
  bool has_exceptions = false;
  std::size_t every = 37;
};

constexpr std::array kKinds{
    Kind{"bitmap", "lossless:mode=packed,index=bitmap"},
    Kind{"levels", "lossless:mode=packed,index=levels,step_bytes=0"},
    Kind{"rows", "lossless:mode=packed,index=rows"},
    Kind{"bloom", "lossless:mode=packed,index=bloom"},
    Kind{"gather", "lossless:mode=packed,index=gather"},
    Kind{"dense", "lossless:mode=dense"},
    Kind{"exceptions", "lossless:mode=packed,index=bitmap", false, true},
    Kind{"sketch", "lossless:mode=sketch,index=bitmap"},
    Kind{"sketch at once", "lossless:mode=sketch,index=bitmap", true},
    Kind{"sketch, bloom", "lossless:mode=sketch,index=bloom", true},
    Kind{"sketch, stuck", "lossless:mode=sketch,room=0.5", true, false, 5},
    Kind{"sketch, exceptions", "lossless:mode=sketch", true, true},
    Kind{"float", "lossless:mode=packed,sum=float,index=bitmap"},
    Kind{"float, dense", "lossless:mode=dense,sum=float"},
};

class Attack {
 public:
  explicit Attack(const Kind& kind)
      : kind_(kind),
        group_(kind.spec, kN, kTensor, true),
        gradients_(gradients_of(kind.has_exceptions, kind.every)) {
    if (kind.is_second) group_.step(gradients_);
    group_.residuals.assign(kN, Floats(kCount, 0.0f));
    group_.residuals[0][1] = 0.5f;
  }

  // The rounds of an honest exchange.
  Legs legs() {
    LosslessByHand other(kind_.spec, kN, kTensor, true);
    if (kind_.is_second) other.step(gradients_);
    other.residuals = group_.residuals;
    return other.step(gradients_);
  }
  // Asked once, nothing may be written yet, whatever it says.
  Result<Leg> ask(std::size_t stage, const Lie& lie, const WhoCounts& counted = all_but(kN)) {
    const Result<Leg> said = group_.deceive(gradients_, counted, {stage}, lie);
    if (!said || said->kind != Leg::Kind::done) group_.worker(0).expect_untouched();
    if (said) return said;
    EXPECT_EQ(said.error().code, Code::malformed) << kind_.name << ": " << said.error().what;
    return said;
  }
  void expect_malformed(std::size_t stage, std::string_view why, const Lie& lie,
                        const WhoCounts& counted = all_but(kN)) {
    EXPECT_FALSE(ask(stage, lie, counted).has_value())
        << kind_.name << ", step " << stage << ": " << why;
  }
  void expect_accepted(std::size_t stage, std::string_view why, const Lie& lie,
                       const WhoCounts& counted = all_but(kN)) {
    const Result<Leg> said = ask(stage, lie, counted);
    EXPECT_TRUE(said.has_value()) << kind_.name << ", step " << stage << ": " << why << ": "
                                  << said.error().what;
  }
  [[nodiscard]] const Gradients& gradients() const { return gradients_; }
  [[nodiscard]] const Floats& mean() const { return group_.worker(0).mean; }

 private:
  Kind kind_;
  LosslessByHand group_;
  Gradients gradients_;
};

const Kind& kind_of(std::string_view name) {
  return *std::find_if(kKinds.begin(), kKinds.end(), [=](const Kind& k) { return k.name == name; });
}

TEST(LosslessHostile, HonestAnswersAreAccepted) {
  for (const Kind& kind : kKinds) {
    Attack attack(kind);
    const std::size_t legs = attack.legs().size();
    for (std::size_t stage = 0; stage < legs; ++stage) {
      const Result<Leg> said = attack.ask(stage, [](auto&) {});
      ASSERT_TRUE(said.has_value()) << kind.name << ": " << said.error().what;
      EXPECT_EQ(said->kind == Leg::Kind::done, stage + 1 == legs) << kind.name;
    }
  }
}

TEST(LosslessHostile, WrongNumbersOfAnswersAreMalformed) {
  for (const Kind& kind : kKinds) {
    Attack attack(kind);
    for (std::size_t stage = 0; stage < attack.legs().size(); ++stage) {
      attack.expect_malformed(stage, "none", [](auto& answers) { answers.clear(); });
      attack.expect_malformed(stage, "too few", [](auto& answers) { answers.pop_back(); });
      attack.expect_malformed(stage, "empty", [](auto& answers) { answers.emplace_back(); });
      attack.expect_malformed(stage, "twice",
                              [](auto& answers) { answers.push_back(OwnAnswer(answers[0])); });
    }
  }
}

// Every answer of every step: a byte less, a byte more, no parts, parts that do not cover it.
TEST(LosslessHostile, WrongSizesAndPartsAreMalformed) {
  for (const Kind& kind : kKinds) {
    Attack attack(kind);
    const Legs legs = attack.legs();
    for (std::size_t stage = 0; stage < legs.size(); ++stage) {
      for (std::size_t i = 0; i < legs[stage].size(); ++i) {
        attack.expect_malformed(stage, "nothing", [=](auto& a) { a[i].down.clear(); });
        attack.expect_malformed(stage, "truncated", [=](auto& a) { a[i].down.pop_back(); });
        attack.expect_malformed(stage, "half",
                                [=](auto& a) { a[i].down.resize(a[i].down.size() / 2); });
        attack.expect_malformed(stage, "longer", [=](auto& a) { a[i].down.emplace_back(); });
        attack.expect_malformed(stage, "no parts", [=](auto& a) { a[i].parts.clear(); });
        attack.expect_malformed(stage, "a part twice",
                                [=](auto& a) { a[i].parts.push_back(Part(a[i].parts[0])); });
        attack.expect_malformed(stage, "a short part", [=](auto& a) { --a[i].parts.back().count; });
        attack.expect_malformed(stage, "a set without ranks", [=](auto& a) {
          static constexpr std::uint64_t kNobody = 0;
          a[i].parts[0].from = {{&kNobody, 1}};
        });
        attack.expect_malformed(stage, "a rank that is not there", [=](auto& a) {
          static constexpr std::uint64_t kBeyond = 0b1001;
          a[i].parts[0].from = {{&kBeyond, 1}};
        });
      }
    }
  }
}

TEST(LosslessHostile, OtherWorkersThanThoseOfTheFirstRoundAreMalformed) {
  for (const Kind& kind : kKinds) {
    Attack attack(kind);
    const Legs legs = attack.legs();
    for (std::size_t stage = 1; stage < legs.size(); ++stage) {
      for (std::size_t i = 0; i < legs[stage].size(); ++i) {
        attack.expect_malformed(stage, "another set", [=](auto& a) {
          static constexpr std::uint64_t kTwo = 0b011;
          for (Part& part : a[i].parts) part.from = {{&kTwo, 1}};
        });
      }
    }
  }
}

TEST(LosslessHostile, AnyFlippedByteIsMalformedOrGoesOnWithNothingWritten) {
  for (const Kind& kind : kKinds) {
    Attack attack(kind);
    const Legs legs = attack.legs();
    for (std::size_t stage = 0; stage < legs.size(); ++stage) {
      for (std::size_t i = 0; i < legs[stage].size(); ++i) {
        const std::size_t size = legs[stage][i].down.size();
        for (std::size_t at = 0; at < size; at += 1 + size / 24) {
          for (const unsigned mask : {0x01u, 0x80u, 0xffu}) {
            static_cast<void>(
                attack.ask(stage, [=](auto& a) { a[i].down[at] ^= static_cast<std::byte>(mask); }));
          }
        }
      }
    }
  }
}

// ---- The sample.

TEST(LosslessHostile, FewerValuesThanIHaveAreMalformed) {
  Attack attack(kind_of("bitmap"));
  attack.expect_malformed(0, "no values", [](auto& a) { a[1].down[0] = std::byte{0}; });
  attack.expect_malformed(0, "few values", [](auto& a) { a[1].down[0] = std::byte{5}; });
  attack.expect_accepted(0, "many", [](auto& a) { a[1].down[0] = std::byte{255}; });
}

// A sum of nothing would be an empty chunk, and my values would be gone.
TEST(LosslessHostile, ASumOfNoValuesDoesNotMakeMineDisappear) {
  for (const std::string_view name : {"bitmap", "dense", "float", "gather"}) {
    Attack attack(kind_of(name));
    const Result<Leg> said =
        attack.ask(0, [](auto& a) { std::fill(a[2].down.begin(), a[2].down.end(), std::byte{0}); });
    EXPECT_FALSE(said && said->kind == Leg::Kind::done) << name;
  }
}

// ---- The index.

// Clears each bit that worker 0 has sent in this step, one after the other.
void expect_missing_bits_malformed(std::string_view name, std::size_t stage) {
  Attack attack(kind_of(name));
  const auto round = attack.legs()[stage][0];
  ASSERT_TRUE(round.what.op == Op::max && round.what.bits == 1);
  std::size_t tried = 0;
  for (std::size_t bit = 0; bit < round.what.count; ++bit) {
    if (lanes::get(round.ups[0], bit, 1) == 0) continue;
    ++tried;
    attack.expect_malformed(stage, "my own bit is missing",
                            [=](auto& a) { lanes::put(a[0].down, bit, 1, 0); });
  }
  EXPECT_GT(tried, 2u) << name;
}

TEST(LosslessHostile, AnIndexWithoutMyOwnBitsIsMalformed) {
  for (const std::string_view name : {"bitmap", "levels", "rows", "bloom", "exceptions", "float"}) {
    expect_missing_bits_malformed(name, 1);
  }
  for (const std::string_view name : {"sketch", "sketch at once", "sketch, bloom"}) {
    expect_missing_bits_malformed(name, 0);
  }
  // Levels to the last.
  Attack attack(kind_of("levels"));
  const Legs legs = attack.legs();
  ASSERT_GE(legs.size(), 4u);
  for (std::size_t stage = 1; stage + 1 < legs.size(); ++stage) {
    expect_missing_bits_malformed("levels", stage);
  }
}

TEST(LosslessHostile, BitsThatNobodyHasAndBitsBehindTheEndDoNoHarm) {
  for (const std::string_view name : {"bitmap", "bloom", "rows", "levels", "float", "sketch"}) {
    Attack attack(kind_of(name));
    const std::size_t stage = name == "sketch" ? 0 : 1;
    attack.expect_accepted(stage, "all bits", [](auto& a) {
      std::fill(a[0].down.begin(), a[0].down.end(), std::byte{0xff});
    });
  }
  // Candidates that nobody has decode to zero, of a sketch too.
  Attack attack(kind_of("sketch at once"));
  const Result<Leg> said = attack.ask(0, [](auto& a) { lanes::put(a[0].down, 90, 1, 1); });
  ASSERT_TRUE(said && said->kind == Leg::Kind::done);
  EXPECT_EQ(attack.mean()[90], 0.0f);
}

// Bytes of a gather: (rank u32, size u32, bytes)*.
struct Letter {
  std::uint32_t rank;
  Bytes bytes;
};
Bytes posted(const std::vector<Letter>& letters) {
  Bytes all;
  for (const Letter& letter : letters) {
    Bytes head(8);
    store_le(std::span(head), 0, letter.rank);
    store_le(std::span(head), 4, static_cast<std::uint32_t>(letter.bytes.size()));
    all.insert(all.end(), head.begin(), head.end());
    all.insert(all.end(), letter.bytes.begin(), letter.bytes.end());
  }
  return all;
}

TEST(LosslessHostile, GatheredIndexesThatAreNoListsAreMalformed) {
  Attack attack(kind_of("gather"));
  const auto ups = attack.legs()[1][0].ups;
  const std::size_t most = attack.legs()[1][0].what.count;
  const auto expect = [&](std::string_view why, const std::vector<Letter>& letters) {
    attack.expect_malformed(1, why, [&](auto& a) { a[0].down = posted(letters); });
  };
  attack.expect_accepted(1, "as it was", [&](auto& a) {
    a[0].down = posted({{0, ups[0]}, {1, ups[1]}, {2, ups[2]}});
  });
  expect("mine is another's", {{0, ups[1]}, {1, ups[1]}, {2, ups[2]}});
  expect("not mine", {{1, ups[1]}, {2, ups[2]}});
  expect("not all", {{0, ups[0]}, {1, ups[1]}});
  expect("out of order", {{1, ups[1]}, {0, ups[0]}, {2, ups[2]}});
  expect("twice", {{0, ups[0]}, {0, ups[0]}, {2, ups[2]}});
  expect("of nobody", {{0, ups[0]}, {1, ups[1]}, {3, ups[2]}});
  expect("too long", {{0, ups[0]}, {1, Bytes(most + 1)}, {2, ups[2]}});
  expect("garbage", {{0, ups[0]}, {1, Bytes(most, std::byte{0xff})}, {2, ups[2]}});
  for (std::size_t size = 1; size < ups[1].size(); ++size) {
    Bytes cut(ups[1].begin(), ups[1].begin() + static_cast<std::ptrdiff_t>(size));
    expect("cut off", {{0, ups[0]}, {1, cut}, {2, ups[2]}});
  }
}

// ---- Ranges.

TEST(LosslessHostile, RangesBelowMineOrBeyondFloatsAreMalformed) {
  struct Where {
    std::string_view name;
    std::size_t stage;
    std::size_t round;
  };
  for (const Where& where : {Where{"bitmap", 1, 1}, Where{"levels", 1, 1}, Where{"dense", 1, 0},
                             Where{"sketch", 0, 1}, Where{"sketch at once", 0, 1}}) {
    Attack attack(kind_of(where.name));
    const auto put = [&](std::size_t lane, std::uint32_t code) {
      return [=](auto& a) { lanes::put(a[where.round].down, lane, 9, code); };
    };
    const auto up = attack.legs()[where.stage][where.round].ups[0];
    const std::uint32_t top = lanes::get(up, 0, 9);
    const std::uint32_t low = lanes::get(up, 1, 9);
    ASSERT_GT(top, 1u);
    for (const std::uint32_t code : {0u, 1u, top - 1, 279u, 300u, 511u}) {
      attack.expect_malformed(where.stage, "top", put(0, code));
    }
    for (const std::uint32_t code : {0u, 1u, low - 1, 279u, 511u}) {
      attack.expect_malformed(where.stage, "low", put(1, code));
    }
    attack.expect_accepted(where.stage, "the widest", put(0, 278));
    attack.expect_accepted(where.stage, "the deepest", put(1, 278));
  }
}

TEST(LosslessHostile, ARangeMayLieBelowThatOfAWorkerThatIsNotCounted) {
  Attack attack(kind_of("bitmap"));
  const WhoCounts others = all_but(kN, {0});
  attack.expect_accepted(
      1, "less",
      [](auto& a) {
        lanes::put(a[1].down, 0, 9, 2);
        lanes::put(a[1].down, 1, 9, 2);
      },
      others);
  attack.expect_malformed(
      1, "beyond", [](auto& a) { lanes::put(a[1].down, 0, 9, 279); }, others);
  attack.expect_malformed(
      1, "half", [](auto& a) { lanes::put(a[1].down, 0, 9, 0); }, others);
  attack.expect_accepted(
      1, "no values",
      [](auto& a) {
        std::fill(a[0].down.begin(), a[0].down.end(), std::byte{0});
        std::fill(a[1].down.begin(), a[1].down.end(), std::byte{0});
      },
      others);
}

// ---- Exceptions.

TEST(LosslessHostile, FewerExceptionsThanIHaveAreMalformed) {
  Attack attack(kind_of("exceptions"));
  for (const std::uint32_t fewer : {0u, 1u}) {
    attack.expect_malformed(2, "fewer",
                            [=](auto& a) { store_le(std::span(a.back().down), 0, fewer); });
  }
  attack.expect_accepted(2, "more", [](auto& a) { store_le(std::span(a.back().down), 0, ~0u); });
}

TEST(LosslessHostile, WindowsWithMoreExceptionsThanRoomOrFewerThanMineAreMalformed) {
  Attack attack(kind_of("exceptions"));
  const std::size_t windows = attack.legs()[3][0].down.size();
  ASSERT_EQ(windows, 16u);
  for (const unsigned count : {65u, 128u, 255u}) {
    for (std::size_t window = 0; window < windows; window += 5) {
      attack.expect_malformed(3, "too many",
                              [=](auto& a) { a[0].down[window] = static_cast<std::byte>(count); });
    }
  }
  for (const unsigned count : {0u, 1u}) {
    attack.expect_malformed(3, "fewer",
                            [=](auto& a) { a[0].down[1] = static_cast<std::byte>(count); });
  }
  attack.expect_accepted(
      3, "all", [](auto& a) { std::fill(a[0].down.begin(), a[0].down.end(), std::byte{64}); });
}

Bytes listed(std::initializer_list<std::pair<unsigned, float>> entries) {
  Bytes list;
  for (const auto& [place, value] : entries) {
    Bytes entry(5);
    entry[0] = static_cast<std::byte>(place);
    store_le(std::span(entry), 1, value);
    list.insert(list.end(), entry.begin(), entry.end());
  }
  return list;
}

TEST(LosslessHostile, ExceptionsOutOfOrderOrWhereNoValueIsAreMalformed) {
  Attack attack(kind_of("exceptions"));
  const auto went = attack.legs()[4][0];  // window 1: 64 and 66 of worker 0, 65 of worker 1
  ASSERT_EQ(went.ups[0], listed({{0, kInf}, {2, kInf}}));
  ASSERT_EQ(went.what.count, 10u);
  const auto expect = [&](std::string_view why, const Bytes& of_first, const Bytes& of_second) {
    attack.expect_malformed(4, why, [&](auto& a) {
      a[0].down = posted({{0, of_first}, {1, of_second}, {2, {}}});
    });
  };
  attack.expect_accepted(4, "as it was", [&](auto& a) {
    a[0].down = posted({{0, went.ups[0]}, {1, went.ups[1]}, {2, {}}});
  });
  expect("out of order", listed({{2, kInf}, {0, kInf}}), went.ups[1]);
  expect("twice", listed({{0, kInf}, {0, kInf}}), went.ups[1]);
  expect("beyond the window", went.ups[0], listed({{64, kInf}}));
  expect("far beyond", went.ups[0], listed({{255, kInf}}));
  expect("where nobody has a value", went.ups[0], listed({{63, 1.0f}}));
  expect("too many", went.ups[0], listed({{0, 1.0f}, {1, 1.0f}, {2, 1.0f}}));
  Bytes cut = went.ups[1];
  cut.pop_back();
  expect("cut off", went.ups[0], cut);
  attack.expect_malformed(4, "not all", [&](auto& a) {
    a[0].down = posted({{0, went.ups[0]}, {1, went.ups[1]}});
  });
  attack.expect_malformed(4, "ranks out of order", [&](auto& a) {
    a[0].down = posted({{1, went.ups[1]}, {0, went.ups[0]}, {2, {}}});
  });
}

// ---- Sketches.

TEST(LosslessHostile, AlteredBucketsAreMalformedWhateverTheBucket) {
  struct Where {
    std::string_view name;
    std::size_t stage;
    std::size_t round;
  };
  for (const Where& where :
       {Where{"sketch", 1, 0}, Where{"sketch at once", 0, 2}, Where{"sketch, bloom", 0, 2}}) {
    Attack attack(kind_of(where.name));
    const std::size_t size = attack.legs()[where.stage][where.round].down.size();
    for (std::size_t at = 0; at < size; ++at) {
      attack.expect_malformed(where.stage, "one bucket",
                              [=](auto& a) { a[where.round].down[at] ^= std::byte{0x10}; });
    }
    attack.expect_malformed(where.stage, "all", [=](auto& a) {
      for (std::byte& byte : a[where.round].down) byte ^= std::byte{0x55};
    });
  }
}

TEST(LosslessHostile, AlteredSumsOfStuckKeysAreMalformed) {
  Attack attack(kind_of("sketch, stuck"));
  const Legs legs = attack.legs();
  ASSERT_EQ(legs.size(), 2u);
  const std::size_t size = legs[1][0].down.size();
  ASSERT_GT(size, 0u);
  for (std::size_t at = 0; at < size; ++at) {
    attack.expect_malformed(1, "a stuck key", [=](auto& a) { a[0].down[at] ^= std::byte{1}; });
  }
}

// What peels without the stuck keys is zero, or the answer is wrong at once.
TEST(LosslessHostile, AMissingKeyLeavesASketchThatIsNotEmpty) {
  Attack attack(kind_of("sketch at once"));
  const auto bits = attack.legs()[0][0];
  std::size_t tried = 0;
  for (std::size_t i = 0; i < kCount; ++i) {
    // A key that another worker alone has, so that mine are all there.
    if (attack.gradients()[0][i] != 0 || i == 1 || lanes::get(bits.down, i, 1) == 0) continue;
    ++tried;
    attack.expect_malformed(0, "a key of another",
                            [=](auto& a) { lanes::put(a[0].down, i, 1, 0); });
  }
  EXPECT_GT(tried, 30u);
}

}  // namespace
}  // namespace sluice::lossless
