// Slot rules that are not ours: the published one and mutants, which the checks of sim/ must catch.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "protocol/slot_rule.h"

namespace sluice::sim {

// SwitchML as published: a version is chosen by one bit and everything is decided by its bitmap. A
// version is begun anew when its bitmap is empty. What a worker sends to one version takes it out
// of the bitmap of the other ("it moved on, so it has that result"). No use number is read. The
// last packet's is noted, since a result goes out under the header of the packet that it answers.
// It never says stale.
protocol::SlotRuling published(protocol::Version (&versions)[2], std::uint32_t use,
                               std::uint32_t worker);

// Ours without the test for stale: a contribution to a use that is over is judged as if it were
// to the use that is there. A later number still begins the version anew, or nothing ever would.
protocol::SlotRuling no_use_test(protocol::Version (&versions)[2], std::uint32_t use,
                                 std::uint32_t worker);

// Ours, and a contribution that is not stale takes its worker out of the other version's bitmap.
// This is SwitchML with "drop what is older than the stored use" added.
protocol::SlotRuling clears_other_version(protocol::Version (&versions)[2], std::uint32_t use,
                                          std::uint32_t worker);

// Ours, but what a worker repeats is counted again, also into a sum that is complete.
protocol::SlotRuling counts_twice(protocol::Version (&versions)[2], std::uint32_t use,
                                  std::uint32_t worker);

struct NamedRule {
  std::string_view name;
  protocol::SlotRule rule;
  std::string_view wrong;  // what is wrong with it
};

inline constexpr std::array kOtherRules{
    NamedRule{"published", &published, "concludes from one version that the other is over"},
    NamedRule{"no_use_test", &no_use_test, "counts what is of a use that is over"},
    NamedRule{"clears_other_version", &clears_other_version,
              "forgets who is in a version that may still be asked for"},
    NamedRule{"counts_twice", &counts_twice, "counts what is repeated"},
};

}  // namespace sluice::sim
