#include "tests/support/arrangement.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/assert.h"
#include "base/random.h"

namespace sluice::support {
namespace {

constexpr std::uint32_t kSecondTensorUpTo = 4096;

Tensor tensor_of(std::uint64_t id, std::uint32_t count) {
  std::uint64_t rows = count == 0 ? 0 : 1;
  for (std::uint64_t r = 1; r * r <= count; ++r) {
    if (count % r == 0) rows = r;
  }
  return {id, rows, rows == 0 ? 0 : count / rows};
}

std::vector<std::uint32_t> order_of(Arrivals arrivals, std::uint32_t workers) {
  std::vector<std::uint32_t> order(workers);
  std::iota(order.begin(), order.end(), 0u);
  if (arrivals == Arrivals::descending) std::reverse(order.begin(), order.end());
  if (arrivals == Arrivals::shuffled || arrivals == Arrivals::fives_shuffled) {
    const RandomStream stream(chunk_key(7, workers, 0), Purpose::data, kShared);
    for (std::uint32_t i = workers; i > 1; --i) std::swap(order[i - 1], order[stream.word(i) % i]);
  }
  return order;
}

// A quarter of all grains of the first round, but never the whole of one.
bool is_lost_grain(const local::Arrival& arrival, std::uint32_t workers) {
  if (arrival.leg != 0 || arrival.round != 0) return false;
  const std::uint64_t where = mix(arrival.sequence, arrival.grain);
  return where % workers != arrival.rank && mix(where, arrival.rank) % 4 == 0;
}

}  // namespace

std::string_view name_of(Missing missing) {
  static constexpr std::array<std::string_view, 6> kNames{"none",  "first",       "last",
                                                          "third", "some_grains", "everyone"};
  return kNames[static_cast<std::size_t>(missing)];
}

std::string_view name_of(Arrivals arrivals) {
  static constexpr std::array<std::string_view, 5> kNames{"ascending", "descending", "shuffled",
                                                          "pairs", "fives_shuffled"};
  return kNames[static_cast<std::size_t>(arrivals)];
}

std::string describe(const Scenario& scenario) {
  return fmt::format(
      "{} coordinates, {} workers, {} data, chunks of {}, missing {}, feedback {}, {} steps",
      scenario.count, scenario.workers, name_of(scenario.data), scenario.chunk_count,
      name_of(scenario.missing), scenario.feedback, scenario.steps);
}

std::string describe(const Way& way) {
  return fmt::format("arrivals {}, {}, {} kernels{}", name_of(way.arrivals),
                     way.staffing == Staffing::threads ? "threads" : "stepped",
                     sluice::name_of(way.level), way.in_place ? ", in place" : "");
}

std::vector<Tensor> tensors_of(const Scenario& scenario) {
  std::vector<Tensor> tensors{tensor_of(0x1001, scenario.count)};
  if (scenario.count <= kSecondTensorUpTo) tensors.push_back({0x1002, 3, 11});
  return tensors;
}

bool is_missing(Missing missing, std::uint32_t rank, std::uint32_t workers) {
  switch (missing) {
    case Missing::first: return rank == 0;
    case Missing::last: return rank == workers - 1;
    case Missing::third: return rank % 3 == 1;
    case Missing::everyone: return true;
    case Missing::none:
    case Missing::some_grains: break;
  }
  return false;
}

bool is_lost(Missing missing, const local::Arrival& arrival, std::uint32_t workers) {
  return missing == Missing::some_grains ? is_lost_grain(arrival, workers)
                                         : is_missing(missing, arrival.rank, workers);
}

Checked<std::unique_ptr<World>> world_of(const CarrierInfo& carrier, const Scenario& scenario,
                                         const Way& way) {
  const WorldOptions options{.workers = scenario.workers, .window = kScenarioWindow};
  if (carrier.name != local::kInfo.name) {
    SLUICE_ASSERT(scenario.missing == Missing::none && way.arrivals == Arrivals::ascending);
    return carrier.make_world(options);
  }
  local::Arrangement arrangement{.order = order_of(way.arrivals, scenario.workers)};
  if (way.arrivals == Arrivals::pairs) arrangement.fan_in = 2;
  if (way.arrivals == Arrivals::fives_shuffled) arrangement.fan_in = 5;
  if (scenario.missing != Missing::none) {
    arrangement.lost = [missing = scenario.missing,
                        workers = scenario.workers](const local::Arrival& arrival) {
      return is_lost(missing, arrival, workers);
    };
  }
  return local::make_world(options, std::move(arrangement));
}

Inputs::Inputs(const Scenario& of) : scenario(of), tensors(tensors_of(of)) {
  for (const Tensor& tensor : tensors) {
    auto& per_rank = gradients.emplace_back(scenario.workers);
    for (std::uint32_t rank = 0; rank < scenario.workers; ++rank) {
      per_rank[rank].resize(tensor.count());
      fill_gradient(scenario.data, scenario.seed, tensor.id, rank, per_rank[rank]);
    }
  }
}

}  // namespace sluice::support
