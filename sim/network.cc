#include "sim/network.h"

#include <algorithm>

#include "base/assert.h"

namespace sluice::sim {
namespace {

constexpr std::size_t kOwnQueue = 1'500'000;  // of a sender's own interface, bytes

}  // namespace

std::vector<std::byte> joined(std::span<const std::byte> header,
                              std::span<const std::byte> payload) {
  std::vector<std::byte> bytes(header.size() + payload.size());
  const auto rest = std::copy(header.begin(), header.end(), bytes.begin());
  std::copy(payload.begin(), payload.end(), rest);
  return bytes;
}

std::uint32_t seats_of(const Scenario& scenario) {
  return scenario.habits.meets_every == 0 ? 1 : 2;
}

Network::Network(const Scenario& scenario, std::uint32_t processes)
    : scenario_(scenario),
      dice_(mix(scenario.seed, 77)),
      process_links_(std::size_t{2} * processes),
      aggregator_links_(std::size_t{2} * scenario.aggregators) {}

bool Network::is_cut(std::uint32_t process, Time now) const {
  return std::any_of(
      scenario_.partitions.begin(), scenario_.partitions.end(), [&](const Partition& partition) {
        return partition.worker == process && now >= partition.from && now < partition.until;
      });
}

bool Network::is_too_large(const Datagram& datagram) const {
  const std::size_t most = datagram.up ? scenario_.weather.mtu_up : scenario_.weather.mtu_down;
  return most != 0 && datagram.bytes.size() > most;
}

std::optional<Time> Network::through(Time& free_at, std::size_t size, std::size_t queue,
                                     Time now) const {
  const double rate = scenario_.weather.bytes_per_second;
  if (rate == 0) return now;
  const Time start = std::max(now, free_at);
  const double backlog = std::chrono::duration<double>(start - now).count() * rate;
  if (backlog > static_cast<double>(queue)) return std::nullopt;
  const double seconds = static_cast<double>(size) / rate;
  free_at = start + std::chrono::duration_cast<Time>(std::chrono::duration<double>(seconds));
  return free_at;
}

void Network::send(Datagram datagram, Time now) {
  ++sent_;
  const Weather& weather = scenario_.weather;
  const std::size_t side = datagram.up ? 0 : 1;
  const std::uint32_t process = datagram.worker / seats_of(scenario_);
  Time& process_link = process_links_[std::size_t{2} * process + side];
  Time& aggregator_link = aggregator_links_[std::size_t{2} * datagram.aggregator + side];
  const std::size_t size = datagram.bytes.size();
  const auto left = through(datagram.up ? process_link : aggregator_link, size,
                            std::max(weather.queue, kOwnQueue), now);
  const auto arrived = left ? through(datagram.up ? aggregator_link : process_link, size,
                                      weather.queue, *left + weather.delay)
                            : std::nullopt;
  if (!arrived || is_cut(process, now) || is_too_large(datagram) || dice_.happens(weather.loss)) {
    ++lost_;
    return;
  }
  const unsigned copies = dice_.happens(weather.duplicate) ? 2 : 1;
  for (unsigned copy = 0; copy < copies; ++copy) {
    Time at = *arrived;
    const auto jitter = static_cast<std::uint64_t>(weather.jitter.count());
    if (copy != 0 || dice_.happens(weather.reorder)) at += Time(dice_.between(0, jitter));
    flying_.push({at, sent_ * 2 + copy, datagram});
  }
}

Time Network::next() const { return flying_.empty() ? protocol::kNever : flying_.top().at; }

Datagram Network::take() {
  SLUICE_ASSERT(!flying_.empty());
  Datagram datagram = flying_.top().datagram;
  flying_.pop();
  return datagram;
}

}  // namespace sluice::sim
