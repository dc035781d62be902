#include "codec/tide/tide_exchange.h"

#include <algorithm>
#include <cstdlib>

#include "base/bytes.h"
#include "device/bench.h"
#include "kernels/lanes/lanes.h"

namespace sluice::tide {
namespace {

// Beyond so many eighth octaves of growth since the last step a block is sent again.
constexpr std::int32_t kAgainFrom = 16;

Error malformed(const char* what) { return Error{sluice::Code::malformed, 0, what}; }

}  // namespace

TideExchange::TideExchange(const Chunk& chunk, Arena& arena, const TideSettings& settings)
    : trip_(chunk, arena, settings),
      tiny_(chunk.extent.tensor.count() < kExactBelow),
      codes_up_(
          arena.host<std::byte>(bytes_for_bits(std::uint64_t{trip_.layout.blocks()} * kCodeBits))),
      codes_down_(arena.host<std::byte>(codes_up_.size())),
      allotting_(trip_.chunk, trip_.layout, settings, arena),
      words_(arena.host<std::uint64_t>(worker_words(chunk.extent.workers))),
      hands_(chunk.place.on_device() ? make_device_hands(trip_, arena)
                                     : make_host_hands(trip_, arena)) {}

Status TideExchange::check(std::span<const Answer> answers) const {
  if (answers.size() != rounds_used_) return malformed("tide: an answer per round expected");
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (rounds_[i].what.count == 0) continue;
    SLUICE_TRY(check_answer(rounds_[i], answers[i], trip_.chunk.extent.workers));
  }
  return ok();
}

Result<Leg> TideExchange::next(std::span<const Answer> answers) {
  switch (at_) {
    case At::start: return begin();
    case At::exact_encoded:
    case At::measured:
    case At::both_encoded:
    case At::codes_encoded:
    case At::again_encoded:
    case At::decoded: return go_on();
    default: break;
  }
  SLUICE_TRY(check(answers));
  switch (at_) {
    case At::exact: return finish_exact(answers[0]);
    case At::scales: return ask_codes(answers[0]);
    case At::both_scales:
      SLUICE_TRY(agree(answers[0]));
      return ask(trip_.first.rounds(), At::both_codes, trip_.chunk.place);
    case At::both: SLUICE_TRY(agree(answers[0])); return after_both(answers.subspan(1));
    case At::both_codes: return after_both(answers);
    case At::codes: return finish(answers, {});
    case At::again: return finish(kept_, answers);
    default: return malformed("tide: called after it was done");
  }
}

// What the hands were given is there now, or soon: then the bench has it.
Result<Leg> TideExchange::then(At at) {
  at_ = at;
  const bool is_read_here = at == At::measured || at == At::both_encoded || at == At::decoded;
  const bool is_later = hands_->is_later();
  // Bytes for a carrier on the device follow in its own order.
  if (is_later && (is_read_here || trip_.chunk.place.is_shared)) return wait();
  return go_on();
}

Result<Leg> TideExchange::go_on() {
  const Place wire = trip_.chunk.place.of_wire();
  switch (at_) {
    case At::exact_encoded: {
      const auto rounds = std::array{rounds_[0]};
      return ask(rounds, At::exact, wire);
    }
    case At::measured: return ask(std::array{scales_round()}, At::scales, {});
    case At::both_encoded: {
      // Scales lie on the host, so on a device they have a leg of their own.
      if (wire.on_device()) return ask(std::array{scales_round()}, At::both_scales, {});
      std::array<Round, kRoundsMax> rounds;
      rounds[0] = scales_round();
      std::copy(trip_.first.rounds().begin(), trip_.first.rounds().end(), rounds.begin() + 1);
      return ask(rounds, At::both, {});
    }
    case At::codes_encoded: return ask(trip_.first.rounds(), At::codes, wire);
    case At::again_encoded: return ask(trip_.again.rounds(), At::again, wire);
    default: return end();
  }
}

