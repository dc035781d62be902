// What the models of a slot and of a ring share: workers that want the results of uses, packets
// under way, results, and sums that say whose contributions they hold.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/model.h"

namespace sluice::sim {

// Uses are 1 to n here, whatever number the rule sees.
using Use = std::uint32_t;
inline std::uint32_t bit_of(Use use) { return 1u << (use - 1); }

// How often each contribution was counted: two bits each, three stands for three or more. No sum
// with a two in it is right, so what is beyond need not be told apart, and states stay finite.
using UseSum = std::uint32_t;

// Packets of one direction of one worker; zero is no packet and stands after all others. Up, a
// packet is what the model makes of its use; down, its place among the results. Of an unordered
// channel only one arrangement is used, so that equal multisets are equal states.
using PacketChannel = std::array<std::uint16_t, kModelInFlightMax>;

// The part of a state that does not depend on the rule.
struct TrafficState {
  Use want[kModelWorkersMax] = {};               // the first use whose result a worker lacks
  std::uint32_t arrived[kModelWorkersMax] = {};  // bit per use: the aggregator has had it
  PacketChannel up[kModelWorkersMax] = {};
  PacketChannel down[kModelWorkersMax] = {};
  std::uint16_t accepted[kModelUsesMax] = {};  // the result that was first accepted of a use
};

// A worker sends about the use that it wants, or asks about it; something is lost or arrives.
enum class ModelEvent : std::uint8_t { send, ask, up_lost, up_arrives, down_lost, down_arrives };

struct ModelAction {
  ModelEvent event;
  std::uint32_t worker;
  std::uint32_t at = 0;    // place in the channel
  bool duplicate = false;  // arrives, and is still under way

  [[nodiscard]] bool is_up() const {
    return event == ModelEvent::up_lost || event == ModelEvent::up_arrives;
  }
  [[nodiscard]] std::string copy_text() const {
    return duplicate ? " (a copy is still under way)" : "";
  }
};

struct ModelResult {
  Use use;
  UseSum sum;
  bool operator==(const ModelResult&) const = default;
};

// What may happen to the traffic, and what comes of it.
class Traffic {
 public:
  // Of a Setting or a RingSetting, within its bounds.
  template <class AnySetting>
  Traffic(const AnySetting& setting, Order order)
      : workers_(setting.workers),
        uses_(setting.uses),
        in_flight_max_(setting.in_flight_max),
        use_first_(setting.use_first),
        checked_(setting.checked),
        order_(order),
        loss_(setting.loss),
        duplication_(setting.duplication) {
    check_bounds();
  }

  void start(TrafficState& state) const;
  [[nodiscard]] bool is_end(const TrafficState& state) const;
  // Whether the worker wants something, and its channel has room for a packet about it.
  [[nodiscard]] bool may_send(const TrafficState& state, std::uint32_t worker) const;
  // What may happen to the worker's packets, behind the actions that are there.
  void list_channels(const TrafficState& state, std::uint32_t worker,
                     std::vector<ModelAction>& actions) const;
  // A packet that does not fit is lost.
  void put(PacketChannel& channel, std::uint16_t packet) const;
  // The packet that the action is about; it leaves its channel unless it is duplicated.
  static std::uint16_t take(TrafficState& state, const ModelAction& action);

  [[nodiscard]] std::uint32_t number_of(Use use) const { return use_first_ + use - 1; }
  [[nodiscard]] Use use_of(std::uint32_t number) const { return number - use_first_ + 1; }

  void count(UseSum& sum, std::uint32_t worker, Use use) const;
  // One contribution of each owner, a bit per worker.
  [[nodiscard]] UseSum exact_sum(Use use, std::uint32_t owners) const;

  // The packet that brings the result; equal results are one packet.
  std::uint16_t packet_of(const ModelResult& result);
  [[nodiscard]] const ModelResult& result(std::uint16_t packet) const { return results_[packet]; }

  // A worker accepts the result in the packet, which ought to be `exact`. What that violates.
  std::optional<Invariant> accept(TrafficState& state, std::uint16_t packet, UseSum exact) const;
  // Of a packet up: whether it made the aggregator forget a result that somebody lacks, and
  // whether it was there before and changed something. What that violates.
  [[nodiscard]] std::optional<Invariant> judge(bool forgets, bool changes_again) const;

  [[nodiscard]] std::string text_of(UseSum sum) const;
  // A sentence about a result that is lost or arrives.
  [[nodiscard]] std::string describe_down(const TrafficState& before, const ModelAction& action,
                                          bool is_accepted) const;

  // Calls field(value, bytes) for all of the state, to write the values or to set them.
  template <class Field>
  void transfer(TrafficState& state, unsigned up_bytes, Field field) const {
    for (std::uint32_t w = 0; w < workers_; ++w) {
      field(state.want[w], 1);
      field(state.arrived[w], 1);
      for (std::uint32_t i = 0; i < in_flight_max_; ++i) {
        field(state.up[w][i], up_bytes);
        field(state.down[w][i], 2);
      }
    }
    for (std::uint32_t i = 0; i < uses_; ++i) field(state.accepted[i], 2);
  }
  // There and back; zero is none. Whether there is one.
  template <class Field>
  bool transfer_number(std::uint32_t& number, bool is_known, Field field) const {
    Use use = is_known ? use_of(number) : 0;
    field(use, 1);
    number = use == 0 ? 0 : number_of(use);
    return use != 0;
  }

 private:
  void check_bounds() const;
  [[nodiscard]] unsigned shift_of(std::uint32_t worker, Use use) const {
    return 2 * ((use - 1) * workers_ + worker);
  }
  [[nodiscard]] bool is_checked(Invariant invariant) const {
    return (checked_ & only(invariant)) != 0;
  }
  void list_channel(const PacketChannel& channel, ModelEvent lost, ModelEvent arrives,
                    std::uint32_t worker, std::vector<ModelAction>& actions) const;

  std::uint32_t workers_;
  std::uint32_t uses_;
  std::uint32_t in_flight_max_;
  std::uint32_t use_first_;
  Invariants checked_;
  Order order_;
  bool loss_;
  bool duplication_;
  std::vector<ModelResult> results_{ModelResult{0, 0}};
};

// Bytes of what Traffic::transfer() writes.
constexpr std::size_t traffic_size(std::size_t workers, std::size_t uses, std::size_t packets,
                                   std::size_t up_bytes) {
  return workers * (2 + (up_bytes + 2) * packets) + 2 * uses;
}

}  // namespace sluice::sim
