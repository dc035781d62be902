#include "codec/thc/tables.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/assert.h"
#include "codec/thc/normal_law.h"

namespace sluice::thc {
namespace {

// Costs are integers, in units of 2^−90 grid steps squared. So sums are exact, ties are exact, and
// the quadrangle inequality, which the search relies on, holds exactly. The largest term is below
// 2^(90 + 12 + 13).
__extension__ typedef __int128 Wide;
constexpr int kPoint = 90;

// Integrals of 1, v and v² times the density over one cell, v from 0 to 1 across it.
struct Moments {
  Wide zeroth = 0;
  Wide first = 0;
  Wide second = 0;
};

struct Node {
  double at;  // in (0, 1)
  double weight;
};
// Gauss and Legendre, 8 nodes.
constexpr std::array<Node, 8> kNodes{{{0.01985507175123188, 0.05061426814518813},
                                      {0.10166676129318664, 0.11119051722668724},
                                      {0.23723379504183550, 0.15685332293894364},
                                      {0.40828267875217510, 0.18134189168918100},
                                      {0.59171732124782490, 0.18134189168918100},
                                      {0.76276620495816450, 0.15685332293894364},
                                      {0.89833323870681336, 0.11119051722668724},
                                      {0.98014492824876812, 0.05061426814518813}}};
constexpr double kPieceMax = 0.25;  // deviations; 8 nodes are exact to the last place on it

Moments moments_of_cell(std::uint32_t cell, std::uint32_t g, double t) {
  const double width = 2 * t / g;
  const int extents = std::max(1, static_cast<int>(std::ceil(width / kPieceMax)));
  std::array<double, 3> sums{};
  for (int extent = 0; extent < extents; ++extent) {
    for (const Node& node : kNodes) {
      const double v = (extent + node.at) / extents;
      const double mass = density((2 * (cell + v) / g - 1) * t) * node.weight * width / extents;
      sums[0] += mass;
      sums[1] += mass * v;
      sums[2] += mass * v * v;
    }
  }
  // Even, so that the cell in the middle can have half of it on either side.
  return {2 * static_cast<Wide>(std::ldexp(sums[0], kPoint - 1)),
          static_cast<Wide>(std::ldexp(sums[1], kPoint)),
          static_cast<Wide>(std::ldexp(sums[2], kPoint))};
}

// What rounding between two neighbouring codes costs, for all pairs of grid points.
class Costs {
 public:
  Costs(std::uint32_t g, double t) : g_(g), below_(g + 1) {
    std::vector<Moments> cells(g);
    for (std::uint32_t k = 0; k <= (g - 1) / 2; ++k) {
      cells[k] = moments_of_cell(k, g, t);
      Moments& mirrored = cells[g - 1 - k];
      if (k == g - 1 - k) {
        mirrored.first = mirrored.zeroth / 2;
      } else {
        mirrored = {cells[k].zeroth, cells[k].zeroth - cells[k].first,
                    cells[k].zeroth - 2 * cells[k].first + cells[k].second};
      }
    }
    for (std::uint32_t k = 0; k < g; ++k) {
      const Moments& cell = cells[k];
      const Moments& sum = below_[k];
      below_[k + 1] = {
          sum.zeroth + cell.zeroth, sum.first + k * cell.zeroth + cell.first,
          sum.second + Wide{k} * k * cell.zeroth + 2 * Wide{k} * cell.first + cell.second};
    }
  }

  [[nodiscard]] std::uint32_t g() const { return g_; }
  // ∫ (to − u)(u − from) over the cells between, u in grid steps.
  [[nodiscard]] Wide operator()(std::uint32_t from, std::uint32_t to) const {
    const Moments& a = below_[from];
    const Moments& c = below_[to];
    return (from + to) * (c.first - a.first) - (c.second - a.second) -
           Wide{from} * to * (c.zeroth - a.zeroth);
  }

 private:
  std::uint32_t g_;
  std::vector<Moments> below_;  // of all cells below a grid point, in grid steps from 0
};

// The cheapest way of exactly `layers` steps from grid point 0, each step at `weight` times its
// cost, to a point of [0, last] from where it goes on at `onward`. Costs obey the quadrangle
// inequality, so the best next point (of several the farthest) never moves back as the start moves
// on: halving the starts costs g·log g per layer in place of g².
class Search {
 public:
  Search(const Costs& costs, std::uint32_t layers, std::uint32_t last, int weight,
         std::vector<Wide> onward)
      : costs_(costs),
        weight_(weight),
        onward_(std::move(onward)),
        next_(onward_.size()),
        choices_(layers, std::vector<std::uint16_t>(onward_.size())) {
    SLUICE_ASSERT(layers <= last && onward_.size() == last + 1);
    for (std::uint32_t layer = 0; layer < layers; ++layer) {
      const std::uint32_t from = layers - 1 - layer;  // so many steps lie before
      const std::uint32_t to = from == 0 ? 0 : last - 1 - layer;
      fill(layer, {from, to}, {from + 1, last - layer});
      onward_.swap(next_);
    }
  }