Result<Leg> TideExchange::ask(std::span<const Round> rounds, At at, const Place& place) {
  rounds_used_ = rounds.size();
  std::copy(rounds.begin(), rounds.end(), rounds_.begin());
  at_ = at;
  return sluice::ask(std::span<const Round>(rounds_).first(rounds_used_), place);
}

Result<Leg> TideExchange::begin() {
  if (tiny_) return ask_exact();
  load_state();
  if (trip_.has_before) return ask_both();
  hands_->measure();
  return then(At::measured);
}

// The state has a word per block of the tensor: the code agreed last, plus one; 0: none yet.
void TideExchange::load_state() {
  const Chunk& chunk = trip_.chunk;
  if (trip_.settings.scales == Scales::now || chunk.state.empty()) return;
  const std::size_t first = chunk.extent.offset / trip_.settings.block;
  trip_.has_before = true;
  for (std::uint32_t b = 0; b < trip_.layout.blocks(); ++b) {
    const auto stored = load_le<std::uint16_t>(chunk.state, 2 * (first + b));
    if (stored == 0) trip_.has_before = false;
    trip_.before[b] = static_cast<Code12>(stored - 1);
  }
}

void TideExchange::write_state() {
  const Chunk& chunk = trip_.chunk;
  if (trip_.settings.scales == Scales::now || chunk.state.empty()) return;
  const std::size_t first = chunk.extent.offset / trip_.settings.block;
  for (std::uint32_t b = 0; b < trip_.layout.blocks(); ++b) {
    store_le(chunk.state, 2 * (first + b), static_cast<std::uint16_t>(trip_.agreed[b] + 1));
  }
}

// ---- Tensors too small for blocks.

Result<Leg> TideExchange::ask_exact() {
  const Chunk& chunk = trip_.chunk;
  const std::size_t size = std::size_t{4} * chunk.extent.count;
  const Reduction what{.op = Op::f32_sum, .bits = 32, .count = chunk.extent.count};
  rounds_[0] = {what, {}, {}, chunk.only};
  if (trip_.layout.blocks() != 0) {
    trip_.first.plan_exact(size);
    rounds_[0].up = trip_.first.memory_up().first(size);
    rounds_[0].down = trip_.first.memory_down().first(size);
    hands_->encode_exact(trip_.first.memory_up().first(size));
  }
  return then(At::exact_encoded);
}

Result<Leg> TideExchange::finish_exact(const Answer& answer) {
  if (trip_.chunk.extent.count == 0) return done();
  trip_.counted = answer.parts[0].from.has(trip_.chunk.extent.rank);
  hands_->finish_exact(answer);
  return then(At::decoded);
}

// ---- Scales.

Round TideExchange::scales_round() {
  lanes::pack(std::span<const std::uint16_t>(trip_.mine), kCodeBits, codes_up_);
  // One grain: whoever is not counted in it is not counted at all, its values may be too large.
  const Reduction what{.op = Op::max, .bits = kCodeBits, .count = trip_.layout.blocks()};
  return {what, codes_up_, codes_down_, trip_.chunk.only};
}

Status TideExchange::agree(const Answer& answer) {
  if (trip_.layout.blocks() == 0) return ok();
  trip_.only = keep(answer.parts[0].from, words_);
  trip_.counted = trip_.only.has(trip_.chunk.extent.rank);
  lanes::unpack(answer.down, kCodeBits, trip_.agreed);
  // Without a way out of the loop, which then takes many blocks at a time.
  bool impossible = false;
  bool below = false;
  for (std::uint32_t b = 0; b < trip_.layout.blocks(); ++b) {
    const Code12 code = trip_.agreed[b];
    impossible |= code > kCodeMost && code != kCodeNotFinite;
    below |= code < trip_.mine[b];
  }
  if (impossible) return malformed("tide: an agreed scale that no block can have");
  if (trip_.counted && below) return malformed("tide: an agreed scale below my own");
  return ok();
}

