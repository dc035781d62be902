#include "carrier/stream/servers.h"

#include <exception>
#include <mutex>
#include <optional>
#include <thread>

#include "base/assert.h"

namespace sluice::stream {

Checked<std::unique_ptr<Servers>> Servers::open(std::span<const SocketAddress> addresses,
                                                protocol::AggregatorOptions options) {
  SLUICE_ASSERT(!addresses.empty());
  options.limits.memory_max /= addresses.size();
  std::vector<std::unique_ptr<Server>> servers;
  for (const SocketAddress& address : addresses) {
    SLUICE_TRY_ASSIGN(auto server, Server::open(address, options));
    servers.push_back(std::move(server));
  }
  return std::make_unique<Servers>(Token{}, std::move(servers));
}

Servers::Servers(Token, std::vector<std::unique_ptr<Server>> servers)
    : servers_(std::move(servers)) {}

Status Servers::run(const std::function<void()>& tick) {
  std::mutex mutex;
  std::optional<Error> failure;
  const auto end = [&](const Error& error) {
    stop();
    const std::lock_guard lock(mutex);
    if (!failure) failure = error;
  };
  const auto serve = [&](std::size_t index) {
    try {
      const Status served = servers_[index]->run(index == 0 ? tick : nullptr);
      if (!served) end(served.error());
    } catch (const std::exception&) {
      end({Code::out_of_memory, 0, "an aggregator ran out of memory"});
    }
  };
  std::vector<std::thread> threads;
  try {
    threads.reserve(servers_.size());
    for (std::size_t i = 1; i < servers_.size(); ++i) threads.emplace_back(serve, i);
  } catch (const std::exception&) {  // The threads that are there must be joined.
    end({Code::unavailable, 0, "no thread for an aggregator"});
  }
  serve(0);
  for (std::thread& thread : threads) thread.join();
  return failure ? Status(*failure) : ok();
}

void Servers::stop() {
  for (const auto& server : servers_) server->stop();
}

void Servers::drain() {
  for (const auto& server : servers_) server->drain();
}

void Servers::set_limits(protocol::Limits limits) {
  limits.memory_max /= servers_.size();
  for (const auto& server : servers_) server->set_limits(limits);
}

std::vector<SocketAddress> Servers::addresses() const {
  std::vector<SocketAddress> addresses;
  for (const auto& server : servers_) addresses.push_back(server->address());
  return addresses;
}

protocol::Counters Servers::counters() const {
  protocol::Counters sum;
  for (const auto& server : servers_) protocol::add(server->counters(), sum);
  return sum;
}

std::vector<protocol::JobReport> Servers::reports() const {
  std::vector<protocol::JobReport> all;
  for (const auto& server : servers_) {
    for (protocol::JobReport& report : server->reports()) all.push_back(std::move(report));
  }
  return protocol::merged(all);
}

double Servers::cpu_seconds() const {
  double sum = 0;
  for (const auto& server : servers_) sum += server->cpu_seconds();
  return sum;
}

}  // namespace sluice::stream
