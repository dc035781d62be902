// The C functions over aggregators and ports: parcels over carrier `stream`.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <string>
#include <thread>

#include "abi/edge.h"
#include "carrier/stream/servers.h"
#include "carrier/stream/stream.h"
#include "group/convoy.h"

using sluice::Nothing;
using sluice::abi::invalid;
using sluice::abi::report;

struct sluice_aggregator {
  explicit sluice_aggregator(std::unique_ptr<sluice::stream::Servers> opened)
      : servers(std::move(opened)), done(ended.get_future()), thread([this] {
          static_cast<void>(servers->run());
          ended.set_value();
        }) {
    std::vector<std::string> names;
    for (const auto& address : servers->addresses()) names.push_back(text_of(address));
    addresses = fmt::format("{}", fmt::join(names, ","));
  }
  ~sluice_aggregator() {
    servers->drain();
    done.wait_for(patience);
    servers->stop();
    thread.join();
  }
  sluice_aggregator(const sluice_aggregator&) = delete;
  sluice_aggregator& operator=(const sluice_aggregator&) = delete;

  std::unique_ptr<sluice::stream::Servers> servers;
  std::promise<void> ended;
  std::future<void> done;
  std::thread thread;
  std::string addresses;
  std::chrono::duration<double> patience{};
};

struct sluice_port {
  sluice_port(const sluice_memory& memory, std::unique_ptr<sluice::stream::Port> opened,
              std::uint32_t window, std::chrono::nanoseconds longest)
      : exact(std::move(sluice::make_codec("f32")->codec)),
        port(std::move(opened)),
        convoy(*memory.memory, *exact, *port, window, memory.sparse.get()),
        timeout(longest) {}

  std::unique_ptr<sluice::Codec> exact;
  std::unique_ptr<sluice::stream::Port> port;
  sluice::Convoy convoy;
  std::chrono::nanoseconds timeout;
};

extern "C" {

sluice_code sluice_aggregator_start(const char* addresses, sluice_aggregator** aggregator) {
  if (addresses == nullptr || aggregator == nullptr) {
    return report(sluice::abi::null("addresses or output", "addresses and a pointer to fill"));
  }
  const auto resolved = sluice::stream::resolve_list(addresses);
  if (!resolved) return report(resolved.error());
  auto servers = sluice::stream::Servers::open(*resolved, {});
  if (!servers) return report(servers.error());
  *aggregator = std::make_unique<sluice_aggregator>(std::move(*servers)).release();
  return report(Nothing{});
}

const char* sluice_aggregator_addresses(const sluice_aggregator* aggregator) {
  return aggregator->addresses.c_str();
}

void sluice_aggregator_free(sluice_aggregator* aggregator, double patience) {
  if (aggregator == nullptr) return;
  // Not a number, too: no patience.
  if (patience > 0) aggregator->patience = std::chrono::duration<double>(std::min(patience, 1e6));
  std::unique_ptr<sluice_aggregator>{aggregator};
}

sluice_code sluice_port_open(sluice_memory* memory, const char* aggregators, uint64_t job,
                             uint32_t window, double timeout, int bell, sluice_port** port) {
  if (memory == nullptr || aggregators == nullptr || port == nullptr) {
    return report(sluice::abi::null("memory, aggregators or output",
                                    "a memory, addresses and a pointer to fill"));
  }
  constexpr double kSecondsMax = 86400;
  if (!(timeout > 0 && timeout <= kSecondsMax)) {
    return report(invalid(fmt::format("timeout {}; accepted: above 0, at most {}", timeout,
                                      kSecondsMax)));
  }
  const auto longest = std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>(timeout));
  const sluice::GroupOptions& options = memory->memory->options();
  auto opened = sluice::stream::open_port({.rank = options.rank,
                                           .workers = options.workers,
                                           .window = window,
                                           .job = job,
                                           .aggregators = aggregators,
                                           .timeout = longest,
                                           .bell = bell});
  if (!opened) return report(opened.error());
  *port = std::make_unique<sluice_port>(*memory, std::move(*opened), window, longest).release();
  return report(Nothing{});
}

void sluice_port_free(sluice_port* port) { std::unique_ptr<sluice_port>{port}; }

sluice_code sluice_port_run(sluice_port* port, const sluice_order* order, const sluice_job* jobs,
                            size_t job_count) {
  if (order == nullptr) return report(sluice::abi::null("order", "a sluice_order"));
  const auto parsed = sluice::abi::jobs_from(jobs, job_count);
  if (!parsed) return report(parsed.error());
  return report(port->convoy.run(sluice::abi::order_from(*order), *parsed, port->timeout));
}

void sluice_port_report(const sluice_port* port, sluice_report* into) {
  *into = sluice::abi::report_from(port->convoy.report());
}

size_t sluice_port_probes(const sluice_port* port, sluice_probe* probes, size_t capacity) {
  return sluice::abi::probes_from(port->convoy.report(), {probes, capacity});
}

void sluice_port_traffic(const sluice_port* port, sluice_traffic* traffic) {
  const auto counted = port->port->counters();
  *traffic = {counted.sent_bytes, counted.received_bytes, counted.retransmits};
}

}  // extern "C"
