#include "codec/tide/faint.h"

#include <algorithm>
#include <array>
#include <bit>

#include "codec/input.h"
#include "kernels/energy/energy.h"

namespace sluice::tide {
namespace {

constexpr float kGain = 0x1p96f;

// Most blocks that are asked about are empty: without a branch per value.
bool is_zero(std::span<const float> values) {
  std::uint32_t bits = 0;
  for (const float value : values) bits |= std::bit_cast<std::uint32_t>(value);
  return bits << 1 == 0;
}

}  // namespace

Code12 faint_code(const Chunk& chunk, const TideLayout::Block& block) {
  if (is_zero(chunk.given().subspan(block.first, block.count))) return kCodeZero;
  std::array<float, kBlockMost> memory;
  float energy = 0;
  energy::blocks(amplified_input(chunk, block, memory), {}, block.size, {&energy, 1});
  const Code12 code = code_of(energy, log2_of(block.size));
  if (code == kCodeZero) return kCodeZero;  // gradient and residual are each other's opposite
  return static_cast<Code12>(std::max(code - amplified(0), int{kCodeFaintest}));
}

std::span<const float> amplified_input(const Chunk& chunk, const TideLayout::Block& block,
                                       std::span<float> memory) {
  const auto input = input_tile(chunk, block.first, block.count, memory);
  const auto into = memory.first(block.count);
  std::transform(input.begin(), input.end(), into.begin(), [](float x) { return x * kGain; });
  return into;
}

void faint_sent(std::span<const float> input, std::span<const float> own, std::span<double> sent) {
  for (std::size_t i = 0; i < sent.size(); ++i) {
    const double value = double{own[i]} * 0x1p-96;
    const float rest = ((input[i] * kGain + 0.0f) - own[i]) / kGain;
    const auto kept = static_cast<float>(double{input[i]} - value);
    const bool same = std::bit_cast<std::uint32_t>(kept) == std::bit_cast<std::uint32_t>(rest);
    sent[i] = same ? value : double{input[i]} - double{rest};
  }
}

void attenuate(std::span<const float> values, std::span<float> into) {
  std::transform(values.begin(), values.end(), into.begin(), [](float x) { return x / kGain; });
}

}  // namespace sluice::tide
