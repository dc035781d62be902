// The values of agreed coordinates and their exceptions, without the rest of the exchange.
#include "codec/lossless/values.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "base/exact_sum.h"
#include "base/random.h"
#include "codec/lossless/exceptions.h"
#include "tests/support/exchange_by_hand.h"
#include "tests/support/guarded.h"

namespace sluice::lossless {
namespace {

using support::bits_of;
using support::Bytes;
using support::Floats;
using support::GuardedMemory;
using Marks = std::vector<std::uint64_t>;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// One worker: what it has, its values and its exceptions, in memory with canaries around it.
class ValuesMember {
 public:
  ValuesMember(const Extent& extent, Sum sum, const Floats& gradient)
      : host_(used(extent, sum).host_used(), GuardedMemory::Borders::canaries),
        place_(used(extent, sum).place_used(), GuardedMemory::Borders::canaries),
        arena_(host_.bytes(), place_.bytes()),
        own_(extent, arena_),
        values_(extent, sum, arena_),
        exceptions_(extent, arena_) {
    Chunk chunk;
    chunk.extent = extent;
    chunk.gradient = gradient;
    own_.find(chunk, sum == Sum::exact ? nonzero::Zero::either : nonzero::Zero::positive);
  }
  [[nodiscard]] const Own& own() const { return own_; }
  Values& values() { return values_; }
  Exceptions& exceptions() { return exceptions_; }
  [[nodiscard]] bool intact() const { return host_.intact() && place_.intact(); }

 private:
  static Arena used(const Extent& extent, Sum sum) {
    Arena measuring;
    const Own own(extent, measuring);
    const Values values(extent, sum, measuring);
    const Exceptions exceptions(extent, measuring);
    return measuring;
  }
  GuardedMemory host_;
  GuardedMemory place_;
  Arena arena_;
  Own own_;
  Values values_;
  Exceptions exceptions_;
};

class ValuesMembers {
 public:
  ValuesMembers(const std::vector<Floats>& gradients, Sum sum, std::uint32_t block)
      : all_(WorkerSet::all(static_cast<std::uint32_t>(gradients.size()))),
        count_(static_cast<std::uint32_t>(gradients[0].size())),
        marks_(bitmaps::words_for(count_)),
        courier_(static_cast<std::uint32_t>(gradients.size())) {
    for (std::uint32_t rank = 0; rank < gradients.size(); ++rank) {
      const auto n = static_cast<std::uint32_t>(gradients.size());
      members_.push_back(std::make_unique<ValuesMember>(Extent{{1, 1, count_}, 0, count_, rank, n},
                                                        sum, gradients[rank]));
      members_[rank]->values().cut(block);
      const auto own = members_[rank]->own().marks();
      for (std::size_t i = 0; i < marks_.size(); ++i) marks_[i] |= own[i];
    }
  }
  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(members_.size()); }
  ValuesMember& operator[](std::uint32_t rank) { return *members_[rank]; }
  Marks& marks() { return marks_; }

