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
using sluice::Verdict;
using sluice::abi::call;
using sluice::abi::check_pointers;
using sluice::abi::invalid;

struct sluice_aggregator {
  explicit sluice_aggregator(std::unique_ptr<sluice::stream::Servers> opened)
      : servers(std::move(opened)), addresses(text_of_addresses()), done(ended.get_future()) {
    thread = std::thread([this] { serve(); });
  }
  ~sluice_aggregator() {
    servers->drain();
    done.wait_for(patience);
    servers->stop();
    thread.join();
  }
  sluice_aggregator(const sluice_aggregator&) = delete;
  sluice_aggregator& operator=(const sluice_aggregator&) = delete;

  // Out of memory it ends, and the workers find nobody: there is no caller here to tell.
  void serve() noexcept {
    sluice::abi::value(false, [&] { return servers->run().has_value(); });
    ended.set_value();
  }
  [[nodiscard]] std::string text_of_addresses() const {
    std::vector<std::string> names;
    for (const auto& address : servers->addresses()) names.push_back(text_of(address));
    return fmt::format("{}", fmt::join(names, ","));
  }

  std::unique_ptr<sluice::stream::Servers> servers;
  std::string addresses;
  std::promise<void> ended;
  std::future<void> done;
  std::chrono::duration<double> patience{};
  std::thread thread;
};

struct sluice_port {
  sluice_port(std::shared_ptr<sluice::abi::Worker> of, std::unique_ptr<sluice::stream::Port> opened,
              std::uint32_t window, std::chrono::nanoseconds longest)
      : worker(std::move(of)),
        exact(std::move(sluice::make_codec("f32")->codec)),
        port(std::move(opened)),
        convoy(*worker->memory, *exact, *port, window, worker->sparse.get()),
        timeout(longest) {}

  std::shared_ptr<sluice::abi::Worker> worker;  // shared with the memory's handle
  std::unique_ptr<sluice::Codec> exact;
  std::unique_ptr<sluice::stream::Port> port;
  sluice::Convoy convoy;
  std::chrono::nanoseconds timeout;
};

namespace {

// A parcel that an exception stopped in the middle cannot go on.
class Attempt {
 public:
  explicit Attempt(sluice_port& port) : port_(port), in_flight_(*port.worker) {}
  ~Attempt() {
    if (!ended_) port_.convoy.give_up();
  }
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;
  void ended() { ended_ = true; }

 private:
  sluice_port& port_;
  sluice::abi::InFlight in_flight_;
  bool ended_ = false;
};

}  // namespace

extern "C" {

sluice_code sluice_aggregator_start(const char* addresses, sluice_aggregator** aggregator) {
  return call({__func__}, [&]() -> Verdict {
    SLUICE_TRY(check_pointers({{addresses, "addresses"}, {aggregator, "aggregator"}}));
    SLUICE_TRY_ASSIGN(const auto resolved, sluice::stream::resolve_list(addresses));
    SLUICE_TRY_ASSIGN(auto servers, sluice::stream::Servers::open(resolved, {}));
    *aggregator = std::make_unique<sluice_aggregator>(std::move(servers)).release();
    return Nothing{};
  });
}

const char* sluice_aggregator_addresses(const sluice_aggregator* aggregator) {
  return aggregator == nullptr ? nullptr : aggregator->addresses.c_str();
}

void sluice_aggregator_free(sluice_aggregator* aggregator, double patience) {
  if (aggregator == nullptr) return;
  // Not a number, too: no patience.
  if (patience > 0) aggregator->patience = std::chrono::duration<double>(std::min(patience, 1e6));
  std::unique_ptr<sluice_aggregator>{aggregator};
}

sluice_code sluice_port_open(sluice_memory* memory, const char* aggregators, uint64_t job,
                             uint32_t window, double timeout, int bell, sluice_port** port) {
  return call({__func__}, [&]() -> Verdict {
    SLUICE_TRY(check_pointers({{memory, "memory"}, {aggregators, "aggregators"}, {port, "port"}}));
    constexpr double kSecondsMax = 86400;
    if (!(timeout > 0 && timeout <= kSecondsMax)) {
      return invalid(
          fmt::format("timeout {}; accepted: above 0, at most {}", timeout, kSecondsMax));
    }
    const auto longest = std::chrono::duration_cast<std::chrono::nanoseconds>(
        std::chrono::duration<double>(timeout));
    const sluice::GroupOptions& options = memory->worker->memory->options();
    SLUICE_TRY_ASSIGN(auto opened, sluice::stream::open_port({.rank = options.rank,
                                                              .workers = options.workers,
                                                              .window = window,
                                                              .job = job,
                                                              .aggregators = aggregators,
                                                              .timeout = longest,
                                                              .bell = bell}));
    *port =
        std::make_unique<sluice_port>(memory->worker, std::move(opened), window, longest).release();
    return Nothing{};
  });
}

void sluice_port_free(sluice_port* port) { std::unique_ptr<sluice_port>{port}; }

sluice_code sluice_port_run(sluice_port* port, const sluice_order* order, const sluice_job* jobs,
                            size_t job_count) {
  return call({__func__}, [&]() -> Verdict {
    SLUICE_TRY(check_pointers({{port, "port"}}));
    SLUICE_TRY_ASSIGN(const auto wanted, sluice::abi::order_from(order));
    SLUICE_TRY_ASSIGN(const auto parsed, sluice::abi::jobs_from(jobs, job_count));
    Attempt attempt(*port);
    Verdict ran = port->convoy.run(wanted, parsed, port->timeout);
    attempt.ended();
    if (!ran && port->convoy.is_dead()) return sluice::abi::fatal(ran.error());
    return ran;
  });
}

sluice_code sluice_port_report(const sluice_port* port, sluice_report* report) {
  return call({__func__}, [&]() -> Verdict {
    SLUICE_TRY(check_pointers({{port, "port"}}));
    return sluice::abi::write_sized("report", sluice::abi::report_from(port->convoy.report()),
                                    report);
  });
}

size_t sluice_port_probes(const sluice_port* port, sluice_probe* probes, size_t capacity) {
  return port == nullptr ? 0 : sluice::abi::probes_from(port->convoy.report(), probes, capacity);
}

sluice_code sluice_port_traffic(const sluice_port* port, sluice_traffic* traffic) {
  return call({__func__}, [&]() -> Verdict {
    SLUICE_TRY(check_pointers({{port, "port"}}));
    const auto counted = port->port->counters();
    const sluice_traffic shown{sizeof(sluice_traffic), counted.sent_bytes, counted.received_bytes,
                               counted.retransmits};
    return sluice::abi::write_sized("traffic", shown, traffic);
  });
}

}  // extern "C"
