#include "codec/thc/table_search.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/assert.h"
#include "codec/thc/normal_law.h"

namespace sluice::thc {
namespace {

constexpr int kPerOctave = 8;
constexpr int kOctaves = 20;        // 2^20 is just beyond 1/kMassMin
constexpr std::size_t kKept = 4;    // grids of the first pass that the second refines
constexpr double kSame = 1 - 1e-9;  // errors closer than this are a tie

// The k-th mass of the fine scale, as one over a number that is easily typed.
double mass(int k) {
  const double q = std::exp2(static_cast<double>(k) / kPerOctave);
  const double typed = q < 16 ? std::round(q * 8) / 8 : std::round(q);
  return std::clamp(1 / typed, kMassMin, kMassMax);
}

std::vector<std::uint32_t> grids(const Wish& wish) {
  if (wish.g) return {*wish.g};
  const std::uint32_t low = grid_min(wish.bits);
  const std::uint32_t high = std::min(wish.g_max, kGridMax);
  SLUICE_ASSERT(low <= high);
  // Time grows with 2^bits · g.
  const std::uint32_t count_max = std::max(8u, 1024u >> wish.bits);
  std::vector<std::uint32_t> all;
  if (high - low < count_max) {
    for (std::uint32_t g = low; g <= high; ++g) all.push_back(g);
    return all;
  }
  for (std::uint32_t i = 0; i < count_max; ++i) {
    const double share = static_cast<double>(i) / (count_max - 1);
    const double g = low * std::pow(static_cast<double>(high) / low, share);
    all.push_back(std::clamp(static_cast<std::uint32_t>(std::lround(g)), low, high));
  }
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

TableChoice evaluate(const Wish& wish, std::uint32_t g, double p) {
  const TableSpec spec{wish.bits, g, p, wish.shape};
  Table table = make_table(spec);
  const double error = expected_error(table, wish.workers, wish.inputs);
  return {spec, std::move(table), error};
}

struct Found {
  TableChoice choice;
  int k;  // of the scale of masses
};

void improve(const Wish& wish, std::uint32_t g, int k, Found& best) {
  TableChoice choice = evaluate(wish, g, wish.p ? *wish.p : mass(k));
  if (best.choice.table.values.empty() || choice.error < best.choice.error * kSame) {
    best = {std::move(choice), k};
  }
}

// The first of the least errors.
std::size_t least(const std::vector<Found>& found) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < found.size(); ++i) {
    if (found[i].choice.error < found[best].choice.error * kSame) best = i;
  }
  return best;
}

}  // namespace

TableChoice best_choice(const Wish& wish) {
  std::vector<Found> found;
  for (const std::uint32_t g : grids(wish)) {
    Found best{};
    for (int octave = 0; octave <= (wish.p ? 0 : kOctaves); ++octave) {
      improve(wish, g, octave * kPerOctave, best);
    }
    found.push_back(std::move(best));
  }
  if (wish.p) return found[least(found)].choice;
  std::vector<Found> kept;
  while (kept.size() < kKept && !found.empty()) {
    const auto next = found.begin() + static_cast<std::ptrdiff_t>(least(found));
    kept.push_back(std::move(*next));
    found.erase(next);
  }
  for (Found& one : kept) {
    const int middle = one.k;
    for (int k = std::max(0, middle - kPerOctave); k <= middle + kPerOctave; ++k) {
      improve(wish, one.choice.spec.g, k, one);
    }
  }
  std::sort(kept.begin(), kept.end(),
            [](const Found& a, const Found& b) { return a.choice.spec.g < b.choice.spec.g; });
  return kept[least(kept)].choice;
}

}  // namespace sluice::thc