  // Carries one leg of everybody and calls take(rank, answers).
  template <class Take>
  void exchange(const std::vector<std::vector<Round>>& rounds, Take take) {
    std::vector<support::Went> log;
    const auto answers = courier_.carry(rounds, log);
    for (std::uint32_t rank = 0; rank < size(); ++rank) {
      for (std::size_t i = 0; i < answers[rank].size(); ++i) {
        ASSERT_TRUE(check_answer(rounds[rank][i], answers[rank][i], size()).has_value());
      }
      take(rank, answers[rank]);
    }
  }
  void agree_on_ranges() {
    std::vector<std::vector<Round>> rounds;
    for (auto& member : members_) {
      rounds.push_back({member->values().ask_ranges(member->own(), all_.view())});
    }
    exchange(rounds, [&](std::uint32_t rank, const std::vector<Answer>& answers) {
      const Status status = members_[rank]->values().take_ranges(answers[0], true);
      EXPECT_TRUE(status.has_value()) << status.error().what;
    });
  }
  // Gives how many values of all workers did not fit.
  std::size_t sum_values() {
    std::size_t misfits = 0;
    std::vector<std::vector<Round>> rounds(size(), std::vector<Round>(kWidths));
    for (std::uint32_t rank = 0; rank < size(); ++rank) {
      ValuesMember& member = *members_[rank];
      member.values().lay_out(marks_);
      EXPECT_EQ(member.values().keys(), bitmaps::count(marks_));
      misfits += member.values().encode(member.own());
      rounds[rank].resize(member.values().ask(all_.view(), rounds[rank]));
      EXPECT_EQ(rounds[rank].size(), rounds[0].size());
    }
    widths_ = rounds[0].size();
    exchange(rounds, [](std::uint32_t, const std::vector<Answer>&) {});
    return misfits;
  }
  // By worker, a round.
  std::vector<std::vector<Round>> ask_windows() {
    std::vector<std::vector<Round>> rounds;
    for (auto& member : members_) {
      rounds.push_back(
          {member->exceptions().ask_windows(member->own(), member->values(), all_.view())});
    }
    return rounds;
  }
  // The rounds of the next lists, by worker.
  std::vector<std::vector<Round>> ask_lists() {
    std::vector<std::vector<Round>> rounds;
    for (auto& member : members_) {
      const auto mine =
          member->exceptions().ask_lists(member->own(), member->values(), all_.view());
      rounds.emplace_back(mine.begin(), mine.end());
    }
    return rounds;
  }
  void sum_exceptions() {
    exchange(ask_windows(), [&](std::uint32_t rank, const std::vector<Answer>& answers) {
      EXPECT_TRUE(members_[rank]->exceptions().take_windows(answers[0], true).has_value());
    });
    for (auto rounds = ask_lists(); !rounds[0].empty(); rounds = ask_lists()) {
      exchange(rounds, [&](std::uint32_t rank, const std::vector<Answer>& answers) {
        const Status status = members_[rank]->exceptions().take_lists(
            answers, members_[rank]->values(), marks_, size());
        EXPECT_TRUE(status.has_value()) << status.error().what;
      });
    }
  }
  Floats mean(std::uint32_t rank, bool with_exceptions) {
    Floats mean(count_, -77.0f);
    members_[rank]->values().decode(size(), mean);
    if (with_exceptions) members_[rank]->exceptions().overwrite(mean);
    EXPECT_TRUE(members_[rank]->intact()) << rank;
    return mean;
  }
  [[nodiscard]] std::size_t widths() const { return widths_; }

 private:
  WorkerSet all_;
  std::uint32_t count_;
  Marks marks_;
  std::vector<std::unique_ptr<ValuesMember>> members_;
  support::Courier courier_;
  std::size_t widths_ = 0;
};

// ---- Values.

Floats scattered(std::uint32_t count, double density, std::uint64_t seed, auto value) {
  Floats values(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint64_t word = mix(seed, i);
    if (static_cast<double>(word >> 11) * 0x1p-53 < density) values[i] = value(i, mix(word, i));
  }
  return values;
}

float normal_like(std::uint32_t, std::uint64_t word) {
  const auto one = static_cast<float>(static_cast<std::int32_t>(word));
  const auto other = static_cast<float>(static_cast<std::int32_t>(word >> 32));
  return std::ldexp(one + other, -40);
}

// Small in some blocks of 1024 and large in others, so that several widths are used.
float of_many_widths(std::uint32_t i, std::uint64_t word) {
  const auto bits = static_cast<int>(i / 1024 % 9) * 2 + 1;
  const float significand = static_cast<float>(word % (1u << bits)) + 1;
  const int spread = static_cast<int>(word >> 40) % (1 + static_cast<int>(i / 1024 % 9) * 4);
  return std::ldexp((word >> 33) % 2 == 0 ? significand : -significand, spread);
}

// All exponents from 2^-149 to 2^127 side by side.
float of_any_exponent(std::uint32_t, std::uint64_t word) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(word) & 0xfeffffffu);
}

