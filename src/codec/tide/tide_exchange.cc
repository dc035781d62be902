#include "codec/tide/tide_exchange.h"

#include <algorithm>

#include "base/bytes.h"
#include "codec/input.h"
#include "codec/tide/faint.h"
#include "codec/tide/tide_decoder.h"
#include "kernels/energy/energy.h"
#include "kernels/lanes/lanes.h"

namespace sluice::tide {
namespace {

constexpr std::uint32_t kMeasured = 256;  // blocks measured at a time

// Eighth octaves of growth since the last step. Up to the first a worker sends as it is; beyond, it
// damps the block to that, because rotated integers wrap at 9.65 scales. Beyond the second the
// block is sent again.
constexpr std::int32_t kDampedFrom = 4;
constexpr std::int32_t kAgainFrom = 16;

Error malformed(const char* what) { return Error{sluice::Code::malformed, 0, what}; }

std::size_t blocks_if(bool wanted, const TideLayout& layout) {
  return wanted ? layout.blocks() : 0;
}

}  // namespace

TideExchange::TideExchange(const Chunk& chunk, Arena& arena, const TideSettings& settings)
    : chunk_(chunk),
      settings_(settings),
      layout_(chunk.extent.count, settings.block),
      shift_(shift_of(chunk.extent.rank, chunk.extent.workers)),
      tiny_(chunk.extent.tensor.count() < kExactBelow),
      mine_(arena.host<Code12>(layout_.blocks())),
      agreed_(arena.host<Code12>(layout_.blocks())),
      before_(arena.host<Code12>(blocks_if(settings.scales == Scales::previous, layout_))),
      codes_up_(
          arena.place<std::byte>(bytes_for_bits(std::uint64_t{layout_.blocks()} * kCodeBits))),
      codes_down_(arena.place<std::byte>(codes_up_.size())),
      signs_(arena.host<dither::Signs>(1)),
      allotting_(chunk_, layout_, settings, arena),
      words_(arena.host<std::uint64_t>(worker_words(chunk.extent.workers))),
      first_(arena, layout_, chunk.extent.workers, true),
      again_(arena, settings.scales == Scales::previous ? layout_ : TideLayout(0, settings.block),
             chunk.extent.workers, true),
      sent_again_(arena.host<std::uint8_t>(before_.size())) {}

Status TideExchange::check(std::span<const Answer> answers) const {
  if (answers.size() != rounds_used_) return malformed("tide: an answer per round expected");
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (rounds_[i].what.count == 0) continue;
    SLUICE_TRY(check_answer(rounds_[i], answers[i], chunk_.extent.workers));
  }
  return ok();
}

Result<Leg> TideExchange::next(std::span<const Answer> answers) {
  if (at_ != At::start) SLUICE_TRY(check(answers));
  switch (at_) {
    case At::start: return begin();
    case At::exact: finish_exact(answers[0]); return done();
    case At::scales: return ask_codes(answers[0]);
    case At::both: return after_both(answers);
    case At::codes: return finish(answers, {});
    case At::again: return finish(kept_, answers);
  }
  return malformed("tide: called after it was done");
}

Result<Leg> TideExchange::ask(std::span<const Round> rounds, At at) {
  rounds_used_ = rounds.size();
  std::copy(rounds.begin(), rounds.end(), rounds_.begin());
  at_ = at;
  return sluice::ask(std::span<const Round>(rounds_).first(rounds_used_));
}

Result<Leg> TideExchange::begin() {
  if (tiny_) return ask_exact();
  // One sign per place in a block, the same for all blocks of the tensor in this step.
  dither::draw_signs(RandomStream(chunk_.key, Purpose::sign, kShared), settings_.block, signs_[0]);
  load_state();
  return has_before_ ? ask_both() : ask_scales();
}

// The state has a word per block of the tensor: the code agreed last, plus one; 0: none yet.
void TideExchange::load_state() {
  const std::size_t first = chunk_.extent.offset / settings_.block;
  if (settings_.scales == Scales::now || chunk_.state.empty()) return;
  has_before_ = true;
  for (std::uint32_t b = 0; b < layout_.blocks(); ++b) {
    const auto stored = load_le<std::uint16_t>(chunk_.state, 2 * (first + b));
    if (stored == 0) has_before_ = false;
    before_[b] = static_cast<Code12>(stored - 1);
  }
}

