// Scenarios: what decides an answer, and the many ways of arriving at it that must not.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "carrier/local/local.h"
#include "carrier/world.h"
#include "codec/codec.h"
#include "group/fleet.h"
#include "kernels/level.h"
#include "tests/support/data.h"

namespace sluice::support {

// Whose contributions are lost.
enum class Missing : std::uint8_t { none, first, last, third, some_grains, everyone };

// In which order and over which tree contributions come in.
enum class Arrivals : std::uint8_t { ascending, descending, shuffled, pairs, fives_shuffled };

struct Scenario {
  std::uint32_t count = 257;
  std::uint32_t workers = 3;
  DataKind data = DataKind::normal;
  std::uint32_t chunk_count = 1u << 16;
  Missing missing = Missing::none;
  std::string_view feedback = "none";  // its SPEC
  std::uint32_t steps = 1;
  std::uint64_t seed = 1;

  friend bool operator==(const Scenario&, const Scenario&) = default;
};

// The first of each is the reference.
struct Way {
  Arrivals arrivals = Arrivals::ascending;
  Staffing staffing = Staffing::stepped;
  Level level = available_levels().back();
  bool in_place = false;  // the mean is the gradient's own memory
};

std::string_view name_of(Missing missing);
std::string_view name_of(Arrivals arrivals);
std::string describe(const Scenario& scenario);
std::string describe(const Way& way);

// The tensors of a scenario: one of `count` coordinates as square as it can be and, where that is
// cheap, a small second one.
std::vector<Tensor> tensors_of(const Scenario& scenario);

// Whether the rank's contributions are lost from first to last.
bool is_missing(Missing missing, std::uint32_t rank, std::uint32_t workers);

// Whether a contribution is lost.
bool is_lost(Missing missing, const local::Arrival& arrival, std::uint32_t workers);

// Exchanges in flight, of worlds and groups of a scenario.
inline constexpr std::uint32_t kScenarioWindow = 3;
// Another carrier than `local` cannot choose what arrives: the scenario misses nobody and the way
// has contributions ascending, or this stops.
Checked<std::unique_ptr<World>> world_of(const CarrierInfo& carrier, const Scenario& scenario,
                                         const Way& way);

// The gradients, by tensor and rank.
struct Inputs {
  explicit Inputs(const Scenario& scenario);

  Scenario scenario;
  std::vector<Tensor> tensors;
  std::vector<std::vector<std::vector<float>>> gradients;
};

}  // namespace sluice::support