// ---- Codes.

Result<Leg> TideExchange::ask_codes(const Answer& scales) {
  SLUICE_TRY(agree(scales));
  const auto widths = trip_.first.widths();
  allotting_.allot(trip_.agreed, widths);
  for (std::uint32_t b = 0; b < trip_.layout.blocks(); ++b) {
    widths[b] = trip_.agreed[b] == kCodeNotFinite ? kExact : widths[b];
  }
  trip_.first.plan(trip_.layout, trip_.settings, trip_.chunk, trip_.only);
  hands_->encode_agreed(trip_.first);
  return then(At::codes_encoded);
}

Result<Leg> TideExchange::ask_both() {
  allotting_.allot(trip_.before, trip_.first.widths());
  trip_.first.plan(trip_.layout, trip_.settings, trip_.chunk, trip_.chunk.only);
  hands_->encode_and_measure();
  return then(At::both_encoded);
}

bool TideExchange::is_outgrown(std::uint32_t number) const {
  const std::int32_t now = trip_.agreed[number];
  const std::int32_t before = trip_.before[number];
  return now == kCodeNotFinite || (now == kCodeZero) != (before == kCodeZero) ||
         std::abs(now - before) > kAgainFrom;
}

bool TideExchange::all_counted_alike(std::span<const Answer> codes) const {
  for (const Answer& answer : codes) {
    for (const Part& part : answer.parts) {
      if (!(part.from == trip_.only)) return false;
    }
  }
  return true;
}

// Parts die with this call; if any answer is still wanted, all name the same set.
void TideExchange::keep_answers(std::span<const Answer> codes) {
  for (std::size_t i = 0; i < codes.size(); ++i) {
    kept_parts_[i] = {0, trip_.first.rounds()[i].what.count, trip_.only};
    kept_[i] = {codes[i].down, {&kept_parts_[i], codes[i].parts.empty() ? 0u : 1u}};
  }
}

// With the scales agreed and the codes of the step before's scales summed.
Result<Leg> TideExchange::after_both(std::span<const Answer> codes) {
  trip_.alike = all_counted_alike(codes);
  bool any = false;
  for (std::uint32_t b = 0; b < trip_.layout.blocks(); ++b) {
    trip_.sent_again[b] = static_cast<std::uint8_t>(!trip_.alike || is_outgrown(b) ? 1 : 0);
    any = any || trip_.sent_again[b] != 0;
  }
  if (!any) return finish(codes, {});
  keep_answers(codes);
  const auto widths = trip_.again.widths();
  allotting_.allot(trip_.agreed, widths);
  for (std::uint32_t b = 0; b < trip_.layout.blocks(); ++b) {
    if (trip_.agreed[b] == kCodeNotFinite) widths[b] = kExact;
    if (trip_.sent_again[b] == 0) widths[b] = 0;
  }
  trip_.again.plan(trip_.layout, trip_.settings, trip_.chunk, trip_.only);
  hands_->encode_agreed(trip_.again);
  return then(At::again_encoded);
}

// ---- The end.

Result<Leg> TideExchange::finish(std::span<const Answer> first, std::span<const Answer> again) {
  if (trip_.layout.blocks() == 0) return done();
  SLUICE_TRY(hands_->finish(first, again));
  return then(At::decoded);
}

// The mean is written, unless a device found sums that cannot be.
Result<Leg> TideExchange::end() {
  const Chunk& chunk = trip_.chunk;
  if (chunk.place.on_device()) SLUICE_TRY(chunk.place.bench->judge());
  if (tiny_) return done();
  if (!chunk.tally.empty()) {
    count_blocks(trip_.layout, 0, trip_.layout.blocks(), trip_.agreed, chunk.tally);
  }
  write_state();
  return done();
}

}  // namespace sluice::tide
