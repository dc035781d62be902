#include "codec/agreed_blocks.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/bytes.h"
#include "codec/input.h"

namespace sluice {
namespace {

constexpr std::uint8_t kNotFinite = blockfloat::kNotFinite;
constexpr std::uint8_t kLargest = kNotFinite - 1;  // a block with values of 2^127 and more

// From 129 workers on, half a unit of quantisation can round the largest floats up to infinity.
void keep_finite(std::span<float> mean) {
  constexpr float kTop = std::numeric_limits<float>::max();
  for (float& value : mean) value = std::clamp(value, -kTop, kTop);
}

}  // namespace

BlockScale block_scale(std::uint8_t exponent, std::uint32_t workers) {
  const double top = 2147483647.0 - workers;
  const double bound = std::ldexp(static_cast<double>(workers), exponent - 126);
  return {top / bound, bound / top};
}

double block_mean_factor(std::uint8_t exponent, std::uint32_t workers, std::uint32_t contributors) {
  const double top = 2147483647.0 - workers;
  return std::ldexp(static_cast<double>(workers), exponent - 126) / (top * contributors);
}

Traits AgreedBlocks::traits(std::uint32_t workers) {
  // Half a unit of 2^E · n / (2^31 − 1 − n), where 2^E is at most twice the largest input; then
  // the mean is rounded to float32. A block another worker dominates may round mine to zero.
  const double unit = workers / (2147483647.0 - workers);
  return {.homomorphic = true,
          .quorum = true,
          .contraction = Contraction::typical,
          .error_max = unit + 0x1p-24};
}

AgreedBlocks::AgreedBlocks(const Chunk& chunk, Arena& arena, std::uint32_t block)
    : chunk_(chunk),
      block_(block),
      count_(divide_up(chunk.extent.count, block)),
      up_(arena.place<std::byte>(count_)),
      down_(arena.place<std::byte>(count_)),
      agreed_(arena.host<std::uint8_t>(count_)),
      words_(arena.host<std::uint64_t>(worker_words(chunk.extent.workers))) {}

Round AgreedBlocks::ask(Exponents* exponents) {
  exponents(chunk_.gradient, block_, up_);
  return {{.op = Op::max, .bits = 8, .count = count_}, up_, down_, chunk_.only};
}

Status AgreedBlocks::agree(const Answer& answer) {
  if (!answer.parts.empty()) only_ = keep(answer.parts[0].from, words_);
  counted_ = count_ == 0 || only_.has(chunk_.extent.rank);
  for (std::uint32_t number = 0; number < count_; ++number) {
    agreed_[number] = std::to_integer<std::uint8_t>(answer.down[number]);
    if (counted_ && agreed_[number] < own_exponent(number)) {
      return Error{Code::malformed, 0, "an agreed exponent below my own"};
    }
  }
  return ok();
}

std::uint32_t AgreedBlocks::size(std::uint32_t number) const {
  return std::min(block_, chunk_.extent.count - first(number));
}

std::uint8_t AgreedBlocks::own_exponent(std::uint32_t number) const {
  return std::to_integer<std::uint8_t>(up_[number]);
}

bool AgreedBlocks::is_finite(std::uint32_t number) const { return agreed_[number] != kNotFinite; }

void AgreedBlocks::encode(std::uint32_t number, std::span<std::byte> to) const {
  const auto target = to.first(std::size_t{4} * size(number));
  if (!counted_) {
    std::fill(target.begin(), target.end(), std::byte{0});
    return;
  }
  const auto input = chunk_.gradient.subspan(first(number), size(number));
  if (is_finite(number)) {
    blockfloat::quantise(input, block_scale(agreed_[number], chunk_.extent.workers).up, target);
  } else {
    floats::encode(floats::Format::f32, input, 1.0f, target);
  }
}

void AgreedBlocks::tell(std::uint32_t number, std::span<const std::byte> sent) const {
  if (chunk_.keeper == nullptr) return;
  if (!counted_) return keep_everything(chunk_, first(number), size(number));
  if (!is_finite(number)) return tell_all_sent(chunk_, first(number), size(number));
  const double down = block_scale(agreed_[number], chunk_.extent.workers).down;
  tell_sent(chunk_, first(number), size(number), [&](std::uint32_t at, std::span<double> values) {
    blockfloat::values(sent.subspan(std::size_t{4} * at), down, values);
  });
}

void AgreedBlocks::decode(std::uint32_t number, std::span<const std::byte> sums) const {
  const auto mean = chunk_.mean.subspan(first(number), size(number));
  const std::uint32_t contributors = only_.count();
  if (!is_finite(number)) {
    floats::decode_mean(floats::Format::f32, sums, 1.0f, static_cast<float>(contributors), mean);
    return;
  }
  blockfloat::dequantise(
      sums, block_mean_factor(agreed_[number], chunk_.extent.workers, contributors), mean);
  if (agreed_[number] == kLargest) keep_finite(mean);
}

}  // namespace sluice
