#include "tests/support/sparse_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <span>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/random.h"
#include "tests/support/paper_sum.h"

namespace sluice::support {
namespace {

constexpr std::uint32_t kRun = 256;
constexpr std::uint32_t kColumns = 1024;
constexpr std::uint32_t kStretch = 1024;  // coordinates whose values are of one kind
constexpr std::uint32_t kBadOneIn = 97;

// A coordinate and the number of the cell that it was chosen with.
struct Chosen {
  std::uint32_t coordinate = 0;
  std::uint32_t cell = 0;
};

// So many of the cells, each as likely as any other.
std::vector<std::uint32_t> choose(std::uint32_t cells, std::uint32_t wanted, std::uint64_t seed) {
  std::vector<std::uint32_t> chosen;
  chosen.reserve(wanted);
  for (std::uint32_t cell = 0; chosen.size() < wanted; ++cell) {
    const std::uint64_t draw = mix(seed, cell) >> 32;
    if (draw * (cells - cell) >> 32 < wanted - chosen.size()) chosen.push_back(cell);
  }
  return chosen;
}

std::uint32_t wanted_of(double density, std::uint32_t cells) {
  if (density == 0) return 0;
  return std::clamp(static_cast<std::uint32_t>(std::lround(density * cells)), 1u, cells);
}

std::vector<Chosen> choose_columns(std::uint32_t count, double density, std::uint64_t seed) {
  const std::uint32_t columns = std::min(kColumns, count);
  const auto chosen = choose(columns, wanted_of(density, columns), seed);
  std::vector<Chosen> all;
  for (std::uint32_t row = 0; row < count; row += columns) {
    for (std::uint32_t i = 0; i < chosen.size() && row + chosen[i] < count; ++i) {
      all.push_back({row + chosen[i], i});
    }
  }
  return all;
}

std::vector<Chosen> choose_run(std::uint32_t count, double density, std::uint32_t parts,
                               std::uint64_t seed) {
  const std::uint32_t wanted = wanted_of(density, count);
  const auto first = static_cast<std::uint32_t>(mix(seed, 0) % (count - wanted + 1));
  const std::uint32_t part = std::max(1u, divide_up(wanted, parts));
  std::vector<Chosen> all;
  for (std::uint32_t i = 0; i < wanted; ++i) all.push_back({first + i, i / part});
  return all;
}

// The coordinates of one mask, ascending.
std::vector<Chosen> mask_of(const SparseCase& what, std::uint64_t seed) {
  const auto count = static_cast<std::uint32_t>(what.tensor.count());
  if (what.pattern == Pattern::columns) return choose_columns(count, what.density, seed);
  if (what.pattern == Pattern::dense_block) {
    return choose_run(count, what.density, what.workers, seed);
  }
  std::uint32_t width = what.pattern == Pattern::blocky ? kRun : 1;
  if (what.pattern == Pattern::rows) {
    width = what.tensor.rows > 1 ? static_cast<std::uint32_t>(what.tensor.cols) : kColumns;
  }
  const std::uint32_t cells = divide_up(count, width);
  const auto chosen = choose(cells, wanted_of(what.density, cells), seed);
  std::vector<Chosen> all;
  all.reserve(chosen.size() * width);
  for (std::uint32_t i = 0; i < chosen.size(); ++i) {
    const std::uint32_t first = chosen[i] * width;
    for (std::uint32_t at = first; at < std::min(first + width, count); ++at) {
      all.push_back({at, i});
    }
  }
  return all;
}

// Drawn once: a test's time would otherwise go here.
const std::vector<float>& normals() {
  static const std::vector<float> kTable = [] {
    std::mt19937 random(7);
    std::normal_distribution<double> normal;
    std::vector<float> table(1u << 16);
    for (float& value : table) value = static_cast<float>(normal(random));
    return table;
  }();
  return kTable;
}

class ValueSource {
 public:
  ValueSource(const SparseCase& what, std::uint32_t first) : what_(what), first_(first) {}

  [[nodiscard]] float at(std::uint32_t rank, std::uint32_t i) const {
    const std::uint64_t word = mix(mix(what_.seed, rank + 1), i);
    switch (what_.contents) {
      case Contents::normal: break;
      case Contents::tiny: return tiny(word);
      case Contents::special: return special(word, rank, i);
      case Contents::cancelling: return cancelling(word, rank, i);
      case Contents::mixed: return mixed(word, i);
    }
    return normal(word);
  }

 private:
  static float normal(std::uint64_t word) { return normals()[word % normals().size()]; }

  static float tiny(std::uint64_t word) {
    switch (word % 8) {
      case 0: return -0.0f;
      case 1: return 0x1p-126f;
      case 2: return -0x1p-126f;
      case 3: return 0x1p-126f - 0x1p-149f;
      case 4: return -0x1.000002p-126f;
      default: break;
    }
    const auto bits = static_cast<std::uint32_t>(word >> 32);
    return std::bit_cast<float>((bits & 0x80000000u) | (bits & 0x7fffffu) >> (word >> 8) % 23);
  }

