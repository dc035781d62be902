#include "codec/thc/exchange.h"

#include <algorithm>

#include "base/bytes.h"
#include "codec/input.h"
#include "codec/thc/rounding.h"
#include "kernels/draws/draws.h"
#include "kernels/floats/floats.h"
#include "kernels/hadamard/hadamard.h"
#include "kernels/lanes/lanes.h"
#include "kernels/levels/levels.h"
#include "round/sums.h"

namespace sluice::thc {
namespace {

constexpr std::uint32_t kTile = kInputTile;
constexpr std::uint32_t kSignBits = draws::kSignsPerWord;

// Calls call(at, count) for the tiles of so many coordinates.
template <class Call>
void each_tile(std::uint32_t count, Call call) {
  for (std::uint32_t at = 0; at < count; at += kTile) call(at, std::min(kTile, count - at));
}

// The sums of a lane_sum, lane by lane across its grains. The answer has been read once before.
class Lanes {
 public:
  Lanes(const Round& round, const Answer& answer, std::uint32_t workers)
      : reader_(round.what, workers, answer) {}

  // Calls call(at, twice the sums) until `count` more lanes are through.
  template <class Call>
  void take(std::uint32_t count, Call call) {
    for (std::uint32_t at = 0; at < count;) {
      if (used_ == held_) refill();
      const std::uint32_t piece = std::min(count - at, held_ - used_);
      call(at, std::span<const std::int32_t>(twice_).subspan(used_, piece));
      used_ += piece;
      at += piece;
    }
  }

 private:
  void refill() {
    const Result<SumReader::Grain> grain = reader_.next(twice_);
    SLUICE_ASSERT(grain.has_value());
    held_ = grain->count;
    used_ = 0;
  }