  // The points of the way, 0 first.
  [[nodiscard]] std::vector<std::uint16_t> way() const {
    std::vector<std::uint16_t> points{0};
    for (std::size_t layer = choices_.size(); layer-- > 0;) {
      points.push_back(choices_[layer][points.back()]);
    }
    return points;
  }

 private:
  struct ThcRange {
    std::uint32_t first;
    std::uint32_t last;
  };

  void fill(std::uint32_t layer, ThcRange starts, ThcRange targets) {
    const std::uint32_t start = starts.first + (starts.last - starts.first) / 2;
    std::uint32_t best = std::max(targets.first, start + 1);
    Wide least = cost(start, best);
    for (std::uint32_t target = best + 1; target <= targets.last; ++target) {
      const Wide sum = cost(start, target);
      if (sum <= least) {
        least = sum;
        best = target;
      }
    }
    next_[start] = least;
    choices_[layer][start] = static_cast<std::uint16_t>(best);
    if (start > starts.first) fill(layer, {starts.first, start - 1}, {targets.first, best});
    if (start < starts.last) fill(layer, {start + 1, starts.last}, {best, targets.last});
  }

  [[nodiscard]] Wide cost(std::uint32_t start, std::uint32_t target) const {
    return weight_ * costs_(start, target) + onward_[target];
  }

  const Costs& costs_;
  int weight_;
  std::vector<Wide> onward_;  // from every point, with the layers so far
  std::vector<Wide> next_;
  std::vector<std::vector<std::uint16_t>> choices_;  // by layer, the last step first
};

std::vector<std::uint16_t> optimal_values(const Costs& costs, std::uint32_t bits) {
  const std::uint32_t g = costs.g();
  std::vector<Wide> onward(g);
  for (std::uint32_t from = 0; from < g; ++from) onward[from] = costs(from, g);
  std::vector<std::uint16_t> values =
      Search(costs, (1u << bits) - 2, g - 1, 1, std::move(onward)).way();
  values.push_back(static_cast<std::uint16_t>(g));
  return values;
}

// The lower half decides: its steps count twice, then comes the gap around the middle.
std::vector<std::uint16_t> symmetric_values(const Costs& costs, std::uint32_t bits) {
  const std::uint32_t g = costs.g();
  const std::uint32_t last = (g - 1) / 2;
  std::vector<Wide> onward(last + 1);
  for (std::uint32_t from = 0; from <= last; ++from) onward[from] = costs(from, g - from);
  std::vector<std::uint16_t> values =
      Search(costs, (1u << (bits - 1)) - 1, last, 2, std::move(onward)).way();
  for (std::size_t i = values.size(); i-- > 0;) {
    values.push_back(static_cast<std::uint16_t>(g - values[i]));
  }
  return values;
}

double variance_of(const Costs& costs, const std::vector<std::uint16_t>& table, double t) {
  Wide sum = 0;
  for (std::size_t i = 1; i < table.size(); ++i) {
    SLUICE_ASSERT(table[i - 1] < table[i]);
    sum += costs(table[i - 1], table[i]);
  }
  const double step = 2 * t / costs.g();
  return std::ldexp(static_cast<double>(sum), -kPoint) * step * step;
}

}  // namespace

Table make_table(const TableSpec& spec) {
  SLUICE_ASSERT(spec.bits >= 1 && spec.bits <= kBitsMax);
  SLUICE_ASSERT(spec.g >= grid_min(spec.bits) && spec.g <= kGridMax);
  const double t = clamp_point(spec.p);
  const Costs costs(spec.g, t);
  Table table;
  table.values = spec.shape == Shape::optimal ? optimal_values(costs, spec.bits)
                                              : symmetric_values(costs, spec.bits);
  table.clamp_point = t;
  table.rounding = variance_of(costs, table.values, t);
  table.clamping = clamp_cost(t);
  return table;
}

double expected_error(const Table& table, std::uint32_t workers, Inputs inputs) {
  const double rounding = table.rounding / workers;
  return inputs == Inputs::identical ? rounding + table.clamping
                                     : rounding + table.clamping / workers;
}

}  // namespace sluice::thc
