#include "codec/fixed/fixed.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/bytes.h"
#include "codec/input.h"
#include "kernels/blockfloat/blockfloat.h"

namespace sluice::fixed {
namespace {

constexpr std::uint32_t kBlockMax = 4096;
constexpr std::uint32_t kCountMax = 1u << 20;
constexpr std::uint8_t kNotFinite = blockfloat::kNotFinite;
constexpr std::uint8_t kLargest = kNotFinite - 1;  // a block with values of 2^127 and more

// From 129 workers on, half a unit of quantisation can round the largest floats up to infinity.
void keep_finite(std::span<float> mean) {
  constexpr float kTop = std::numeric_limits<float>::max();
  for (float& value : mean) value = std::clamp(value, -kTop, kTop);
}

// Two steps: the blocks' exponents by one max round, then all values. Blocks that are finite on
// every worker go first in the value buffer, as integers; the others follow as float32, in a round
// of their own in the same step. So Inf and NaN arrive where they were, cost no extra memory, and
// nothing is sent twice.
class FixedExchange final : public Exchange {
 public:
  FixedExchange(const Chunk& chunk, Arena& arena, std::uint32_t block)
      : chunk_(chunk),
        block_(block),
        blocks_(divide_up(chunk.piece.count, block)),
        exponents_up_(arena.place<std::byte>(blocks_)),
        exponents_down_(arena.place<std::byte>(blocks_)),
        up_(arena.place<std::byte>(std::size_t{4} * chunk.piece.count)),
        down_(arena.place<std::byte>(std::size_t{4} * chunk.piece.count)),
        agreed_(arena.host<std::uint8_t>(blocks_)),
        words_(arena.host<std::uint64_t>(worker_words(chunk.piece.workers))) {}

  Result<Step> next(std::span<const Answer> answers) override {
    if (at_ != At::start && answers.size() != rounds_used_) {
      return Error{Code::malformed, 0, "fixed: an answer per round expected"};
    }
    for (std::size_t i = 0; i < answers.size(); ++i) {
      SLUICE_TRY(check_answer(rounds_[i], answers[i], chunk_.piece.workers));
    }
    switch (at_) {
      case At::start: return ask_exponents();
      case At::exponents: return ask_values(answers[0]);
      case At::values: break;
    }
    decode(answers);
    return done();
  }

 private:
  enum class At : std::uint8_t { start, exponents, values };

  Result<Step> ask_exponents() {
    std::array<float, kBlockMax> memory;
    const std::uint32_t tile = kBlockMax / block_ * block_;
    for (std::uint32_t first = 0; first < chunk_.piece.count; first += tile) {
      const std::uint32_t count = std::min(tile, chunk_.piece.count - first);
      blockfloat::exponents(input_tile(chunk_, first, count, memory), block_,
                            exponents_up_.subspan(first / block_, divide_up(count, block_)));
    }
    // One grain: whoever missed the exponents might overflow the sum, so all rounds have one set.
    rounds_[0] = {
        {.op = Op::max, .bits = 8, .count = blocks_}, exponents_up_, exponents_down_, chunk_.only};
    rounds_used_ = 1;
    at_ = At::exponents;
    return ask(std::span(rounds_).first(rounds_used_));
  }

  Result<Step> ask_values(const Answer& answer) {
    if (!answer.parts.empty()) only_ = keep(answer.parts[0].from, words_);
    counted_ = blocks_ == 0 || only_.has(chunk_.piece.rank);
    for (std::uint32_t b = 0; b < blocks_; ++b) {
      agreed_[b] = std::to_integer<std::uint8_t>(answer.down[b]);
      if (counted_ && agreed_[b] < std::to_integer<std::uint8_t>(exponents_up_[b])) {
        return Error{Code::malformed, 0, "fixed: an agreed exponent below my own"};
      }
      if (agreed_[b] != kNotFinite) finite_count_ += size_of_block(b);
    }
    encode_values();
    const std::uint32_t odd_count = chunk_.piece.count - finite_count_;
    const std::size_t border = std::size_t{4} * finite_count_;
    rounds_[0] = {{.op = Op::wrap_sum, .bits = 32, .count = finite_count_, .grain = block_},
                  up_.first(border),
                  down_.first(border),
                  only_};
    rounds_[1] = {{.op = Op::f32_sum, .bits = 32, .count = odd_count, .grain = block_},
                  up_.subspan(border),
                  down_.subspan(border),
                  only_};
    rounds_used_ = odd_count == 0 ? 1 : 2;
    at_ = At::values;
    return ask(std::span(rounds_).first(rounds_used_));
  }

  void encode_values() {
    each_value(
        [&](std::uint32_t number, std::uint32_t first, std::uint32_t count, std::size_t wire) {
          const auto target = up_.subspan(wire, std::size_t{4} * count);
          std::array<float, kBlockMax> memory;
          const auto input = input_tile(chunk_, first, count, memory);
          if (!counted_) {
            std::fill(target.begin(), target.end(), std::byte{0});
          } else if (agreed_[number] == kNotFinite) {
            floats::encode(floats::Format::f32, input, 1.0f, target);
          } else {
            blockfloat::quantise(input, scale_of(agreed_[number], chunk_.piece.workers).up, target);
          }
        });
  }