  SumReader reader_;
  std::array<std::int32_t, kGrain> twice_;
  std::uint32_t held_ = 0;
  std::uint32_t used_ = 0;
};

// Whether every sum can be; nothing of the caller's is written before this is known.
Status check_sums(const Round& round, const Answer& answer, std::uint32_t workers) {
  std::array<std::int32_t, kGrain> twice;
  SumReader reader(round.what, workers, answer);
  while (!reader.done()) SLUICE_TRY(reader.next(twice));
  return ok();
}

}  // namespace

ThcExchange::ThcExchange(const Chunk& chunk, Arena& arena, const Settings& settings)
    : chunk_(chunk),
      settings_(settings),
      blocks_(chunk.piece.count, settings.block),
      keys_(
          arena.host<std::uint32_t>(std::size_t{blocks_.count()} * keys_per_block(settings.range))),
      keys_up_(arena.place<std::byte>(keys_.size_bytes())),
      keys_down_(arena.place<std::byte>(keys_.size_bytes())),
      // A coordinate is a code (at most 1 byte up, 3.5 bytes and a header down) or a float.
      up_(arena.place<std::byte>(std::size_t{4} * chunk.piece.count + 2 * kAlignment)),
      down_(arena.place<std::byte>(std::size_t{4} * chunk.piece.count + 2 * kAlignment)),
      work_(arena.place<float>(is_rotated() ? blocks_.size_max() : 0)),
      signs_(arena.place<std::uint32_t>(is_rotated() ? work_.size() / kSignBits + 2 : 0)),
      words_(arena.host<std::uint64_t>(worker_words(chunk.piece.workers))) {}

Result<Step> ThcExchange::next(std::span<const Answer> answers) {
  if (at_ != At::start && answers.size() != rounds_used_) {
    return Error{Code::malformed, 0, "thc: an answer per round expected"};
  }
  for (std::size_t i = 0; i < answers.size(); ++i) {
    SLUICE_TRY(check_answer(rounds_[i], answers[i], chunk_.piece.workers));
  }
  switch (at_) {
    case At::start: return ask_keys();
    case At::keys: return ask_values(answers[0]);
    case At::values: break;
  }
  SLUICE_TRY(check_sums(rounds_[0], answers[0], chunk_.piece.workers));
  decode(answers);
  return done();
}

template <class Call>
void ThcExchange::each_job(Call call) const {
  const std::uint32_t keys = keys_per_block(settings_.range);
  std::uint32_t codes = 0;
  std::uint32_t floats = 0;
  blocks_.each([&](std::uint32_t number, const Block& block) {
    const auto mine = keys_.subspan(std::size_t{number} * keys, keys);
    Job job{block, scale_of(settings_, mine, block.count)};
    if (job.scale.kind != Kind::constant) {
      std::uint32_t& lanes = job.scale.kind == Kind::coded ? codes : floats;
      job.lane = lanes;
      lanes += block.count;
    }
    call(job);
  });
}

Result<Step> ThcExchange::ask_keys() {
  fill_keys(settings_, chunk_, blocks_, keys_);
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
  counted_ = keys_.empty() || only_.has(chunk_.piece.rank);
  for (std::size_t i = 0; i < keys_.size(); ++i) {
    const auto agreed = load_le<std::uint32_t>(answer.down, 4 * i);
    if (counted_ && agreed < keys_[i]) {
      return Error{Code::malformed, 0, "thc: an agreed scale below my own"};
    }
    keys_[i] = agreed;
  }
  return ok();
}

Result<Step> ThcExchange::ask_values(const Answer& answer) {
  SLUICE_TRY(adopt_keys(answer));
  ask_rounds();
  if (counted_) {
    // The last lanes, fewer than 8, are put one by one.
    const auto codes = up_.first(rounds_[0].up.size());
    const auto last = codes.subspan(std::size_t{rounds_[0].what.count} / 8 * settings_.bits);
    std::fill(last.begin(), last.end(), std::byte{0});
    each_job([&](const Job& job) { encode(job); });
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
  each_job([&](const Job& job) {
    if (job.scale.kind == Kind::coded) coded += job.block.count;
    if (job.scale.kind == Kind::odd) odd += job.block.count;
  });
  const bool is_uniform = settings_.levels.uniform;  // codes add up as they are
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
  const std::size_t down = down_size_max(codes, chunk_.piece.workers);
  floats_up_ = up_.subspan(round_up(up, kAlignment), up_size(floats));
  rounds_[0] = {codes, up_.first(up), down_.first(down), only_};
  rounds_[1] = {floats, floats_up_, down_.subspan(round_up(down, kAlignment), up_size(floats)),
                only_};
  rounds_used_ = odd == 0 ? 1 : 2;
}

void ThcExchange::encode(const Job& job) {
  switch (job.scale.kind) {
    case Kind::constant: return;
    case Kind::coded: return encode_codes(job);
    case Kind::odd: return encode_floats(job);
  }
}

void ThcExchange::encode_codes(const Job& job) {
  const RoundingWords rounding(settings_.rounding, chunk_);
  if (is_rotated()) rotate(job.block);
  each_tile(job.block.count, [&](std::uint32_t at, std::uint32_t count) {
    const std::uint32_t first = job.block.first + at;
    std::array<float, kTile> memory;
    std::span<const float> values;
    if (is_rotated()) {
      values = work_.subspan(at, count);
    } else {
      const auto input = input_tile(chunk_, first, count, memory);
      for (std::uint32_t i = 0; i < count; ++i) memory[i] = input[i] - job.scale.middle;
      values = std::span(memory).first(count);
    }
    std::array<std::uint32_t, kTile> words;
    std::array<std::uint8_t, kTile> codes;
    rounding.fill(chunk_.piece.offset + first, std::span(words).first(count));
    levels::quantise(settings_.levels, values, job.scale.up, words, codes);
    put_codes(job.lane + at, std::span(codes).first(count));
  });
}

void ThcExchange::encode_floats(const Job& job) {
  each_tile(job.block.count, [&](std::uint32_t at, std::uint32_t count) {
    std::array<float, kTile> memory;
    floats::encode(floats::Format::f32, input_tile(chunk_, job.block.first + at, count, memory),
                   1.0f,
                   floats_up_.subspan(4 * (std::size_t{job.lane} + at), std::size_t{4} * count));
  });
}

void ThcExchange::decode(std::span<const Answer> answers) {
  Lanes lanes(rounds_[0], answers[0], chunk_.piece.workers);
  const std::uint32_t m = contributors_;
  const auto centre = static_cast<std::int32_t>(m * settings_.g);
  each_job([&](const Job& job) {
    keep_rest(job);
    const std::uint32_t count = job.block.count;
    const auto mean = chunk_.mean.subspan(job.block.first, count);
    if (job.scale.kind == Kind::constant) {
      std::fill(mean.begin(), mean.end(), job.scale.middle);
    } else if (job.scale.kind == Kind::odd) {
      const auto sums = answers[1].down.subspan(std::size_t{4} * job.lane, mean.size_bytes());
      floats::decode_mean(floats::Format::f32, sums, 1.0f, static_cast<float>(m), mean);
    } else {
      const auto unit = static_cast<float>(job.scale.step / (2.0 * m * settings_.mixed(count)));
      const auto into = is_rotated() ? work_.first(mean.size()) : mean;
      lanes.take(count, [&](std::uint32_t at, std::span<const std::int32_t> twice) {
        levels::means(twice, centre, unit, into.subspan(at, twice.size()));
      });
      if (is_rotated()) return unrotate(job.block, mean);
      for (float& value : mean) value += job.scale.middle;
    }
  });
}

// Before the mean is written, which may be the gradient's own memory.
void ThcExchange::keep_rest(const Job& job) {
  if (chunk_.residual.empty()) return;
  const std::uint32_t first = job.block.first;
  const std::uint32_t count = job.block.count;
  if (!counted_) return keep_everything(chunk_, first, count);
  const auto rest = chunk_.residual.subspan(first, count);
  if (job.scale.kind == Kind::constant) return std::fill(rest.begin(), rest.end(), 0.0f);
  const bool is_block = is_rotated() && job.scale.kind == Kind::coded;
  if (is_block) {
    each_tile(count, [&](std::uint32_t at, std::uint32_t tile) {
      decode_own(job, at, work_.subspan(at, tile));
    });
    unrotate(job.block, work_.first(count));
  }
  each_tile(count, [&](std::uint32_t at, std::uint32_t tile) {
    std::array<float, kTile> memory;
    std::array<float, kTile> own;
    std::span<const std::byte> sent;
    if (job.scale.kind == Kind::odd) {
      sent = floats_up_.subspan(4 * (std::size_t{job.lane} + at), std::size_t{4} * tile);
    } else if (is_block) {
      sent = std::as_bytes(work_.subspan(at, tile));
    } else {
      decode_own(job, at, std::span(own).first(tile));
      sent = std::as_bytes(std::span(own).first(tile));
    }
    floats::residual(floats::Format::f32, input_tile(chunk_, first + at, tile, memory), sent, 1.0f,
                     rest.subspan(at, tile));
  });
}

// What my codes stand for, from coordinate `at` of the block on, not rotated back.
void ThcExchange::decode_own(const Job& job, std::uint32_t at, std::span<float> into) const {
  std::array<std::uint8_t, kTile> codes;
  get_codes(job.lane + at, std::span(codes).first(into.size()));
  const auto unit = static_cast<float>(job.scale.step / settings_.mixed(job.block.count));
  levels::values(settings_.levels, codes, unit, into);
  if (is_rotated()) return;
  for (float& value : into) value += job.scale.middle;
}

// The input of a block, rotated and not normalised, into work_.
void ThcExchange::rotate(const Block& block) {
  const auto into = work_.first(block.count);
  std::span<const float> from = chunk_.gradient.subspan(block.first, block.count);
  if (!chunk_.residual.empty()) {
    floats::add(from, chunk_.residual.subspan(block.first, block.count), into);
    from = into;
  }
  const auto sign_first =
      static_cast<std::uint32_t>((chunk_.piece.offset + block.first) % kSignBits);
  const std::uint32_t mixed = settings_.mixed(block.count);
  const auto signs = fill_signs(block);
  if (mixed == block.count) return hadamard::rotate(from, signs, sign_first, 1.0f, into);
  hadamard::rotate_strided(from, signs, sign_first, 1.0f, mixed, into);
}

// Uses up work_, where `into` may lie.
void ThcExchange::unrotate(const Block& block, std::span<float> into) {
  const auto values = work_.first(block.count);
  const auto sign_first =
      static_cast<std::uint32_t>((chunk_.piece.offset + block.first) % kSignBits);
  const std::uint32_t mixed = settings_.mixed(block.count);
  const auto signs = fill_signs(block);
  if (mixed == block.count) return hadamard::unrotate(values, signs, sign_first, into);
  hadamard::unrotate_strided(values, signs, sign_first, mixed, into);
}

std::span<const std::uint32_t> ThcExchange::fill_signs(const Block& block) {
  const std::uint64_t first = chunk_.piece.offset + block.first;
  const std::uint64_t from = first / kSignBits;
  const std::uint64_t to = (first + block.count - 1) / kSignBits;
  const auto words = signs_.first(static_cast<std::size_t>(to - from + 1));
  draws::fill(RandomStream(chunk_.key, Purpose::sign, kShared), from, words);
  return words;
}

void ThcExchange::put_codes(std::uint32_t lane, std::span<const std::uint8_t> codes) {
  if (codes.size() >= 8) {
    // Larger blocks lie before smaller ones: their lanes start on a byte.
    return lanes::pack(codes, settings_.bits, up_.subspan(std::size_t{lane} / 8 * settings_.bits));
  }
  for (std::size_t i = 0; i < codes.size(); ++i) {
    lanes::put(up_, lane + i, settings_.bits, codes[i]);
  }
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
