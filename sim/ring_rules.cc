#include "sim/ring_rules.h"

namespace sluice::sim {

using protocol::Ring;
using protocol::ring_rule;
using protocol::RingVerdict;
using protocol::Said;
using protocol::Speech;

RingVerdict begins_unacknowledged(Ring& ring, const Said& said) {
  const RingVerdict verdict = ring_rule(ring, said);
  if (verdict != RingVerdict::blocked) return verdict;
  ring.kept[said.chunk % ring.depth] = {.used = true, .chunk = said.chunk};
  ring.is_open = true;
  protocol::cover(ring, said.worker, said.next);
  return RingVerdict::first;
}

RingVerdict takes_late_look_ahead(Ring& ring, const Said& said) {
  const RingVerdict verdict = ring_rule(ring, said);
  if (verdict == RingVerdict::again) ring.next[said.worker] = said.next;
  return verdict;
}

RingVerdict acknowledges_announced(Ring& ring, const Said& said) {
  const RingVerdict verdict = ring_rule(ring, said);
  const bool is_ahead =
      said.speech != Speech::question && protocol::is_later(said.next, ring.at[said.worker]);
  if (is_ahead) ring.at[said.worker] = said.next;
  return verdict;
}

RingVerdict acknowledges_all(Ring& ring, const Said& said) {
  const RingVerdict verdict = ring_rule(ring, said);
  ring.at[said.worker] = ring.chunk;
  return verdict;
}

RingVerdict skips_announced(Ring& ring, const Said& said) {
  Said longer = said;
  if (said.speech != Speech::question) ++longer.next;
  return ring_rule(ring, longer);
}

RingVerdict counts_again(Ring& ring, const Said& said) {
  const RingVerdict verdict = ring_rule(ring, said);
  const bool is_counted = verdict == RingVerdict::again && said.speech == Speech::data;
  return is_counted ? RingVerdict::next : verdict;
}

}  // namespace sluice::sim
