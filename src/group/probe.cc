#include "group/probe.h"

#include <algorithm>
#include <bit>

#include "base/bytes.h"
#include "base/random.h"

namespace sluice {
namespace {

// A power of two, so that kProbeTurns probes are whole rounds of every tensor.
std::uint32_t turns_of(const Tensor& tensor) {
  const std::uint64_t blocks = divide_up<std::uint64_t>(tensor.count(), kProbeBlock);
  return static_cast<std::uint32_t>(std::bit_floor(std::min<std::uint64_t>(blocks, kProbeTurns)));
}

// In a row of as many blocks as there are turns, each has its own, and every row starts elsewhere:
// what repeats in a tensor, such as its columns, does not fall together with turns.
bool is_turn(std::uint64_t id, std::uint64_t block, std::uint32_t turns, std::uint32_t number) {
  return (block + mix(id, block / turns)) % turns == number % turns;
}

bool is_zero(std::span<const float> values) {
  return std::all_of(values.begin(), values.end(), [](float value) { return value == 0; });
}

}  // namespace

void Probe::clear() {
  blocks_.clear();
  input_.clear();
  mean_.clear();
}

void Probe::look_at(const ProbedChunk& chunk, std::uint32_t number) {
  const std::uint32_t turns = turns_of(chunk.tensor);
  for (std::size_t first = 0; first < chunk.gradient.size(); first += kProbeBlock) {
    const std::uint64_t block = (chunk.offset + first) / kProbeBlock;
    if (!is_turn(chunk.tensor.id, block, turns, number)) continue;
    const std::size_t count = std::min<std::size_t>(kProbeBlock, chunk.gradient.size() - first);
    const auto gradient = chunk.gradient.subspan(first, count);
    const std::size_t at = input_.size();
    input_.insert(input_.end(), gradient.begin(), gradient.end());
    if (chunk.kept.kind != nullptr) {
      chunk.kept.kind->before(gradient, part_of(chunk.kept.memories, first, count),
                              std::span(input_).subspan(at));
    }
    blocks_.push_back({chunk.index, turns, chunk.mean.subspan(first, count)});
  }
  mean_.resize(input_.size());
}

std::vector<TensorProbe> Probe::compare() const {
  std::vector<TensorProbe> found;
  std::span<const float> rest = mean_;
  for (const Block& block : blocks_) {
    const auto exact = rest.first(block.mean.size());
    rest = rest.subspan(block.mean.size());
    if (found.empty() || found.back().tensor != block.index) {
      found.push_back({.tensor = block.index});
    }
    TensorProbe& tensor = found.back();
    const bool live = !is_zero(exact);
    tensor.blocks += 1;
    tensor.live += live ? block.turns : 0;
    tensor.silent += live && is_zero(block.mean) ? block.turns : 0;
    for (std::size_t i = 0; i < exact.size(); ++i) {
      const double error = double{block.mean[i]} - double{exact[i]};
      tensor.error_energy += block.turns * error * error;
      tensor.exact_energy += block.turns * double{exact[i]} * double{exact[i]};
    }
  }
  return found;
}

}  // namespace sluice