// The oracle: negative zero counts as zero.
std::vector<std::uint32_t> exact_means(std::vector<Floats> gradients) {
  for (Floats& values : gradients) {
    for (float& value : values) value = value == 0 ? 0.0f : value;
  }
  Floats mean(gradients[0].size());
  for (std::size_t i = 0; i < mean.size(); ++i) {
    ExactSum sum;
    for (const Floats& values : gradients) sum.add(values[i]);
    mean[i] = sum.mean(static_cast<std::uint32_t>(gradients.size()));
  }
  return bits_of(mean);
}

struct ValuesOutcome {
  std::size_t misfits = 0;
  std::size_t widths = 0;
};

// The trip of all values and exceptions; every worker has the oracle's means.
ValuesOutcome expect_exact(const std::vector<Floats>& gradients, std::uint32_t block,
                           const Marks& more = {}) {
  ValuesMembers members(gradients, Sum::exact, block);
  for (std::size_t i = 0; i < more.size(); ++i) members.marks()[i] |= more[i];
  members.agree_on_ranges();
  const std::size_t misfits = members.sum_values();
  if (misfits != 0) members.sum_exceptions();
  const auto wanted = exact_means(gradients);
  for (std::uint32_t rank = 0; rank < members.size(); ++rank) {
    const auto got = bits_of(members.mean(rank, misfits != 0));
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      EXPECT_EQ(got[i], wanted[i]) << "coordinate " << i << " of " << wanted.size();
      if (got[i] != wanted[i]) return {};
    }
  }
  return {misfits, members.widths()};
}

std::vector<Floats> gradients_of(std::uint32_t workers, std::uint32_t count, double density,
                                 auto value) {
  std::vector<Floats> gradients;
  for (std::uint64_t w = 0; w < workers; ++w) {
    gradients.push_back(scattered(count, density, w + 1, value));
  }
  return gradients;
}

TEST(Values, AreTheExactMeansAtEveryCountAndBlock) {
  for (const std::uint32_t count : {1u, 2u, 63u, 64u, 65u, 1000u, 1024u, 1025u, 5003u}) {
    for (const std::uint32_t workers : {1u, 2u, 3u, 8u}) {
      for (const double density : {0.01, 0.3, 1.0}) {
        for (const std::uint32_t block : {1024u, 4096u, 8192u}) {
          expect_exact(gradients_of(workers, count, density, normal_like), block);
        }
      }
    }
  }
}

TEST(Values, BlocksOfDifferentRangesHaveDifferentWidths) {
  const ValuesOutcome outcome =
      expect_exact(gradients_of(3, 9 * 1024 + 77, 0.2, of_many_widths), 1024);
  EXPECT_EQ(outcome.misfits, 0u);
  EXPECT_GE(outcome.widths, 5u);
}

TEST(Values, CoordinatesThatNobodyHasAreZero) {
  const auto gradients = gradients_of(2, 3000, 0.02, normal_like);
  Marks everything(bitmaps::words_for(3000));
  bitmaps::fill(3000, everything);
  expect_exact(gradients, 1024, everything);
  expect_exact(std::vector<Floats>(2, Floats(3000, -0.0f)), 1024, everything);
}

TEST(Values, FloatSumsAreThoseInRankOrder) {
  const auto gradients = gradients_of(5, 2500, 0.3, normal_like);
  ValuesMembers members(gradients, Sum::floats, 1024);
  EXPECT_EQ(members.sum_values(), 0u);
  Floats wanted(2500);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    for (const Floats& values : gradients) wanted[i] += values[i];
    wanted[i] /= 5;
  }
  for (std::uint32_t rank = 0; rank < 5; ++rank) {
    EXPECT_EQ(bits_of(members.mean(rank, false)), bits_of(wanted));
  }
}