void TideExchange::write_state() {
  if (settings_.scales == Scales::now || chunk_.state.empty()) return;
  const std::size_t first = chunk_.extent.offset / settings_.block;
  for (std::uint32_t b = 0; b < layout_.blocks(); ++b) {
    store_le(chunk_.state, 2 * (first + b), static_cast<std::uint16_t>(agreed_[b] + 1));
  }
}

// ---- Tensors too small for blocks.

Result<Leg> TideExchange::ask_exact() {
  const std::size_t size = std::size_t{4} * chunk_.extent.count;
  const Reduction what{.op = Op::f32_sum, .bits = 32, .count = chunk_.extent.count};
  if (layout_.blocks() == 0) return ask(std::array{Round{what, {}, {}, chunk_.only}}, At::exact);
  encode_exact({0, chunk_.extent.count, chunk_.extent.count}, first_.memory_up().first(size));
  return ask(std::array{Round{what, first_.memory_up().first(size),
                              first_.memory_down().first(size), chunk_.only}},
             At::exact);
}

void TideExchange::encode_exact(const TideLayout::Block& block, std::span<std::byte> up) {
  std::array<float, kBlockMost> memory;
  const auto input = input_tile(chunk_, block.first, block.count, memory);
  floats::encode(floats::Format::f32, input, 1.0f, up.first(std::size_t{4} * block.count));
  const auto padding = up.subspan(std::size_t{4} * block.count);
  std::fill(padding.begin(), padding.end(), std::byte{0});
}

void TideExchange::finish_exact(const Answer& answer) {
  if (chunk_.extent.count == 0) return;
  const dither::Shared shared = this->shared();
  Decoder decoder(chunk_, shared, answer.parts[0].from);
  decoder.exact({0, chunk_.extent.count, chunk_.extent.count}, first_.memory_up(), answer.down);
}

// ---- Scales.

Code12 TideExchange::my_code(const TideLayout::Block& block, float energy) const {
  const Code12 code = code_of(energy, log2_of(block.size));
  return code == kCodeZero ? faint_code(chunk_, block) : code;
}

// My scale codes of blocks [first, end).
void TideExchange::measure(std::uint32_t first, std::uint32_t end) {
  std::array<float, kMeasured> energies;
  std::uint32_t b = first;
  while (b < end) {
    const TideLayout::Block block = layout_[b];
    const std::uint32_t whole_end = std::min(end, layout_.whole());
    const std::uint32_t blocks = b < layout_.whole() ? std::min(kMeasured, whole_end - b) : 1;
    const std::uint32_t count = blocks == 1 ? block.count : blocks * block.size;
    const TideLayout::Block run{block.first, block.size, count};
    energy::blocks(chunk_.gradient.subspan(run.first, count), residual_of(run), block.size,
                   energies);
    for (std::uint32_t i = 0; i < blocks; ++i) {
      mine_[b + i] = my_code(layout_[b + i], energies[i]);
    }
    b += blocks;
  }
}

Round TideExchange::scales_round() {
  lanes::pack(std::span<const std::uint16_t>(mine_), kCodeBits, codes_up_);
  // One grain: whoever is not counted in it is not counted at all, its values may be too large.
  const Reduction what{.op = Op::max, .bits = kCodeBits, .count = layout_.blocks()};
  return {what, codes_up_, codes_down_, chunk_.only};
}

Result<Leg> TideExchange::ask_scales() {
  measure(0, layout_.blocks());
  return ask(std::array{scales_round()}, At::scales);
}

Status TideExchange::agree(const Answer& answer) {
  if (layout_.blocks() == 0) return ok();
  only_ = keep(answer.parts[0].from, words_);
  counted_ = only_.has(chunk_.extent.rank);
  lanes::unpack(answer.down, kCodeBits, agreed_);
  for (std::uint32_t b = 0; b < layout_.blocks(); ++b) {
    const Code12 code = agreed_[b];
    if (code != kCodeZero && code != kCodeNotFinite && !is_scale(code)) {
      return malformed("tide: an agreed scale that no block can have");
    }
    if (counted_ && code < mine_[b]) return malformed("tide: an agreed scale below my own");
  }
  return ok();
}

// ---- Codes.

