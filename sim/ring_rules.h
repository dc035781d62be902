// Ring rules that are not ours: mutants, which the checks of sim/ must catch.
#pragma once

#include <array>
#include <string_view>

#include "protocol/ring_rule.h"

namespace sluice::sim {

// Ours, but a use begins whoever may still need the result whose place it takes.
protocol::RingRuling begins_unacknowledged(protocol::Ring& ring, const protocol::Said& said);

// Ours, but what a worker said last is taken for what it knows best, also where that came late.
protocol::RingRuling takes_late_look_ahead(protocol::Ring& ring, const protocol::Said& said);

// Ours, but who announces a use is taken to have all results before that one.
protocol::RingRuling acknowledges_announced(protocol::Ring& ring, const protocol::Said& said);

// Ours, but whoever speaks is taken to have all results that there are.
protocol::RingRuling acknowledges_all(protocol::Ring& ring, const protocol::Said& said);

// Ours, but a worker that announced a use is taken to have nothing for that one, too.
protocol::RingRuling skips_announced(protocol::Ring& ring, const protocol::Said& said);

// Ours, but what a worker repeats is counted again.
protocol::RingRuling counts_again(protocol::Ring& ring, const protocol::Said& said);

struct NamedRingRule {
  std::string_view name;
  protocol::RingRule rule;
  std::string_view wrong;  // what is wrong with it
};

inline constexpr std::array kOtherRingRules{
    NamedRingRule{"begins_unacknowledged", &begins_unacknowledged,
                  "forgets results that somebody has not got"},
    NamedRingRule{"takes_late_look_ahead", &takes_late_look_ahead,
                  "believes a frame that was overtaken"},
    NamedRingRule{"acknowledges_announced", &acknowledges_announced,
                  "takes a look ahead for an acknowledgement"},
    NamedRingRule{"acknowledges_all", &acknowledges_all,
                  "takes a sign of life for an acknowledgement"},
    NamedRingRule{"skips_announced", &skips_announced, "does not wait for what was announced"},
    NamedRingRule{"counts_again", &counts_again, "counts what is repeated"},
};

}  // namespace sluice::sim