// ---- Exceptions.

TEST(Exceptions, ValuesOfAnyExponentAreSummedExactly) {
  for (const std::uint32_t workers : {1u, 2u, 7u}) {
    for (const double density : {0.02, 0.5}) {
      const auto gradients = gradients_of(workers, 2500, density, of_any_exponent);
      EXPECT_GT(expect_exact(gradients, 1024).misfits, 0u);
    }
  }
}

TEST(Exceptions, InfinitiesAndNanArriveWhereTheyWere) {
  auto gradients = gradients_of(3, 1500, 0.1, normal_like);
  const Floats awkward{kInf, -kInf, kNan, -kNan, std::bit_cast<float>(0x7f800001u)};
  std::size_t placed = 0;
  for (std::uint32_t i = 3; i < 1500; i += 31) {
    gradients[i % 3][i] = awkward[i % awkward.size()];
    placed += 1;
    if (i % 4 == 0) {
      placed += std::isfinite(gradients[(i + 1) % 3][i]) ? 1 : 0;
      gradients[(i + 1) % 3][i] = -kInf;
    }
  }
  EXPECT_EQ(expect_exact(gradients, 1024).misfits, placed);
  expect_exact({Floats(100, kInf), Floats(100, kNan), Floats(100, -0.0f)}, 1024);
}

// More windows than one step has room for, all of them full.
TEST(Exceptions, AsManyAsThereAreCoordinatesTakeSeveralSteps) {
  constexpr std::uint32_t kCount = 64 * 70 + 5;
  std::vector<Floats> gradients(2, Floats(kCount, 0x1p-149f));
  for (std::size_t first = 0; first < kCount; first += 1024) gradients[1][first] = 1e30f;
  EXPECT_GT(expect_exact(gradients, 1024).misfits, std::size_t{2} * kCount - 20);
}

// ---- Hostile answers.

Status taken_ranges(float own, std::uint32_t top, std::uint32_t low) {
  ValuesMembers members({Floats(100, own), Floats(100, -3.0f)}, Sum::exact, 1024);
  const WorkerSet all = WorkerSet::all(2);
  const Round round = members[0].values().ask_ranges(members[0].own(), all.view());
  const Part part{0, 2, all.view()};
  Bytes answer(3);
  const std::uint32_t packed = top | low << 9;
  for (std::size_t i = 0; i < 3; ++i) answer[i] = static_cast<std::byte>(packed >> (8 * i) & 0xff);
  EXPECT_EQ(answer.size(), down_size_max(round.what, 2));
  return members[0].values().take_ranges({answer, {&part, 1}}, true);
}

TEST(Values, RangesThatNoValuesHaveOrWithoutMineAreMalformed) {
  const auto mine = fixedpoint::range_of(Floats{1.5f});
  EXPECT_TRUE(taken_ranges(1.5f, mine.top, mine.low).has_value());
  EXPECT_TRUE(taken_ranges(1.5f, fixedpoint::kTopMax, fixedpoint::kLowMax).has_value());
  for (const auto& [top, low] :
       std::vector<std::pair<std::uint32_t, std::uint32_t>>{{mine.top - 1u, mine.low},
                                                            {mine.top, mine.low - 1u},
                                                            {0, 0},
                                                            {0, mine.low},
                                                            {mine.top, 0},
                                                            {fixedpoint::kTopMax + 1u, mine.low},
                                                            {mine.top, fixedpoint::kLowMax + 1u},
                                                            {511, 511}}) {
    const Status status = taken_ranges(1.5f, top, low);
    ASSERT_FALSE(status.has_value()) << top << ", " << low;
    EXPECT_EQ(status.error().code, Code::malformed);
  }
  EXPECT_TRUE(taken_ranges(0.0f, 0, 0).has_value()) << "nobody has values";
  EXPECT_FALSE(taken_ranges(0.0f, 0, mine.low).has_value());
  EXPECT_FALSE(taken_ranges(0.0f, mine.top, 0).has_value());
}

