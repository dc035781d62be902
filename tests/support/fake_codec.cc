#include "tests/support/fake_codec.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <initializer_list>

#include "base/bytes.h"
#include "base/random.h"
#include "kernels/lanes/lanes.h"
#include "kernels/level.h"
#include "round/lists.h"
#include "round/sum_reader.h"

namespace sluice::support {
namespace {

constexpr std::uint32_t kBlock = 64;  // coordinates of a grain and of one prediction
constexpr std::uint32_t kCountMax = 1u << 20;
constexpr unsigned kCodeBits = 4;
constexpr std::uint32_t kCodeMax = (1u << kCodeBits) - 1;
constexpr std::uint32_t kMessageSize = 8;  // index u32, value f32
constexpr std::size_t kModelSize = 8;      // refinement u32, legs u32
constexpr std::array kRefinements{1.0, 0.5, 0.75};

constexpr std::array<std::uint16_t, kCodeMax + 1> make_table() {
  std::array<std::uint16_t, kCodeMax + 1> table{};
  for (std::uint32_t code = 0; code <= kCodeMax; ++code) {
    table[code] = static_cast<std::uint16_t>(3 * code);
  }
  return table;
}
constexpr std::array<std::uint16_t, kCodeMax + 1> kTable = make_table();
constexpr double kTableMax = kTable[kCodeMax];

Error malformed(const char* what) { return Error{Code::malformed, 0, what}; }

std::uint8_t exponent_of(float value) {
  return static_cast<std::uint8_t>((std::bit_cast<std::uint32_t>(value) & 0x7fffffff) >> 23);
}

class FakeExchange final : public Exchange {
 public:
  FakeExchange(const Chunk& chunk, Arena& arena, Flaw flaw)
      : chunk_(chunk), flaw_(flaw), blocks_(divide_up(chunk.extent.count, kBlock)) {
    const std::uint32_t count = chunk.extent.count;
    const std::uint32_t workers = chunk.extent.workers;
    const bool any = count != 0;
    exponent_.what = {.op = Op::max, .bits = 8, .count = any ? 1u : 0u};
    nothing_.what = {.op = Op::lane_sum, .bits = 1, .count = 0, .grain = 8};
    codes_.what = {.op = Op::lane_sum,
                   .bits = kCodeBits,
                   .down = Down::round,
                   .extra = 2,
                   .count = count,
                   .grain = kBlock,
                   .table = kTable};
    signs_.what = {
        .op = Op::lane_sum, .bits = 1, .down = Down::narrow, .count = count, .grain = kBlock};
    largest_.what = {.op = Op::gather, .bits = 8, .count = any ? kMessageSize : 0u};
    for (Memory& memory :
         {std::ref(exponent_), std::ref(codes_), std::ref(signs_), std::ref(largest_)}) {
      memory.up = arena.place<std::byte>(up_size(memory.what));
      memory.down = arena.place<std::byte>(down_size_max(memory.what, workers));
    }
    total_ = arena.place<float>(count);
    counted_in_ = arena.host<std::uint8_t>(blocks_);
    words_ = arena.host<std::uint64_t>(worker_words(workers));
    end_ = arena.place<std::byte>(0).data();
  }

  Result<Leg> next(std::span<const Answer> answers) override {
    if (at_ != At::start && answers.size() != rounds_used_) {
      return malformed("fake: an answer per round expected");
    }
    for (std::size_t i = 0; i < answers.size(); ++i) {
      if (flaw_ == Flaw::accepts_truncation) break;
      SLUICE_TRY(check_answer(rounds_[i], answers[i], chunk_.extent.workers));
    }
    switch (at_) {
      case At::start: return ask_exponent();
      case At::exponent: return ask_codes(answers[0]);
      case At::codes: return ask_rest(answers[0]);
      case At::rest: break;
    }
    SLUICE_TRY(read_signs(answers[0]));
    SLUICE_TRY(read_messages(answers[1]));
    finish();
    return done();
  }

 private:
  enum class At : std::uint8_t { start, exponent, codes, rest };
  struct Memory {
    Reduction what;
    std::span<std::byte> up;
    std::span<std::byte> down;
    [[nodiscard]] Round round(Workers only) const { return {what, up, down, only}; }
  };

  Result<Leg> ask_rounds(At at, std::initializer_list<Round> rounds) {
    at_ = at;
    rounds_used_ = rounds.size();
    std::copy(rounds.begin(), rounds.end(), rounds_.begin());
    return ask(std::span(rounds_).first(rounds_used_));
  }

  Result<Leg> ask_exponent() {
    std::uint8_t largest = 0;
    for (std::uint32_t i = 0; i < chunk_.extent.count; ++i) {
      largest = std::max(largest, exponent_of(static_cast<float>(offset_from_prediction(i))));
    }
    for (std::byte& up : exponent_.up) up = static_cast<std::byte>(std::min<int>(largest, 254));
    return ask_rounds(At::exponent, {exponent_.round(chunk_.only), nothing_.round(chunk_.only)});
  }

