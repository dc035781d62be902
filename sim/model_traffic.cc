#include "sim/model_traffic.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "base/assert.h"

namespace sluice::sim {

void Traffic::check_bounds() const {
  SLUICE_ASSERT(workers_ >= 1 && workers_ <= kModelWorkersMax);
  SLUICE_ASSERT(uses_ >= 1 && uses_ <= kModelUsesMax);
  SLUICE_ASSERT(workers_ * uses_ <= kModelContributionsMax);
  SLUICE_ASSERT(in_flight_max_ >= 1 && in_flight_max_ <= kModelInFlightMax);
}

void Traffic::start(TrafficState& state) const { std::fill_n(state.want, workers_, Use{1}); }

bool Traffic::is_end(const TrafficState& state) const {
  return *std::min_element(state.want, state.want + workers_) > uses_;
}

bool Traffic::may_send(const TrafficState& state, std::uint32_t worker) const {
  return state.up[worker][in_flight_max_ - 1] == 0 && state.want[worker] <= uses_;
}

void Traffic::list_channels(const TrafficState& state, std::uint32_t worker,
                            std::vector<ModelAction>& actions) const {
  list_channel(state.up[worker], ModelEvent::up_lost, ModelEvent::up_arrives, worker, actions);
  list_channel(state.down[worker], ModelEvent::down_lost, ModelEvent::down_arrives, worker,
               actions);
}

void Traffic::list_channel(const PacketChannel& channel, ModelEvent lost, ModelEvent arrives,
                           std::uint32_t worker, std::vector<ModelAction>& actions) const {
  const bool is_fifo = order_ == Order::fifo;
  for (std::uint32_t at = 0; at < channel.size() && channel[at] != 0; ++at) {
    if (!is_fifo && at > 0 && channel[at] == channel[at - 1]) continue;
    if (loss_) actions.push_back({lost, worker, at});
    if (is_fifo && at > 0) continue;
    actions.push_back({arrives, worker, at});
    if (duplication_) actions.push_back({arrives, worker, at, true});
  }
}

void Traffic::put(PacketChannel& channel, std::uint16_t packet) const {
  const auto end = channel.begin() + in_flight_max_;
  const auto gap = std::find(channel.begin(), end, std::uint16_t{0});
  if (gap == end) return;
  *gap = packet;
  if (order_ == Order::unordered) std::sort(channel.begin(), gap + 1, std::greater<>());
}

std::uint16_t Traffic::take(TrafficState& state, const ModelAction& action) {
  PacketChannel& channel = (action.is_up() ? state.up : state.down)[action.worker];
  const std::uint16_t packet = channel[action.at];
  if (action.duplicate) return packet;
  std::copy(channel.begin() + action.at + 1, channel.end(), channel.begin() + action.at);
  channel.back() = 0;
  return packet;
}

void Traffic::count(UseSum& sum, std::uint32_t worker, Use use) const {
  const unsigned shift = shift_of(worker, use);
  if ((sum >> shift & 3) != 3) sum += UseSum{1} << shift;
}

UseSum Traffic::exact_sum(Use use, std::uint32_t owners) const {
  UseSum sum = 0;
  for (std::uint32_t w = 0; w < workers_; ++w) {
    if ((owners >> w & 1) != 0) sum |= UseSum{1} << shift_of(w, use);
  }
  return sum;
}

std::uint16_t Traffic::packet_of(const ModelResult& result) {
  const auto place = std::find(results_.begin(), results_.end(), result) - results_.begin();
  SLUICE_ASSERT(place <= std::numeric_limits<std::uint16_t>::max());
  if (static_cast<std::size_t>(place) == results_.size()) results_.push_back(result);
  return static_cast<std::uint16_t>(place);
}

std::optional<Invariant> Traffic::accept(TrafficState& state, std::uint16_t packet,
                                         UseSum exact) const {
  const ModelResult& result = results_[packet];
  std::uint16_t& accepted = state.accepted[result.use - 1];
  if (accepted == 0) accepted = packet;
  if (result.sum != exact && is_checked(Invariant::exactly_once)) return Invariant::exactly_once;
  if (accepted != packet && is_checked(Invariant::agreement)) return Invariant::agreement;
  return std::nullopt;
}

std::optional<Invariant> Traffic::judge(bool forgets, bool changes_again) const {
  if (forgets && is_checked(Invariant::retention)) return Invariant::retention;
  if (changes_again && is_checked(Invariant::idempotence)) return Invariant::idempotence;
  return std::nullopt;
}

std::string Traffic::text_of(UseSum sum) const {
  std::string text = "{";
  for (Use use = 1; use <= uses_; ++use) {
    for (std::uint32_t w = 0; w < workers_; ++w) {
      for (UseSum times = sum >> shift_of(w, use) & 3; times > 0; --times) {
        if (text.size() > 1) text += ' ';
        text += 'w' + std::to_string(w) + ':' + std::to_string(use);
      }
    }
  }
  return text + '}';
}

std::string Traffic::describe_down(const TrafficState& before, const ModelAction& action,
                                   bool is_accepted) const {
  const ModelResult& result = results_[before.down[action.worker][action.at]];
  const std::string worker = 'w' + std::to_string(action.worker);
  const std::string text =
      "the result of use " + std::to_string(result.use) + ' ' + text_of(result.sum);
  if (action.event == ModelEvent::down_lost) return text + " to " + worker + " is lost";
  return worker + " gets " + text + action.copy_text() + (is_accepted ? ": accepted" : ": ignored");
}

}  // namespace sluice::sim
