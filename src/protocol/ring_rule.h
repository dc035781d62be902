// The rule of a ring: a place for sums to which not everybody contributes, exact over a network
// that loses, repeats and reorders.
//
// Uses of a ring are numbered from 1, the same on all workers, as the uses of a slot are. A worker
// knows which uses it has something for. What it says about use c means three things:
//
//   it has the results of all uses before c: an acknowledgement of all of them;
//   here is what it has for c, or it has nothing;
//   n is the next use that it has something for: nothing comes from it for those between.
//
// So a silent worker need not speak about every use. A use is complete when what everybody has said
// reaches beyond it. The last results are kept, `depth` of them, for workers that were silent and
// may have missed some. A use begins only when everybody has acknowledged the one whose place it
// takes. Where all speak about every use this is the rule of slots (slot_rule.h).
//
// What was said once stays true. So only the latest that was said of each kind counts, and a frame
// that comes late changes nothing. Who speaks about a use has the results before it. An earlier use
// that is not complete here will never be by contributions: its result was made by a memory that is
// lost, and workers restore it.
//
// No state but the Ring's. Functions take time for all workers at most, never fail and never
// allocate. Workers are below Ring::workers.
#pragma once

#include <array>
#include <cstdint>

#include "base/assert.h"
#include "protocol/rank_bits.h"
#include "protocol/slot_rule.h"

namespace sluice::protocol {

inline constexpr std::uint32_t kRingDepth = 8;

// What an aggregator knows of one ring. Only the functions below change it, and close().
struct Ring {
  // A place for the result of a use.
  struct Kept {
    bool used = false;
    bool is_complete = false;
    std::uint32_t use = 0;
  };

  std::uint32_t workers = 0;             // 1 to 64, set before the first use
  std::uint32_t depth = kRingDepth;      // results that are kept: 1 to kRingDepth
  bool is_known = false;                 // whether there is a latest use
  bool is_open = false;                  // it has begun and is not complete
  std::uint32_t use = 0;                 // the latest that anybody is at
  std::uint64_t heard = 0;               // those of whom `at` is known
  std::uint64_t said = 0;                // those of whom `next` is known
  std::array<std::uint32_t, 64> at{};    // what they spoke about last: all before it are there
  std::array<std::uint32_t, 64> next{};  // up to which they have said what they have
  std::array<Kept, kRingDepth> kept;     // by use modulo depth