  Result<Leg> ask_codes(const Answer& answer) {
    if (!answer.parts.empty()) {
      only_ = keep(answer.parts[0].from, words_);
      counted_ = only_.has(chunk_.extent.rank);
      const auto agreed = std::to_integer<std::uint8_t>(exponent_.down[0]);
      if (agreed == 255) return malformed("fake: exponent out of range");
      if (counted_ && agreed < std::to_integer<std::uint8_t>(exponent_.up[0])) {
        return malformed("fake: agreed exponent below my own");
      }
      scale_ = std::ldexp(1.0, agreed - 126);
    }
    const RandomStream dither(chunk_.key, Purpose::dither, kShared);
    std::fill(codes_.up.begin(), codes_.up.end(), std::byte{0});
    for (std::uint32_t i = 0; i < chunk_.extent.count; ++i) {
      const double unit = (offset_from_prediction(i) / scale_ + 1) / 2;
      const double code = std::floor(unit * kCodeMax + dither.uniform(chunk_.extent.offset + i));
      lanes::put(codes_.up, i, kCodeBits,
                 static_cast<std::uint32_t>(std::clamp(code, 0.0, double{kCodeMax})));
    }
    if (flaw_ == Flaw::writes_past_its_memory) *end_ = std::byte{1};
    if (flaw_ == Flaw::writes_mean_early && !chunk_.mean.empty()) chunk_.mean[0] = 1;
    if (flaw_ == Flaw::tells_early && chunk_.keeper != nullptr) chunk_.keeper->held(0, 1);
    if (flaw_ == Flaw::writes_state_early && !chunk_.state.empty()) chunk_.state[0] = std::byte{1};
    if (flaw_ == Flaw::counts_too_early) ++chunk_.tally[1];
    if (flaw_ == Flaw::sends_too_much && largest_.up.size() == kMessageSize) --largest_.what.count;
    return ask_rounds(At::codes, {codes_.round({})});
  }

  Result<Leg> ask_rest(const Answer& answer) {
    SumReader reader(codes_.what, chunk_.extent.workers, answer);
    std::array<std::int32_t, kBlock> twice;
    while (chunk_.extent.count != 0 && !reader.done()) {
      SLUICE_TRY_ASSIGN(const SumReader::Grain grain, reader.next(twice));
      counted_in_[grain.first / kBlock] = grain.from.has(chunk_.extent.rank) ? 1 : 0;
      const double whole = kTableMax * grain.from.count();
      for (std::uint32_t i = 0; i < grain.count; ++i) {
        total_[grain.first + i] =
            static_cast<float>(predicted(grain.first + i) + (twice[i] / whole - 1) * scale_);
      }
    }
    std::uint32_t where = 0;
    double largest = 0;
    std::fill(signs_.up.begin(), signs_.up.end(), std::byte{0});
    for (std::uint32_t i = 0; i < chunk_.extent.count; ++i) {
      const double rest = offset_from_prediction(i) - my_value(i);
      lanes::put(signs_.up, i, 1, rest >= 0 ? 1 : 0);
      if (std::fabs(rest - my_refinement(i)) <= std::fabs(largest)) continue;
      where = i;
      largest = rest - my_refinement(i);
    }
    sends_ = counted_ && std::fabs(largest) > scale_ / 16;  // Else an empty message.
    where_ = where;
    Round message = largest_.round(only_);
    message.up = message.up.first(sends_ ? kMessageSize : 0);
    if (sends_) {
      store_le(largest_.up, 0, where);
      store_le(largest_.up, 4, static_cast<float>(largest));
    }
    return ask_rounds(At::rest, {signs_.round(only_), message});
  }

  Status read_signs(const Answer& answer) {
    if (chunk_.extent.count == 0) return ok();
    SumReader reader(signs_.what, chunk_.extent.workers, answer);
    std::array<std::int32_t, kBlock> twice;
    while (!reader.done()) {
      SLUICE_TRY_ASSIGN(const SumReader::Grain grain, reader.next(twice));
      for (std::uint32_t i = 0; i < grain.count; ++i) {
        total_[grain.first + i] += static_cast<float>(
            (static_cast<double>(twice[i]) / grain.from.count() - 1) * refinement());
      }
    }
    return ok();
  }

  Status read_messages(const Answer& answer) {
    if (chunk_.extent.count == 0) return ok();
    MessageReader reader(largest_.what, answer);
    while (true) {
      SLUICE_TRY_ASSIGN(const auto message, reader.next());
      if (!message) return ok();
      if (message->bytes.empty()) continue;
      if (message->bytes.size() != kMessageSize) return malformed("fake: message size");
      const auto index = load_le<std::uint32_t>(message->bytes);
      const auto value = load_le<float>(message->bytes, 4);
      if (index >= chunk_.extent.count || !std::isfinite(value)) {
        return malformed("fake: message out of range");
      }
      total_[index] += value / static_cast<float>(answer.parts[0].from.count());
    }
  }