// With the scales just agreed, by those who were counted in them.
void TideExchange::encode_agreed(Sending& sending) {
  if (!counted_) return sending.clear();
  std::array<dither::Encoding, kBatch> batch;
  std::size_t waiting = 0;
  const auto flush = [&] {
    dither::encode(shared(), shift_, std::span(batch).first(waiting));
    waiting = 0;
  };
  Sending::Cursor cursor;
  for (std::uint32_t b = 0; b < layout_.blocks(); ++b) {
    const std::uint8_t width = sending.widths()[b];
    if (width == 0) continue;
    const TideLayout::Block block = layout_[b];
    const auto up = sending.own(width, cursor.take(width, block.size), block.size);
    if (width == kExact) {
      encode_exact(block, up);
      continue;
    }
    if (agreed_[b] < kCodeAboveFaint) {
      encode_weak(b, width, agreed_[b], up);
      continue;
    }
    batch[waiting] = encoding_of(block, width, agreed_[b], up);
    if (++waiting == kBatch) flush();
  }
  flush();
}

// A block that is faint, or so weak that a residual that waits may exceed its scale.
void TideExchange::encode_weak(std::uint32_t number, std::uint8_t width, Code12 code,
                               std::span<std::byte> up) {
  const TideLayout::Block block = layout_[number];
  const bool faint = is_faint(code);
  std::array<float, kBlockMost> memory;
  dither::Encoding one = encoding_of(block, width, faint ? amplified(code) : code, up);
  if (mine_[number] == kCodeZero) {
    one.values = one.more = {};
  } else if (faint) {
    one.values = amplified_input(chunk_, block, memory);
    one.more = {};
  }
  dither::encode(shared(), shift_, {&one, 1});
}

Result<Leg> TideExchange::ask_codes(const Answer& scales) {
  SLUICE_TRY(agree(scales));
  const auto widths = first_.widths();
  allotting_.allot(agreed_, widths);
  for (std::uint32_t b = 0; b < layout_.blocks(); ++b) {
    if (agreed_[b] == kCodeNotFinite) widths[b] = kExact;
  }
  first_.plan(layout_, settings_, chunk_, only_);
  encode_agreed(first_);
  return ask(first_.rounds(), At::codes);
}

Result<Leg> TideExchange::ask_both() {
  allotting_.allot(before_, first_.widths());
  first_.plan(layout_, settings_, chunk_, chunk_.only);
  Sending::Cursor cursor;
  for (std::uint32_t first = 0; first < layout_.blocks(); first += kBatch) {
    encode_and_measure(cursor, first, std::min<std::uint32_t>(first + kBatch, layout_.blocks()));
  }
  std::array<Round, kRoundsMax> rounds;
  rounds[0] = scales_round();
  std::copy(first_.rounds().begin(), first_.rounds().end(), rounds.begin() + 1);
  return ask(rounds, At::both);
}

// With the scales of the step before; my own new ones come out of the same pass over memory.
void TideExchange::encode_and_measure(Sending::Cursor& cursor, std::uint32_t first,
                                      std::uint32_t end) {
  std::array<dither::Encoding, kBatch> batch;
  std::array<std::uint32_t, kBatch> number;
  std::array<float, kBatch> energies;
  std::size_t waiting = 0;
  for (std::uint32_t b = first; b < end; ++b) {
    const std::uint8_t width = first_.widths()[b];
    const TideLayout::Block block = layout_[b];
    if (width == 0) {
      measure(b, b + 1);
      continue;
    }
    const auto up = first_.own(width, cursor.take(width, block.size), block.size);
    if (before_[b] < kCodeAboveFaint) {
      measure(b, b + 1);
      encode_weak(b, width, code_to_send(b), up);
      continue;
    }
    batch[waiting] = encoding_of(block, width, before_[b], up);
    batch[waiting].energy = &energies[waiting];
    number[waiting++] = b;
  }
  dither::encode(shared(), shift_, std::span(batch).first(waiting));
  for (std::size_t i = 0; i < waiting; ++i) {
    const std::uint32_t b = number[i];
    mine_[b] = my_code(layout_[b], energies[i]);
    if (mine_[b] <= before_[b] + kDampedFrom) continue;
    // It has outgrown its scale: once more, damped.
    batch[i].factor = encode_factor(code_to_send(b), log2_of(batch[i].block.size));
    dither::encode(shared(), shift_, {&batch[i], 1});
  }
}

