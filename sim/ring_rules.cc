#include "sim/ring_rules.h"

namespace sluice::sim {

using protocol::Ring;
using protocol::ring_rule;
using protocol::RingRuling;
using protocol::Said;
using protocol::Speech;

RingRuling begins_unacknowledged(Ring& ring, const Said& said) {
  const RingRuling verdict = ring_rule(ring, said);
  if (verdict != RingRuling::blocked) return verdict;
  ring.kept[said.use % ring.depth] = {.used = true, .use = said.use};
  ring.is_open = true;
  protocol::cover(ring, said.worker, said.next);
  return RingRuling::first;
}

RingRuling takes_late_look_ahead(Ring& ring, const Said& said) {
  const RingRuling verdict = ring_rule(ring, said);
  if (verdict == RingRuling::again) ring.next[said.worker] = said.next;
  return verdict;
}

RingRuling acknowledges_announced(Ring& ring, const Said& said) {
  const RingRuling verdict = ring_rule(ring, said);
  const bool is_ahead =
      said.speech != Speech::question && protocol::is_later(said.next, ring.at[said.worker]);
  if (is_ahead) ring.at[said.worker] = said.next;
  return verdict;
}

RingRuling acknowledges_all(Ring& ring, const Said& said) {
  const RingRuling verdict = ring_rule(ring, said);
  ring.at[said.worker] = ring.use;
  return verdict;
}

RingRuling skips_announced(Ring& ring, const Said& said) {
  Said longer = said;
  if (said.speech != Speech::question) ++longer.next;
  return ring_rule(ring, longer);
}

RingRuling counts_again(Ring& ring, const Said& said) {
  const RingRuling verdict = ring_rule(ring, said);
  const bool is_counted = verdict == RingRuling::again && said.speech == Speech::data;
  return is_counted ? RingRuling::next : verdict;
}

}  // namespace sluice::sim
