// Answers come from outside: what is cut short is refused, what is changed is refused or gives all
// ranks the same, what does not fit together is refused. Nothing crashes, nothing is written.
#include <gtest/gtest.h>

#include <array>
#include <set>

#include "base/random.h"
#include "tests/support/checks.h"
#include "tests/support/subject.h"

namespace sluice::support {
namespace {

using Kind = Tampering::Kind;

constexpr std::size_t kAllUpTo = 300;     // bytes of an answer of which every place is tried,
constexpr std::uint32_t kAllWorkers = 8;  // among so many workers
constexpr std::size_t kSamples = 24;      // of others

constexpr std::array kWrongParts{Kind::part_dropped,   Kind::part_repeated,   Kind::part_shifted,
                                 Kind::part_short,     Kind::part_long,       Kind::part_empty,
                                 Kind::parts_split,    Kind::parts_none,      Kind::set_empty,
                                 Kind::set_beyond,     Kind::set_words_none,  Kind::set_words_more,
                                 Kind::answer_dropped, Kind::answer_repeated, Kind::answers_none};

// Small exchanges, in whole; one with a tail of a grain, one with the paths that Inf and NaN take,
// one with several parts, one with a full word of workers.
constexpr std::array kCases{
    GuardedCase{.count = 40, .workers = 3},
    GuardedCase{.count = 1, .workers = 1},
    GuardedCase{.count = 300, .workers = 2, .in_place = true},
    GuardedCase{.count = 600, .workers = 3, .data = DataKind::nans},
    GuardedCase{.count = 1100, .workers = 5, .missing = Missing::some_grains},
    GuardedCase{.count = 65, .workers = 64},
};

class HostileAnswers : public ConformanceTest {
 protected:
  // Places in an answer: all, or both ends and a sample.
  static std::set<std::size_t> places(const GuardedCase& guarded_case, std::size_t size) {
    std::set<std::size_t> all;
    const bool few = size <= kAllUpTo && guarded_case.workers <= kAllWorkers;
    const bool every = few || size <= kSamples || is_full();
    const RandomStream stream(chunk_key(size, 0, 0), Purpose::data, kShared);
    for (std::size_t i = 0; i < (every ? size : kSamples); ++i) {
      all.insert(every ? i : stream.word(i) % size);
    }
    if (size != 0) all.insert({0, size - 1});
    return all;
  }

  [[nodiscard]] GuardedOutcome run(const GuardedCase& guarded_case,
                                   const Tampering& tampering) const {
    return run_exchange(codec(), carrier(), guarded_case, tampering);
  }

  // Calls each(case, step, round, bytes) for every answer of every case.
  template <class Each>
  void each_answer(Each each) {
    std::size_t turn = 0;
    for (GuardedCase guarded_case : kCases) {
      if (guarded_case.missing != Missing::none && !traits().quorum) continue;
      guarded_case.feedback = feedbacks()[turn++ % feedbacks().size()];
      const GuardedOutcome clean = run(guarded_case, {});
      ASSERT_TRUE(finished_alike(clean)) << describe(guarded_case);
      for (std::uint32_t step = 0; step < clean.down_sizes.size(); ++step) {
        for (std::uint32_t round = 0; round < clean.down_sizes[step].size(); ++round) {
          each(guarded_case, step, round, clean.down_sizes[step][round]);
          if (HasFailure()) return;
        }
      }
    }
  }

  void expect_refused(const GuardedCase& guarded_case, const Tampering& tampering) {
    EXPECT_TRUE(failed_everywhere(run(guarded_case, tampering), Code::malformed))
        << describe(guarded_case) << "; " << support::describe(tampering);
  }
  void expect_harmless(const GuardedCase& guarded_case, const Tampering& tampering) {
    EXPECT_TRUE(failed_or_finished_alike(run(guarded_case, tampering)))
        << describe(guarded_case) << "; " << support::describe(tampering);
  }
};

TEST_P(HostileAnswers, EveryTruncationIsMalformedAndChangesNothing) {
  each_answer([this](const GuardedCase& guarded_case, std::uint32_t step, std::uint32_t round,
                     std::size_t size) {
    for (const std::size_t length : places(guarded_case, size)) {
      expect_refused(guarded_case, {Kind::truncate, 0, step, round, length});
    }
  });
}

TEST_P(HostileAnswers, AFlippedByteIsAnErrorOrTheSameResultOnAllRanks) {
  each_answer([this](const GuardedCase& guarded_case, std::uint32_t step, std::uint32_t round,
                     std::size_t size) {
    for (const std::size_t position : places(guarded_case, size)) {
      for (const unsigned mask : {0x01u, 0x10u, 0x80u, 0xffu}) {
        expect_harmless(guarded_case,
                        {Kind::flip, 0, step, round, position, static_cast<std::byte>(mask)});
      }
    }
  });
}

TEST_P(HostileAnswers, PartsThatDoNotFitAreMalformedAndChangeNothing) {
  each_answer([this](const GuardedCase& guarded_case, std::uint32_t step, std::uint32_t round,
                     std::size_t) {
    for (const Kind kind : kWrongParts) expect_refused(guarded_case, {kind, 0, step, round});
  });
}

TEST_P(HostileAnswers, AnotherSetOrAByteMoreIsAnErrorOrTheSameResultOnAllRanks) {
  each_answer([this](const GuardedCase& guarded_case, std::uint32_t step, std::uint32_t round,
                     std::size_t) {
    expect_harmless(guarded_case, {Kind::set_other, 0, step, round});
    expect_harmless(guarded_case, {Kind::lengthen, 0, step, round});
  });
}

// Through a group, which adds up what answers say before the exchange sees them.
TEST_P(HostileAnswers, AGroupRefusesWhatItsExchangeRefuses) {
  const Inputs inputs(Scenario{.count = 600, .workers = 3, .chunk_count = 1});
  std::vector<Kind> kinds(kWrongParts.begin(), kWrongParts.end());
  kinds.push_back(Kind::truncate);
  for (const Kind kind : kinds) {
    ScenarioJob job(codec(), carrier(), inputs, Way{}, {.kind = kind, .sequence = 1});
    for (const Code code : job.run_all(0)) {
      EXPECT_EQ(sluice::name_of(code), "malformed") << name_of(kind);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Catalogue, HostileAnswers, ::testing::ValuesIn(catalogue_and_fake()),
                         name_of_param);

}  // namespace
}  // namespace sluice::support