  [[nodiscard]] const Kept& place_of(std::uint32_t number) const { return kept[number % depth]; }
  [[nodiscard]] bool has_result(std::uint32_t number) const {
    const Kept& place = place_of(number);
    return place.used && place.use == number && place.is_complete;
  }
  // Whether it is known what the worker has for the use.
  [[nodiscard]] bool covers(std::uint32_t worker, std::uint32_t number) const {
    return (said & bit_of(worker)) != 0 && is_later(next[worker], number);
  }
  // Whether the worker is known to have the result.
  [[nodiscard]] bool has_acknowledged(std::uint32_t worker, std::uint32_t number) const {
    return (heard & bit_of(worker)) != 0 && is_later(at[worker], number);
  }
  // Those who have said what they have for the use, or are beyond it.
  [[nodiscard]] std::uint64_t there(std::uint32_t number) const {
    std::uint64_t bits = 0;
    for (std::uint32_t worker = 0; worker < workers; ++worker) {
      if (covers(worker, number) || has_acknowledged(worker, number)) bits |= bit_of(worker);
    }
    return bits;
  }
  // Whether everybody has the result whose place the use takes. A worker that was not heard of may
  // lack any result that was ever made.
  [[nodiscard]] bool may_begin(std::uint32_t number) const {
    for (std::uint32_t worker = 0; worker < workers; ++worker) {
      const bool is_heard = (heard & bit_of(worker)) != 0;
      if (is_heard ? !is_later(at[worker], number - depth) : number > depth) return false;
    }
    return true;
  }
  // Whether the open use has all that it waits for.
  [[nodiscard]] bool is_due() const {
    if (!is_open) return false;
    for (std::uint32_t worker = 0; worker < workers; ++worker) {
      if (!covers(worker, use)) return false;
    }
    return true;
  }
  // The open use is complete. The caller has its result.
  void close() {
    SLUICE_DASSERT(is_open && kept[use % depth].use == use);
    kept[use % depth].is_complete = true;
    is_open = false;
  }
};

// What a frame about a use brings.
enum class Speech : std::uint8_t { data, nothing, question };

// What a worker said about a use.
struct Said {
  std::uint32_t worker = 0;
  std::uint32_t use = 0;
  std::uint32_t next = 0;  // later than the use; of a question it is not there
  Speech speech = Speech::nothing;
};

enum class RingRuling : std::uint8_t {
  stale,    // data of a use that is over: ignored
  blocked,  // data of a use that cannot begin yet: ignored
  first,    // data that begins the use: the result whose place it takes is gone
  next,     // data to be counted with what is there
  again,    // what is known already
  noted,    // no data, but known from here on
};

// Judges what a worker said and enters it. The caller has checked everything else about it. After
// `first` and `next` the caller adds the data; where is_due() then holds it makes the result and
// calls close().
using RingRule = RingRuling (*)(Ring& ring, const Said& said);

// Somebody is at this use, and has all results before it.
inline void reach(Ring& ring, std::uint32_t number) {
  if (ring.is_known && !is_later(number, ring.use)) return;
  ring.is_known = true;
  ring.is_open = false;
  ring.use = number;
}

// The worker is at this use. A use that it was beyond changes nothing.
inline void acknowledge(Ring& ring, std::uint32_t worker, std::uint32_t number) {
  reach(ring, number);
  if ((ring.heard & bit_of(worker)) != 0 && !is_later(number, ring.at[worker])) return;
  ring.heard |= bit_of(worker);
  ring.at[worker] = number;
}

// The worker has said what it has for all uses before `next`.
inline void cover(Ring& ring, std::uint32_t worker, std::uint32_t next) {
  if ((ring.said & bit_of(worker)) != 0 && !is_later(next, ring.next[worker])) return;
  ring.said |= bit_of(worker);
  ring.next[worker] = next;
}

inline RingRuling ring_rule(Ring& ring, const Said& said) {
  SLUICE_DASSERT(said.worker < ring.workers);
  SLUICE_DASSERT(said.speech == Speech::question || is_later(said.next, said.use));
  acknowledge(ring, said.worker, said.use);
  if (said.speech == Speech::question) return RingRuling::noted;
  if (ring.covers(said.worker, said.use)) return RingRuling::again;
  if (said.speech == Speech::nothing) {
    cover(ring, said.worker, said.next);
    return RingRuling::noted;
  }
  if (said.use != ring.use) return RingRuling::stale;
  const bool begins = !ring.is_open;
  if (begins) {
    if (!ring.may_begin(said.use)) return RingRuling::blocked;
    ring.kept[said.use % ring.depth] = {.used = true, .use = said.use};
    ring.is_open = true;
  }
  cover(ring, said.worker, said.next);
  return begins ? RingRuling::first : RingRuling::next;
}

// A worker hands back a result that was made by a memory which is lost. True: the ring takes it and
// the caller keeps its bytes; the use is complete, and nobody has to contribute to it. False: it is
// here already, or a later one has its place.
inline bool restore(Ring& ring, std::uint32_t number) {
  reach(ring, number + 1);
  Ring::Kept& place = ring.kept[number % ring.depth];
  if (place.used && is_later(place.use, number)) return false;
  if (ring.has_result(number)) return false;
  place = {.used = true, .is_complete = true, .use = number};
  for (std::uint32_t worker = 0; worker < ring.workers; ++worker) cover(ring, worker, number + 1);
  return true;
}

}  // namespace sluice::protocol