// Two workers with one exception each, in windows 0 and 1.
ValuesMembers exceptional() {
  std::vector<Floats> gradients(2, Floats(100, 2.0f));
  gradients[0][3] = kInf;
  gradients[1][70] = kNan;
  gradients[0][71] = 0.0f;
  gradients[1][71] = 0.0f;
  ValuesMembers members(gradients, Sum::exact, 1024);
  members.agree_on_ranges();
  EXPECT_EQ(members.sum_values(), 2u);
  return members;
}

TEST(Exceptions, FewerThanMineOrMoreThanAWindowHasIsMalformed) {
  const WorkerSet all = WorkerSet::all(2);
  const Part part{0, 2, all.view()};
  const auto taken = [&](std::uint8_t first, std::uint8_t second) {
    ValuesMembers members = exceptional();
    const auto rounds = members.ask_windows();
    EXPECT_EQ(rounds[0][0].what.count, 2u);
    const Bytes answer{static_cast<std::byte>(first), static_cast<std::byte>(second)};
    return members[0].exceptions().take_windows({answer, {&part, 1}}, true);
  };
  EXPECT_TRUE(taken(1, 1).has_value());
  EXPECT_TRUE(taken(64, 0).has_value());
  EXPECT_EQ(taken(0, 1).error().code, Code::malformed);
  EXPECT_EQ(taken(65, 1).error().code, Code::malformed);
  EXPECT_EQ(taken(1, 255).error().code, Code::malformed);
}

// Window 1 of worker 0, of which the other worker's list is made up.
Status taken_list(const Bytes& list) {
  ValuesMembers members = exceptional();
  const WorkerSet all = WorkerSet::all(2);
  const Round windows = members.ask_windows()[0][0];
  const Bytes counts{std::byte{1}, std::byte{3}};
  std::ranges::copy(counts, windows.down.begin());
  const Part part{0, 2, all.view()};
  EXPECT_TRUE(members[0].exceptions().take_windows({windows.down.first(2), {&part, 1}}, true));
  const auto rounds = members.ask_lists()[0];
  EXPECT_EQ(rounds.size(), 2u);
  Bytes first = support::combined(rounds[0].what, {{rounds[0].up.begin(), rounds[0].up.end()}, {}},
                                  all.view());
  Bytes second = support::combined(rounds[1].what, {{}, list}, all.view());
  const std::vector<Part> parts{{0, rounds[0].what.count, all.view()},
                                {0, rounds[1].what.count, all.view()}};
  const std::vector<Answer> answers{{first, {&parts[0], 1}}, {second, {&parts[1], 1}}};
  return members[0].exceptions().take_lists(answers, members[0].values(), members.marks(), 2);
}

Bytes entries(const std::vector<std::uint8_t>& places) {
  Bytes list;
  for (const std::uint8_t place : places) {
    list.push_back(static_cast<std::byte>(place));
    for (const int byte : {0, 0, 0x80, 0x3f}) list.push_back(static_cast<std::byte>(byte));
  }
  return list;
}

TEST(Exceptions, ListsThatNobodyWritesAreMalformed) {
  EXPECT_TRUE(taken_list(entries({6})).has_value());
  EXPECT_TRUE(taken_list(entries({6, 8, 35})).has_value());
  EXPECT_TRUE(taken_list({}).has_value());
  Bytes cut = entries({6, 8});
  cut.pop_back();
  for (const Bytes& list : {cut, entries({8, 6}), entries({6, 6}), entries({64}), entries({255}),
                            entries({7}), entries({36})}) {
    const Status status = taken_list(list);  // place 7 is nobody's, 36 lies behind the chunk
    ASSERT_FALSE(status.has_value());
    EXPECT_EQ(status.error().code, Code::malformed);
  }
}

}  // namespace
}  // namespace sluice::lossless
