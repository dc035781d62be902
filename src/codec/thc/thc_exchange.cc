#include "codec/thc/thc_exchange.h"

#include <algorithm>

#include "base/bytes.h"
#include "codec/input.h"
#include "codec/thc/rounding.h"
#include "kernels/draws/draws.h"
#include "kernels/floats/floats.h"
#include "kernels/hadamard/hadamard.h"
#include "kernels/hadamard/rows.h"
#include "kernels/lanes/lanes.h"
#include "kernels/quantiser/quantiser.h"
#include "round/sum_reader.h"

namespace sluice::thc {
namespace {

constexpr std::uint32_t kTile = kInputTile;
constexpr std::uint32_t kSignBits = draws::kSignsPerWord;

// Calls call(at, count) for the tiles of so many coordinates.
template <class Call>
void each_tile(std::uint32_t count, Call call) {
  for (std::uint32_t at = 0; at < count; at += kTile) call(at, std::min(kTile, count - at));
}

// Blocks that a kernel takes in one call.
constexpr std::size_t kBatch = 16;

}  // namespace

ThcExchange::ThcExchange(const Chunk& chunk, Arena& arena, const ThcSettings& settings)
    : chunk_(chunk),
      settings_(settings),
      blocks_(chunk.extent.count, settings.block),
      keys_(
          arena.host<std::uint32_t>(std::size_t{blocks_.count()} * keys_per_block(settings.range))),
      keys_up_(arena.place<std::byte>(keys_.size_bytes())),
      keys_down_(arena.place<std::byte>(keys_.size_bytes())),
      // A coordinate is a code (at most 1 byte up, 3.5 bytes and a header down) or a float.
      up_(arena.place<std::byte>(std::size_t{4} * chunk.extent.count + 2 * kAlignment)),
      down_(arena.place<std::byte>(std::size_t{4} * chunk.extent.count + 2 * kAlignment)),
      work_(arena.place<float>(is_rotated() ? chunk.extent.count : 0)),
      signs_(arena.place<std::uint32_t>(is_rotated() ? work_.size() / kSignBits + 2 : 0)),
      sums_(arena.place<std::int32_t>(std::size_t{chunk.extent.count} + kGrain)),
      words_(arena.host<std::uint64_t>(worker_words(chunk.extent.workers))) {}

Result<Leg> ThcExchange::next(std::span<const Answer> answers) {
  if (at_ != At::start && answers.size() != rounds_used_) {
    return Error{Code::malformed, 0, "thc: an answer per round expected"};
  }
  for (std::size_t i = 0; i < answers.size(); ++i) {
    SLUICE_TRY(check_answer(rounds_[i], answers[i], chunk_.extent.workers));
  }
  switch (at_) {
    case At::start: return ask_keys();
    case At::keys: return ask_values(answers[0]);
    case At::values: break;
  }
  SLUICE_TRY(read_sums(answers[0]));
  decode(rounds_used_ > 1 ? answers[1] : Answer{});
  return done();
}

template <class Call>
void ThcExchange::each_placed(Call call) const {
  const std::uint32_t keys = keys_per_block(settings_.range);
  std::uint32_t codes = 0;
  std::uint32_t floats = 0;
  blocks_.each([&](std::uint32_t number, const ThcBlock& block) {
    const auto mine = keys_.subspan(std::size_t{number} * keys, keys);
    PlacedBlock placed{block, scale_of(settings_, mine, block.count)};
    if (placed.scale.kind != ScaleKind::constant) {
      std::uint32_t& lanes = placed.scale.kind == ScaleKind::coded ? codes : floats;
      placed.lane = lanes;
      lanes += block.count;
    }
    call(placed);
  });
}

Result<Leg> ThcExchange::ask_keys() {
  if (is_rotated()) fill_signs();
  fill_keys(settings_, chunk_, blocks_, {signs_, work_}, keys_);
  for (std::size_t i = 0; i < keys_.size(); ++i) store_le(keys_up_, 4 * i, keys_[i]);
  // One grain: whoever missed the scales cannot quantise, so all rounds have one set.
  rounds_[0] = {{.op = Op::max, .bits = 32, .count = static_cast<std::uint32_t>(keys_.size())},
                keys_up_,
                keys_down_,
                chunk_.only};
  rounds_used_ = 1;
  at_ = At::keys;
  return ask(std::span(rounds_).first(rounds_used_));
}

Status ThcExchange::adopt_keys(const Answer& answer) {
  if (!answer.parts.empty()) {
    only_ = keep(answer.parts[0].from, words_);
    contributors_ = only_.count();
  }
  counted_ = keys_.empty() || only_.has(chunk_.extent.rank);
  for (std::size_t i = 0; i < keys_.size(); ++i) {
    const auto agreed = load_le<std::uint32_t>(answer.down, 4 * i);
    if (counted_ && agreed < keys_[i]) {
      return Error{Code::malformed, 0, "thc: an agreed scale below my own"};
    }
    keys_[i] = agreed;
  }
  return ok();
}

Result<Leg> ThcExchange::ask_values(const Answer& answer) {
  SLUICE_TRY(adopt_keys(answer));
  ask_rounds();
  if (counted_) {
    // The last lanes, fewer than 8, are put one by one.
    const auto codes = up_.first(rounds_[0].up.size());
    const auto last = codes.subspan(std::size_t{rounds_[0].what.count} / 8 * settings_.bits);
    std::fill(last.begin(), last.end(), std::byte{0});
    encode();
  } else {
    std::fill(up_.begin(), up_.end(), std::byte{0});
  }
  at_ = At::values;
  return ask(std::span(rounds_).first(rounds_used_));
}

// Sizes follow the agreed keys, which are the same on all ranks.
void ThcExchange::ask_rounds() {
  std::uint32_t coded = 0;
  std::uint32_t odd = 0;
  each_placed([&](const PlacedBlock& placed) {
    if (placed.scale.kind == ScaleKind::coded) coded += placed.block.count;
    if (placed.scale.kind == ScaleKind::odd) odd += placed.block.count;
  });
  const bool is_uniform = settings_.quantiser.uniform;  // codes add up as they are
  const Reduction codes{
      .op = Op::lane_sum,
      .bits = static_cast<std::uint8_t>(settings_.bits),
      .down = settings_.down,
      .extra = static_cast<std::uint8_t>(settings_.extra),
      .count = coded,
      .grain = kGrain,
      .table = is_uniform ? std::span<const std::uint16_t>() : settings_.table.values};
  const Reduction floats{.op = Op::f32_sum, .bits = 32, .count = odd, .grain = kGrain};
  const std::size_t up = up_size(codes);
  const std::size_t down = down_size_max(codes, chunk_.extent.workers);
  floats_up_ = up_.subspan(round_up(up, kAlignment), up_size(floats));
  rounds_[0] = {codes, up_.first(up), down_.first(down), only_};
  rounds_[1] = {floats, floats_up_, down_.subspan(round_up(down, kAlignment), up_size(floats)),
                only_};
  for (Round& round : rounds_) round.anywhere = true;
  rounds_used_ = odd == 0 ? 1 : 2;
}

void ThcExchange::encode() {
  const quantiser::Draws draws = rounding_draws(settings_.rounding, chunk_);
  std::array<quantiser::Encoding, kBatch> batch;
  std::size_t waiting = 0;
  const auto flush = [&] {
    quantiser::encode(settings_.quantiser, draws, std::span(batch).first(waiting), up_);
    waiting = 0;
  };
  each_placed([&](const PlacedBlock& placed) {
    if (placed.scale.kind == ScaleKind::constant) return;
    if (placed.scale.kind == ScaleKind::odd) return encode_floats(placed);
    if (!is_rotated()) return encode_bounded(placed);
    rotate(placed.block);
    batch[waiting++] = {chunk_.extent.offset + placed.block.first, work_of(placed.block),
                        placed.scale.up, placed.lane};
    if (waiting == kBatch) flush();
  });
  flush();
}

// Distances from the middle in place of rotated coordinates.
void ThcExchange::encode_bounded(const PlacedBlock& placed) {
  const quantiser::Draws draws = rounding_draws(settings_.rounding, chunk_);
  each_tile(placed.block.count, [&](std::uint32_t at, std::uint32_t count) {
    const std::uint32_t first = placed.block.first + at;
    std::array<float, kTile> memory;
    const auto input = input_tile(chunk_, first, count, memory);
    for (std::uint32_t i = 0; i < count; ++i) memory[i] = input[i] - placed.scale.middle;
    const quantiser::Encoding tile{chunk_.extent.offset + first, std::span(memory).first(count),
                                   placed.scale.up, std::size_t{placed.lane} + at};
    quantiser::encode(settings_.quantiser, draws, {&tile, 1}, up_);
  });
}

void ThcExchange::encode_floats(const PlacedBlock& placed) {
  each_tile(placed.block.count, [&](std::uint32_t at, std::uint32_t count) {
    std::array<float, kTile> memory;
    floats::encode(floats::Format::f32, input_tile(chunk_, placed.block.first + at, count, memory),
                   1.0f,
                   floats_up_.subspan(4 * (std::size_t{placed.lane} + at), std::size_t{4} * count));
  });
}

// All of them before anything of the caller's is written.
Status ThcExchange::read_sums(const Answer& answer) {
  SumReader reader(rounds_[0].what, chunk_.extent.workers, answer);
  for (std::size_t lane = 0; !reader.done();) {
    SLUICE_TRY_ASSIGN(const SumReader::Grain grain, reader.next(sums_.subspan(lane)));
    lane += grain.count;
  }
  return ok();
}

void ThcExchange::decode(const Answer& floats) {
  const std::uint32_t m = contributors_;
  const auto centre = static_cast<std::int32_t>(m * settings_.g);
  // Means are read by nobody soon, unless they take the place of what was.
  const auto stores = chunk_.mean.data() == chunk_.given().data() ? hadamard::Stores::through
                                                                  : hadamard::Stores::around;
  std::array<hadamard::SumRow, kBatch> batch;
  std::size_t waiting = 0;
  const auto flush = [&] {
    hadamard::unrotate_sums(centre, std::span(batch).first(waiting), stores);
    waiting = 0;
  };
  each_placed([&](const PlacedBlock& placed) {
    keep_rest(placed);
    const std::uint32_t count = placed.block.count;
    const auto mean = chunk_.mean.subspan(placed.block.first, count);
    if (placed.scale.kind != ScaleKind::coded) return decode_other(placed, floats);
    const auto unit = static_cast<float>(placed.scale.step / (2.0 * m * settings_.mixed(count)));
    const auto twice = std::span<const std::int32_t>(sums_).subspan(placed.lane, count);
    if (count <= hadamard::kRowMax && rotates_on_the_way(settings_, chunk_, count)) {
      batch[waiting++] = {twice, unit, signs_of(placed.block), mean};
      if (waiting == kBatch) flush();
    } else if (is_rotated()) {
      quantiser::means(twice, centre, unit, work_of(placed.block));
      unrotate(placed.block, mean);
    } else {
      quantiser::means(twice, centre, unit, mean);
      for (float& value : mean) value += placed.scale.middle;
    }
  });
  flush();
  if (stores == hadamard::Stores::around) hadamard::finish_stores();
}

void ThcExchange::decode_other(const PlacedBlock& placed, const Answer& floats) {
  const auto mean = chunk_.mean.subspan(placed.block.first, placed.block.count);
  if (placed.scale.kind == ScaleKind::constant) {
    return std::fill(mean.begin(), mean.end(), placed.scale.middle);
  }
  const auto sums = floats.down.subspan(std::size_t{4} * placed.lane, mean.size_bytes());
  floats::decode_mean(floats::Format::f32, sums, 1.0f, static_cast<float>(contributors_), mean);
}

// Before the mean is written, which may be the gradient's own memory.
void ThcExchange::keep_rest(const PlacedBlock& placed) {
  if (!chunk_.has_feedback()) return;
  const std::uint32_t first = placed.block.first;
  const std::uint32_t count = placed.block.count;
  if (!counted_) return keep_everything(chunk_, first, count);
  if (placed.scale.kind != ScaleKind::coded) return keep_of_exact(placed);
  if (is_rotated()) {
    each_tile(count, [&](std::uint32_t at, std::uint32_t tile) {
      decode_own(placed, at, work_.subspan(std::size_t{first} + at, tile));
    });
    unrotate(placed.block, work_of(placed.block));
  }
  each_tile(count, [&](std::uint32_t at, std::uint32_t tile) {
    std::array<float, kTile> memory;
    auto sent = std::span(memory).first(tile);
    if (is_rotated()) {
      sent = work_.subspan(std::size_t{first} + at, tile);
    } else {
      decode_own(placed, at, sent);
    }
    keep_tile(first + at, sent);
  });
}

// What travelled as it was: float32, or a value that all workers have.
void ThcExchange::keep_of_exact(const PlacedBlock& placed) {
  tell_all_sent(chunk_, placed.block.first, placed.block.count);
  if (chunk_.residual.empty()) return;
  const auto rest = chunk_.residual.subspan(placed.block.first, placed.block.count);
  if (placed.scale.kind == ScaleKind::constant) return std::fill(rest.begin(), rest.end(), 0.0f);
  each_tile(placed.block.count, [&](std::uint32_t at, std::uint32_t tile) {
    std::array<float, kTile> memory;
    const auto input = input_tile(chunk_, placed.block.first + at, tile, memory);
    floats::residual(floats::Format::f32, input, std::as_bytes(input), 1.0f,
                     rest.subspan(at, tile));
  });
}

// These values were sent from coordinate `first` on.
void ThcExchange::keep_tile(std::uint32_t first, std::span<const float> sent) {
  const auto count = static_cast<std::uint32_t>(sent.size());
  if (chunk_.keeper != nullptr) {
    return tell_sent(chunk_, first, count, [&](std::uint32_t at, std::span<double> values) {
      std::copy_n(sent.begin() + at, values.size(), values.begin());
    });
  }
  std::array<float, kTile> memory;
  floats::residual(floats::Format::f32, input_tile(chunk_, first, count, memory),
                   std::as_bytes(sent), 1.0f, chunk_.residual.subspan(first, count));
}

// What my codes stand for, from coordinate `at` of the block on, not rotated back.
void ThcExchange::decode_own(const PlacedBlock& placed, std::uint32_t at,
                             std::span<float> into) const {
  std::array<std::uint8_t, kTile> codes;
  get_codes(placed.lane + at, std::span(codes).first(into.size()));
  const auto unit = static_cast<float>(placed.scale.step / settings_.mixed(placed.block.count));
  quantiser::values(settings_.quantiser, codes, unit, into);
  if (is_rotated()) return;
  for (float& value : into) value += placed.scale.middle;
}

void ThcExchange::fill_signs() {
  draws::fill(RandomStream(chunk_.key, Purpose::sign, kShared), chunk_.extent.offset / kSignBits,
              signs_);
}

std::span<const std::uint32_t> ThcExchange::signs_of(const ThcBlock& block) const {
  return signs_.subspan((chunk_.extent.offset % kSignBits + block.first) / kSignBits);
}

std::uint32_t ThcExchange::sign_first(const ThcBlock& block) const {
  return static_cast<std::uint32_t>((chunk_.extent.offset + block.first) % kSignBits);
}

// The input of a block, rotated and not normalised: what is still to do after the keys.
void ThcExchange::rotate(const ThcBlock& block) {
  const auto into = work_of(block);
  if (rotates_on_the_way(settings_, chunk_, block.count)) {
    if (block.count > hadamard::kRowMax) hadamard::transform_from(hadamard::kRowMax, into);
    return;
  }
  std::span<const float> from = chunk_.gradient.subspan(block.first, block.count);
  if (!chunk_.residual.empty()) {
    floats::add(from, chunk_.residual.subspan(block.first, block.count), into);
    from = into;
  }
  hadamard::rotate_strided(from, signs_of(block), sign_first(block), 1.0f,
                           settings_.mixed(block.count), into);
}

// Uses up the block's part of work_, where `into` may lie.
void ThcExchange::unrotate(const ThcBlock& block, std::span<float> into) {
  hadamard::unrotate_strided(work_of(block), signs_of(block), sign_first(block),
                             settings_.mixed(block.count), into);
}

void ThcExchange::get_codes(std::uint32_t lane, std::span<std::uint8_t> codes) const {
  if (codes.size() >= 8) {
    return lanes::unpack(up_.subspan(std::size_t{lane} / 8 * settings_.bits), settings_.bits,
                         codes);
  }
  for (std::size_t i = 0; i < codes.size(); ++i) {
    codes[i] = static_cast<std::uint8_t>(lanes::get(up_, lane + i, settings_.bits));
  }
}

}  // namespace sluice::thc