// The previous step's, or a larger one for a block of mine that has outgrown it.
Code12 TideExchange::code_to_send(std::uint32_t number) const {
  return std::max(before_[number], static_cast<Code12>(std::max(0, mine_[number] - kDampedFrom)));
}

bool TideExchange::is_outgrown(std::uint32_t number) const {
  const std::int32_t now = agreed_[number];
  const std::int32_t before = before_[number];
  return now == kCodeNotFinite || (now == kCodeZero) != (before == kCodeZero) ||
         std::abs(now - before) > kAgainFrom;
}

bool TideExchange::all_counted_alike(std::span<const Answer> codes) const {
  for (const Answer& answer : codes) {
    for (const Part& part : answer.parts) {
      if (!(part.from == only_)) return false;
    }
  }
  return true;
}

Result<Leg> TideExchange::after_both(std::span<const Answer> answers) {
  SLUICE_TRY(agree(answers[0]));
  const auto codes = answers.subspan(1);
  alike_ = all_counted_alike(codes);
  bool any = false;
  for (std::uint32_t b = 0; b < layout_.blocks(); ++b) {
    sent_again_[b] = static_cast<std::uint8_t>(!alike_ || is_outgrown(b) ? 1 : 0);
    any = any || sent_again_[b] != 0;
  }
  if (!any) return finish(codes, {});
  // Parts die with this call; if any answer is still wanted, all name the same set.
  for (std::size_t i = 0; i < codes.size(); ++i) {
    kept_parts_[i] = {0, first_.rounds()[i].what.count, only_};
    kept_[i] = {codes[i].down, {&kept_parts_[i], codes[i].parts.empty() ? 0u : 1u}};
  }
  const auto widths = again_.widths();
  allotting_.allot(agreed_, widths);
  for (std::uint32_t b = 0; b < layout_.blocks(); ++b) {
    if (agreed_[b] == kCodeNotFinite) widths[b] = kExact;
    if (sent_again_[b] == 0) widths[b] = 0;
  }
  again_.plan(layout_, settings_, chunk_, only_);
  encode_agreed(again_);
  return ask(again_.rounds(), At::again);
}

// ---- The end.

Result<Leg> TideExchange::finish(std::span<const Answer> first, std::span<const Answer> again) {
  if (layout_.blocks() == 0) return done();
  if (again.empty() || alike_) SLUICE_TRY(first_.read(first, chunk_.extent.workers));
  if (!again.empty()) SLUICE_TRY(again_.read(again, chunk_.extent.workers));
  const dither::Shared shared = this->shared();
  Decoder decoder(chunk_, shared, only_);
  Sending::Cursor first_cursor;
  Sending::Cursor again_cursor;
  for (std::uint32_t b = 0; b < layout_.blocks(); ++b) {
    const bool is_again = !again.empty() && sent_again_[b] != 0;
    // Even those of the first sending that are not wanted any more have lanes in it.
    const std::uint32_t first_lane = first_cursor.take(first_.widths()[b], layout_[b].size);
    if (!is_again) {
      decode_block(decoder, first_, first, b, first_lane, has_before_ ? before_[b] : agreed_[b]);
    } else {
      const std::uint32_t lane = again_cursor.take(again_.widths()[b], layout_[b].size);
      decode_block(decoder, again_, again, b, lane, agreed_[b]);
    }
  }
  decoder.flush();
  for (std::uint32_t b = 0; b < layout_.blocks() && !chunk_.tally.empty(); ++b) {
    count_block(chunk_.tally, agreed_[b], layout_[b].size, layout_[b].count);
  }
  write_state();
  return done();
}

void TideExchange::decode_block(Decoder& decoder, const Sending& sending,
                                std::span<const Answer> answers, std::uint32_t number,
                                std::uint32_t lane, Code12 code) {
  const TideLayout::Block block = layout_[number];
  const std::uint8_t width = sending.widths()[number];
  if (width == 0) return decoder.nothing(block);
  const auto own = sending.own(width, lane, block.size);
  if (width == kExact) {
    const auto sums = answers[Sending::index_of(width)].down.subspan(std::size_t{4} * lane,
                                                                     std::size_t{4} * block.size);
    return decoder.exact(block, own, sums);
  }
  decoder.coded(block, {width, code}, sending.twice(width, lane, block.size), own);
}

}  // namespace sluice::tide