  void decode(std::span<const Answer> answers) {
    const std::uint32_t contributors = blocks_ == 0 ? 1 : only_.count();
    const std::size_t border = std::size_t{4} * finite_count_;
    each_value(
        [&](std::uint32_t number, std::uint32_t first, std::uint32_t count, std::size_t wire) {
          const std::uint8_t exponent = agreed_[number];
          const bool finite = exponent != kNotFinite;
          const auto sums = finite ? answers[0].down.subspan(wire, std::size_t{4} * count)
                                   : answers[1].down.subspan(wire - border, std::size_t{4} * count);
          const auto mean = chunk_.mean.subspan(first, count);
          keep_rest(exponent, first, count, wire);
          if (!finite) {
            floats::decode_mean(floats::Format::f32, sums, 1.0f, static_cast<float>(contributors),
                                mean);
          } else {
            blockfloat::dequantise(sums, mean_factor(exponent, chunk_.piece.workers, contributors),
                                   mean);
            if (exponent == kLargest) keep_finite(mean);
          }
        });
  }

  // Before the mean is written, which may be the gradient's own memory.
  void keep_rest(std::uint8_t exponent, std::uint32_t first, std::uint32_t count,
                 std::size_t wire) {
    if (chunk_.residual.empty()) return;
    if (!counted_) return keep_everything(chunk_, first, count);
    std::array<float, kBlockMax> memory;
    const auto input = input_tile(chunk_, first, count, memory);
    const auto sent = up_.subspan(wire, std::size_t{4} * count);
    const auto rest = chunk_.residual.subspan(first, count);
    if (exponent == kNotFinite) {
      floats::residual(floats::Format::f32, input, sent, 1.0f, rest);
    } else {
      blockfloat::residual(input, sent, scale_of(exponent, chunk_.piece.workers).down, rest);
    }
  }

  [[nodiscard]] std::uint32_t size_of_block(std::uint32_t number) const {
    return std::min(block_, chunk_.piece.count - number * block_);
  }
  template <class Each>
  void each_block(Each each) const {
    for (std::uint32_t b = 0; b < blocks_; ++b) each(b, b * block_, size_of_block(b));
  }
  // Every block with the place of its values in the value buffers.
  template <class Each>
  void each_value(Each each) const {
    std::size_t finite = 0;
    std::size_t odd = std::size_t{4} * finite_count_;
    each_block([&](std::uint32_t number, std::uint32_t first, std::uint32_t count) {
      std::size_t& cursor = agreed_[number] == kNotFinite ? odd : finite;
      each(number, first, count, cursor);
      cursor += std::size_t{4} * count;
    });
  }

  Chunk chunk_;
  std::uint32_t block_;
  std::uint32_t blocks_;
  std::span<std::byte> exponents_up_;
  std::span<std::byte> exponents_down_;
  std::span<std::byte> up_;
  std::span<std::byte> down_;
  std::span<std::uint8_t> agreed_;
  std::span<std::uint64_t> words_;
  Workers only_ = {};
  std::uint32_t finite_count_ = 0;
  bool counted_ = false;
  At at_ = At::start;
  std::size_t rounds_used_ = 0;
  std::array<Round, 2> rounds_{};
};

class FixedCodec final : public Codec {
 public:
  explicit FixedCodec(std::uint32_t block) : block_(block) {}

  [[nodiscard]] Traits traits(std::uint32_t workers) const override {
    // Half a unit of 2^E · n / (2^31 − 1 − n), where 2^E is at most twice the largest input; then
    // the mean is rounded to float32. A block another worker dominates may round mine to zero.
    const double unit = workers / (2147483647.0 - workers);
    return {.homomorphic = true,
            .quorum = true,
            .contraction = Contraction::typical,
            .error_max = unit + 0x1p-24};
  }
  [[nodiscard]] Plan plan(const Tensor& tensor, std::uint32_t workers) const override {
    static_cast<void>(tensor);
    static_cast<void>(workers);
    return {.multiple_of = block_, .count_max = kCountMax};
  }
  Exchange* begin(const Chunk& chunk, Arena& arena) const override {
    return arena.make<FixedExchange>(chunk, arena, block_);
  }

 private:
  std::uint32_t block_;
};

}  // namespace

Scale scale_of(std::uint8_t exponent, std::uint32_t workers) {
  const double top = 2147483647.0 - workers;
  const double bound = std::ldexp(static_cast<double>(workers), exponent - 126);
  return {top / bound, bound / top};
}

double mean_factor(std::uint8_t exponent, std::uint32_t workers, std::uint32_t contributors) {
  const double top = 2147483647.0 - workers;
  return std::ldexp(static_cast<double>(workers), exponent - 126) / (top * contributors);
}

Checked<std::unique_ptr<Codec>> make(const OptionValues& options) {
  return std::unique_ptr<Codec>(std::make_unique<FixedCodec>(options.integer(0)));
}

}  // namespace sluice::fixed
