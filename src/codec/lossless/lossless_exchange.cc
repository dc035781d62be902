#include "codec/lossless/lossless_exchange.h"

#include <algorithm>

#include "base/assert.h"
#include "base/bytes.h"
#include "codec/input.h"

namespace sluice::lossless {
namespace {

constexpr unsigned kValueBitsTypical = 40;  // of normally distributed values and a few workers
constexpr std::uint32_t kKeysPerBlock = 64;

Error malformed(const char* what) { return Error{Code::malformed, 0, what}; }

// Small enough that ranges differ, large enough that they cost little against the values.
std::uint32_t block_for(const Outlook& outlook) {
  std::uint32_t block = kBlockMin;
  while (block < outlook.count && block * outlook.keys < double{kKeysPerBlock} * outlook.count) {
    block *= 2;
  }
  return block;
}

// How many rows may travel with their zeros: no more than all values could fill but for a fifth, or
// some workers' rows are not like the largest's, and not so many that their bits and values are
// more than a dense chunk.
std::uint32_t whole_rows_max(const Extent& extent, const Outlook& outlook) {
  const auto cols = static_cast<double>(extent.tensor.cols);
  const double filled = outlook.total * 5 / 4 / cols + 2;
  const double cheap = outlook.count / cols * (1 - 1 / (32 * cols));
  return static_cast<std::uint32_t>(std::min(filled, cheap));
}

// Whether the values may all be different coordinates and so many that nothing longer than a bitmap
// is sure to be less than a dense chunk. Where there are still more, it is samples that say so.
bool is_tight(const Outlook& outlook) {
  return outlook.keys_max > outlook.count * 15.0 / 16 &&
         outlook.keys_max <= outlook.count * 31.0 / 32;
}

// An automatic choice of a sketch is one of few keys: where there are many, a step is cheap against
// the buckets that it saves.
constexpr std::uint32_t kKeysMaxAutomatic = 4096;

std::uint32_t sketch_room(const Extent& extent, const LosslessSettings& settings) {
  if (settings.sum == Sum::floats) return 0;
  if (settings.mode == Mode::sketch) return extent.count;
  return settings.mode == Mode::automatic ? std::min(extent.count, kKeysMaxAutomatic) : 0;
}

// Floats travel as they are: nothing of them can fail to fit.
Extent may_have_exceptions(const Extent& extent, const LosslessSettings& settings) {
  Extent may = extent;
  if (settings.sum == Sum::floats) may.count = 0;
  return may;
}

}  // namespace

LosslessExchange::LosslessExchange(const Chunk& chunk, Arena& arena,
                                   const LosslessSettings& settings)
    : chunk_(chunk),
      settings_(settings),
      own_(chunk.extent, arena),
      sample_(chunk.extent, chunk.key),
      index_(chunk.extent, chunk.key, arena, settings.index == IndexKind::gather),
      values_(chunk.extent, settings.sum, arena),
      sketched_(sketch_room(chunk.extent, settings), settings.room, chunk.key, arena),
      exceptions_(may_have_exceptions(chunk.extent, settings), arena),
      words_(arena.host<std::uint64_t>(worker_words(chunk.extent.workers))) {}

Result<Leg> LosslessExchange::next(std::span<const Answer> answers) {
  if (at_ == At::start) return begin();
  if (answers.size() != asked_.size()) {
    return malformed("lossless: an answer per round expected");
  }
  for (std::size_t i = 0; i < answers.size(); ++i) {
    SLUICE_TRY(check_answer(asked_[i], answers[i], chunk_.extent.workers));
  }
  return go_on(answers);
}

Result<Leg> LosslessExchange::go_on(std::span<const Answer> answers) {
  switch (at_) {
    case At::start: break;
    case At::together: return after_together(answers);
    case At::sample: return after_sample(answers);
    case At::index: return after_index(answers);
    case At::ranges: SLUICE_TRY(values_.take_ranges(answers[0], counted_)); return ask_values();
    case At::values:
      return settings_.sum == Sum::floats ? finish() : after_values(answers.back().down);
    case At::sketch: return take_sketch();
    case At::stuck:
      SLUICE_TRY(sketched_.take_stuck());
      sketched_.write(values_.sums());
      return after_values(misfits_down_);
    case At::windows: SLUICE_TRY(exceptions_.take_windows(answers[0], counted_)); break;
    case At::lists:
      SLUICE_TRY(exceptions_.take_lists(answers, values_, index_.marks(), contributors_));
      break;
  }
  return ask_lists();
}

Result<Leg> LosslessExchange::ask_these(At at, std::size_t rounds, Count bytes) {
  at_ = at;
  asked_ = std::span(rounds_).first(rounds);
  for (const Round& round : asked_) count(bytes, round.up.size());
  return ask(asked_);
}

Result<Leg> LosslessExchange::begin() {
  if (chunk_.extent.count == 0) return done();
  const auto entry = chunk_.state.subspan(chunk_.extent.offset / kBlockMin * kRememberedSize);
  remembered_ = {load_le<std::uint32_t>(entry),
                 {load_le<std::uint16_t>(entry, 4), load_le<std::uint16_t>(entry, 6)}};
  own_.find(chunk_, settings_.sum == Sum::exact ? nonzero::Zero::either : nonzero::Zero::positive);
  as_sketch_ =
      settings_.mode == Mode::sketch || (settings_.mode == Mode::automatic && sketch_pays());
  return as_sketch_ ? ask_together() : ask_sample();
}

void LosslessExchange::count_in(Workers counted) {
  only_ = keep(counted, words_);
  contributors_ = only_.count();
  counted_ = only_.has(chunk_.extent.rank);
  if (!counted_) own_.forget();
}

Result<Leg> LosslessExchange::ask_sample() {
  const auto rounds = sample_.ask(own_, chunk_.only);
  std::copy(rounds.begin(), rounds.end(), rounds_.begin());
  return ask_these(At::sample, rounds.size(), Count::header_bytes);
}

Result<Leg> LosslessExchange::after_sample(std::span<const Answer> answers) {
  count_in(answers[0].parts[0].from);
  Prospect prospect = sample_.take(answers);
  if (own_.count() > prospect.values_max) {
    return malformed("lossless: fewer values agreed on than I have");
  }
  Outlook& outlook = prospect.outlook;
  if (remembered_.keys > 1) {
    outlook.keys = std::clamp<double>(remembered_.keys - 1, outlook.keys_min, outlook.keys_max);
  }
  values_.cut(block_for(outlook));
  is_empty_ = prospect.is_empty;
  if (is_empty_) return finish();
  const bool dense =
      settings_.mode == Mode::dense || (settings_.mode == Mode::automatic && !prospect.is_sparse);
  count(dense ? Count::chunks_dense : Count::chunks_packed, 1);
  if (!dense) {
    index_.begin(plan_index(prospect), outlook, own_.marks());
    return ask_index(settings_.sum == Sum::exact);
  }
  index_.begin_with_all();
  return settings_.sum == Sum::floats ? ask_values() : ask_ranges();
}

IndexPlan LosslessExchange::plan_index(const Prospect& prospect) const {
  const Outlook& outlook = prospect.outlook;
  const unsigned value_bits = settings_.sum == Sum::exact ? kValueBitsTypical : 32;
  // A filter for fewer keys than there are lets everything through, so it is made for the most
  // there can be, unless the last step is a better guide.
  const double filtered = remembered_.keys <= 1 ? outlook.keys_max : outlook.keys;
  IndexPlan plan{.kind = settings_.index,
                 .lists_allowed = settings_.index == IndexKind::automatic,
                 .whole_rows = prospect.whole_rows,
                 .whole_rows_max = whole_rows_max(chunk_.extent, outlook),
                 .bloom = bloom_shape(outlook.count, filtered, value_bits),
                 .each_max = prospect.values_max,
                 .leg_bytes = settings_.leg_bytes};
  plan.granule = first_granule(outlook, plan.leg_bytes);
  if (plan.kind == IndexKind::rows && !has_rows(chunk_.extent)) plan.kind = IndexKind::bitmap;
  if (plan.kind != IndexKind::automatic) return plan;
  // No filter: tiers are shorter, and looking every coordinate up takes longer than a bitmap takes
  // to travel at 1 Gb/s.
  plan.kind = plan.granule == 1 || is_tight(outlook) ? IndexKind::bitmap : IndexKind::tiers;
  if (has_rows(chunk_.extent) && prospect.whole_rows && !is_tight(outlook)) {
    plan.kind = IndexKind::rows;
  }
  return plan;
}

Result<Leg> LosslessExchange::ask_index(bool with_ranges) {
  rounds_[0] = index_.ask(only_);
  count(Count::index_bytes, rounds_[0].up.size());
  asked_ = std::span(rounds_).first(1);
  if (with_ranges) {
    rounds_[1] = values_.ask_ranges(own_, only_);
    count(Count::header_bytes, rounds_[1].up.size());
    asked_ = std::span(rounds_).first(2);
  }
  at_ = At::index;
  return ask(asked_);
}

Result<Leg> LosslessExchange::after_index(std::span<const Answer> answers) {
  SLUICE_TRY(index_.take(answers[0]));
  if (answers.size() == 2) SLUICE_TRY(values_.take_ranges(answers[1], counted_));
  return index_.is_complete() ? ask_values() : ask_index(false);
}

Result<Leg> LosslessExchange::ask_ranges() {
  rounds_[0] = values_.ask_ranges(own_, only_);
  return ask_these(At::ranges, 1, Count::header_bytes);
}

Round LosslessExchange::ask_misfits(std::size_t misfits, bool unfit, Workers only) {
  store_le(std::span(misfits_up_), 0, static_cast<std::uint32_t>(misfits));
  store_le(std::span(misfits_up_), 4, std::uint32_t{unfit});
  const std::size_t size = with_sketch_ ? 8 : 4;
  return {{.op = Op::max, .bits = 32, .count = static_cast<std::uint32_t>(size / 4)},
          std::span(misfits_up_).first(size),
          std::span(misfits_down_).first(size),
          only};
}

Result<Leg> LosslessExchange::ask_values() {
  with_sketch_ = false;
  values_.lay_out(index_.marks());
  count(Count::union_keys, values_.keys());
  const std::size_t misfits = values_.encode(own_);
  const bool sketched = as_sketch_ && values_.keys() != 0 && values_.format(0).bits != 0;
  std::size_t used = 0;
  if (sketched) {
    const std::uint32_t rows = sketched_.rows_for(values_.keys(), units_of(index_.marks()));
    rounds_[used++] =
        sketched_.ask(index_.marks(), values_.encoded(), values_.format(0).bits, rows, only_);
  } else {
    used = values_.ask(only_, rounds_);
  }
  if (settings_.sum == Sum::exact) {
    count(Count::exceptions, misfits);
    rounds_[used++] = ask_misfits(misfits, false, only_);
  }
  if (used == 0) return finish();
  return ask_these(sketched ? At::sketch : At::values, used, Count::value_bytes);
}

Result<Leg> LosslessExchange::after_values(std::span<const std::byte> misfits) {
  const auto agreed = load_le<std::uint32_t>(misfits);
  if (counted_ && agreed < load_le<std::uint32_t>(misfits_up_)) {
    return malformed("lossless: fewer exceptions agreed on than I have");
  }
  if (agreed == 0) return finish();
  has_exceptions_ = true;
  rounds_[0] = exceptions_.ask_windows(own_, values_, only_);
  return ask_these(At::windows, 1, Count::exception_bytes);
}

Result<Leg> LosslessExchange::ask_lists() {
  asked_ = exceptions_.ask_lists(own_, values_, only_);
  if (asked_.empty()) return finish();
  for (const Round& round : asked_) count(Count::exception_bytes, round.up.size());
  at_ = At::lists;
  return ask(asked_);
}

Result<Leg> LosslessExchange::finish() {
  tell();
  if (is_empty_) {
    count(Count::chunks_empty, 1);
    std::fill(chunk_.mean.begin(), chunk_.mean.end(), 0.0f);
  } else {
    values_.decode(contributors_, chunk_.mean);
    if (has_exceptions_) exceptions_.overwrite(chunk_.mean);
  }
  remember();
  for (std::size_t i = 0; i < counts_.size(); ++i) chunk_.tally[i] += counts_[i];
  return done();
}

// All of the input was counted, or nothing. Before the mean is written, which may be the gradient's
// own memory.
void LosslessExchange::tell() {
  if (!counted_) return keep_everything(chunk_, 0, chunk_.extent.count);
  tell_all_sent(chunk_, 0, chunk_.extent.count);
}

void LosslessExchange::remember() {
  const auto entry = chunk_.state.subspan(chunk_.extent.offset / kBlockMin * kRememberedSize);
  const fixedpoint::Range range = is_empty_ ? fixedpoint::Range{} : values_.range();
  store_le(entry, 0, (is_empty_ ? 0 : values_.keys()) + 1);
  store_le(entry, 4, range.top);
  store_le(entry, 6, range.low);
}

}  // namespace sluice::lossless