  [[nodiscard]] float special(std::uint64_t word, std::uint32_t rank, std::uint32_t i) const {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    const std::uint64_t shared = mix(what_.seed, i);
    const bool is_mine = (shared >> 32) % what_.workers == rank;
    if (shared % kBadOneIn != 0) return normal(word);
    switch ((shared >> 16) % 4) {
      case 0: return is_mine ? kInfinity : normal(word);
      case 1: return rank % 2 == 0 ? kInfinity : -kInfinity;
      case 2: return is_mine ? -kInfinity : normal(word);
      default: break;
    }
    const auto payload = static_cast<std::uint32_t>(word);
    return is_mine ? std::bit_cast<float>(0x7f800001u | (payload & 0x803fff00u)) : normal(word);
  }

  // Worker 2k + 1 takes away what worker 2k brings, or all but the last bit of it.
  [[nodiscard]] float cancelling(std::uint64_t word, std::uint32_t rank, std::uint32_t i) const {
    if (rank % 2 == 0 && rank + 1 == what_.workers) return std::ldexp(normal(word), -20);
    const std::uint64_t shared = mix(mix(what_.seed, ~std::uint64_t{rank / 2}), i);
    const int exponent = static_cast<int>(mix(what_.seed, i / kStretch) % 80) - 40;
    const float value = std::ldexp(normal(shared), exponent);
    if (rank % 2 == 0) return value;
    return shared >> 32 & 1 ? -value : -std::nextafter(value, 0.0f);
  }

  [[nodiscard]] float mixed(std::uint64_t word, std::uint32_t i) const {
    if (i / kStretch % 8 != first_ / kStretch % 8) return normal(word);
    const auto bits = static_cast<std::uint32_t>(word >> 32);
    const auto exponent = static_cast<std::uint32_t>(1 + word % 254);
    return std::bit_cast<float>((bits & 0x807fffffu) | exponent << 23);
  }

  SparseCase what_;
  std::uint32_t first_;  // coordinate with a value
};

}  // namespace

std::string describe(const SparseCase& what) {
  return fmt::format("{} × {}, {} workers, {} %, {}, {}, {}, seed {}", what.tensor.rows,
                     what.tensor.cols, what.workers, 100 * what.density,
                     kPatterns[static_cast<std::size_t>(what.pattern)],
                     kOverlaps[static_cast<std::size_t>(what.overlap)],
                     kContents[static_cast<std::size_t>(what.contents)], what.seed);
}

std::vector<std::vector<float>> sparse_gradients(const SparseCase& what) {
  std::vector<std::vector<float>> gradients(what.workers);
  for (auto& gradient : gradients) gradient.resize(what.tensor.count());
  std::vector<Chosen> mask = mask_of(what, mix(what.seed, 0));
  if (mask.empty()) return gradients;
  const ValueSource values(what, mask.front().coordinate);
  if (what.overlap == Overlap::disjoint) {
    for (const Chosen& at : mask) {
      const std::uint32_t rank = at.cell % what.workers;
      gradients[rank][at.coordinate] = values.at(rank, at.coordinate);
    }
    return gradients;
  }
  for (std::uint32_t rank = 0; rank < what.workers; ++rank) {
    if (rank != 0 && what.overlap == Overlap::independent) {
      mask = mask_of(what, mix(what.seed, rank));
    }
    for (const Chosen& at : mask) {
      gradients[rank][at.coordinate] = values.at(rank, at.coordinate);
    }
  }
  return gradients;
}

std::vector<std::uint32_t> union_of(const std::vector<std::vector<float>>& gradients) {
  SLUICE_ASSERT(!gradients.empty());
  std::vector<std::uint32_t> has(gradients[0].size());
  for (const auto& gradient : gradients) {
    for (std::size_t i = 0; i < has.size(); ++i) {
      has[i] |= std::bit_cast<std::uint32_t>(gradient[i]);
    }
  }
  std::vector<std::uint32_t> coordinates;
  for (std::uint32_t i = 0; i < has.size(); ++i) {
    if (has[i] != 0) coordinates.push_back(i);
  }
  return coordinates;
}

std::vector<float> paper_means(const std::vector<std::vector<float>>& gradients,
                               const std::vector<std::uint32_t>& coordinates) {
  const auto workers = static_cast<std::uint32_t>(gradients.size());
  std::vector<float> means;
  means.reserve(coordinates.size());
  for (const std::uint32_t i : coordinates) {
    PaperSum sum;
    for (const auto& gradient : gradients) sum.add(gradient[i]);
    means.push_back(sum.mean(workers));
  }
  return means;
}

}  // namespace sluice::support