  // All answers are read: from here on nothing can fail. The keeper is told before the mean is
  // written, which may be the gradient's own memory.
  void finish() {
    std::uint64_t positive = 0;
    for (std::uint32_t i = 0; i < chunk_.extent.count; ++i) {
      if (chunk_.keeper != nullptr) tell(i);
      if (flaw_ == Flaw::leaves_a_coordinate_out && i == 3) continue;
      chunk_.mean[i] = std::isnan(total_[i]) ? 0 : total_[i];
      positive += chunk_.mean[i] > 0 ? 1 : 0;
      if (flaw_ == Flaw::ranks_disagree && i == 5 && chunk_.extent.rank == 1) chunk_.mean[i] += 1;
      if (flaw_ == Flaw::levels_disagree && kernel_level() == Level::scalar) chunk_.mean[i] += 1;
    }
    for (std::uint32_t b = 0; b < blocks_; ++b) {
      const float half = 0.5f * chunk_.mean[b * kBlock];
      store_le(chunk_.state, state_at(b * kBlock), std::fabs(half) < 1e30f ? half : 0.0f);
    }
    chunk_.tally[0] += positive;
    chunk_.tally[1] += 1;
  }

  // Rounds may count it or not one by one.
  void tell(std::uint32_t i) {
    double sent = 0;
    if (counted_in_[i / kBlock] != 0) sent += predicted(i) + my_value(i);
    if (counted_) sent += my_refinement(i);
    if (sends_ && i == where_) sent += load_le<float>(largest_.up, 4);
    if (flaw_ == Flaw::forgets_when_not_counted && !counted_) sent = chunk_.gradient[i];
    if (flaw_ == Flaw::leaves_a_coordinate_untold && i == 3) return;
    if (sent == 0) return chunk_.keeper->held(i, 1);
    chunk_.keeper->sent(i, {&sent, 1});
  }

  [[nodiscard]] std::size_t state_at(std::uint32_t i) const {
    return static_cast<std::size_t>((chunk_.extent.offset + i) / kBlock) * sizeof(float);
  }
  [[nodiscard]] double predicted(std::uint32_t i) const {
    return load_le<float>(chunk_.state, state_at(i));
  }
  // What is encoded. This codec hides Inf and NaN, which a real one may not.
  [[nodiscard]] double offset_from_prediction(std::uint32_t i) const {
    const double input = chunk_.gradient[i];
    return std::isfinite(input) ? input - predicted(i) : 0;
  }
  [[nodiscard]] double my_value(std::uint32_t i) const {
    return (2 * kTable[lanes::get(codes_.up, i, kCodeBits)] / kTableMax - 1) * scale_;
  }
  [[nodiscard]] double refinement() const {
    return kRefinements[load_le<std::uint32_t>(chunk_.model) % kRefinements.size()] * scale_ / 30;
  }
  [[nodiscard]] double my_refinement(std::uint32_t i) const {
    return lanes::get(signs_.up, i, 1) != 0 ? refinement() : -refinement();
  }

  Chunk chunk_;
  Flaw flaw_;
  std::uint32_t blocks_;
  Memory exponent_;
  Memory nothing_;
  Memory codes_;
  Memory signs_;
  Memory largest_;
  std::span<float> total_;
  std::span<std::uint8_t> counted_in_;  // by block
  std::span<std::uint64_t> words_;
  std::byte* end_ = nullptr;
  Workers only_ = {};
  bool counted_ = false;
  bool sends_ = false;
  std::uint32_t where_ = 0;
  double scale_ = 1;
  At at_ = At::start;
  std::size_t rounds_used_ = 0;
  std::array<Round, 2> rounds_{};
};

class FakeCodec final : public Codec {
 public:
  explicit FakeCodec(Flaw flaw) : flaw_(flaw) {}

  [[nodiscard]] Traits traits(std::uint32_t) const override {
    return {.quorum = true,
            .contraction = Contraction::typical,
            .model_size = kModelSize,
            .tally_count = 2};
  }
  [[nodiscard]] Plan plan(const Tensor& tensor, std::uint32_t) const override {
    return {.multiple_of = kBlock,
            .count_max = kCountMax,
            .state_size = divide_up<std::size_t>(tensor.count(), kBlock) * sizeof(float)};
  }
  Exchange* begin(const Chunk& chunk, Arena& arena) const override {
    const bool measuring = chunk.model.empty();
    const Flaw odd = measuring ? Flaw::takes_less_than_measured : Flaw::takes_more_than_measured;
    if (flaw_ == odd) arena.place<std::byte>(128);
    return arena.make<FakeExchange>(chunk, arena, flaw_);
  }
  void end_step(std::span<const std::uint64_t> tally, std::span<std::byte> model) const override {
    store_le(model, 0, static_cast<std::uint32_t>(tally[0] % kRefinements.size()));
    store_le(model, 4, load_le<std::uint32_t>(model, 4) + static_cast<std::uint32_t>(tally[1]));
  }

 private:
  Flaw flaw_;
};

}  // namespace

std::unique_ptr<Codec> make_fake_codec(Flaw flaw) { return std::make_unique<FakeCodec>(flaw); }

}  // namespace sluice::support
