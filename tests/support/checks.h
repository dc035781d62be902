// What conformance means, as checks that say what is wrong: suites expect them to hold, and the
// tests of the suites expect them to fail for codecs with a flaw.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>

#include "carrier/world.h"
#include "codec/codec.h"
#include "tests/support/arrangement.h"
#include "tests/support/guarded_exchange.h"
#include "tests/support/scenario_job.h"

namespace sluice::support {

using Holds = ::testing::AssertionResult;

// Nothing broke a promise on the way.
Holds is_clean(const ScenarioOutcome& outcome);
Holds is_clean(const GuardedOutcome& outcome);

// Same means, memories, wire bytes and counts.
Holds agrees(const ScenarioOutcome& reference, const ScenarioOutcome& other);

// Of a scenario of one step: where a counted worker had Inf or NaN the mean is not finite; the
// others are finite as far as the codec's traits promise; memories are finite everywhere.
Holds carries_nonfinite(const Codec& codec, const Inputs& inputs, const ScenarioOutcome& outcome);

// Of a scenario of one step with finite data: the mean is that of the workers that were counted,
// as exactly as the codec's traits promise, and workers that were not keep their gradients.
Holds counts_only_the_present(const Codec& codec, const Inputs& inputs,
                              const ScenarioOutcome& outcome);

// Of an exchange with feedback by a codec that promises error_max: what the workers
// brought is in the mean, once, or still in their residuals. Looks at coordinates that are finite
// on all workers.
Holds books_what_it_sends(const GuardedCase& guarded_case, const GuardedOutcome& outcome);

// The exchange was finished by all workers, with the same mean.
Holds finished_alike(const GuardedOutcome& outcome);
// Every worker got this error; nothing of the caller's changed.
Holds failed_everywhere(const GuardedOutcome& outcome, Code code);
// No worker finished, or all with the same mean.
Holds failed_or_finished_alike(const GuardedOutcome& outcome);

}  // namespace sluice::support
