// The C functions over aggregators and ports: one worker's end of a carrier.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <future>
#include <string>
#include <thread>
#include <utility>

#include "abi/edge.h"
#include "abi/port_handle.h"
#include "carrier/stream/servers.h"
#include "carrier/stream/stream.h"

using sluice::Nothing;
using sluice::Verdict;
using sluice::abi::call;
using sluice::abi::check_pointers;
using sluice::abi::invalid;
using sluice::abi::PortEnd;

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

namespace {

sluice::Checked<std::chrono::nanoseconds> timeout_from(double seconds) {
  constexpr double kSecondsMax = 86400;
  if (!(seconds > 0 && seconds <= kSecondsMax)) {
    return invalid(fmt::format("timeout {}; accepted: above 0, at most {}", seconds, kSecondsMax));
  }
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>(seconds));
}

constexpr std::uint64_t kWaveMax = std::uint64_t{1} << 32;

Verdict check_calls(const sluice_collectives& calls) {
  const std::array<std::pair<bool, const char*>, 4> given{{{calls.reserve != nullptr, "reserve"},
                                                           {calls.start != nullptr, "start"},
                                                           {calls.test != nullptr, "test"},
                                                           {calls.wait != nullptr, "wait"}}};
  for (const auto& [is_given, name] : given) {
    if (!is_given) {
      return invalid(fmt::format("collectives.{} is NULL; accepted: a function", name));
    }
  }
  return Nothing{};
}

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
    SLUICE_TRY_ASSIGN(const auto longest, timeout_from(timeout));
    const sluice::GroupOptions& options = memory->worker->memory->options();
    SLUICE_TRY_ASSIGN(auto opened, sluice::stream::open_port({.rank = options.rank,
                                                              .workers = options.workers,
                                                              .window = window,
                                                              .job = job,
                                                              .aggregators = aggregators,
                                                              .timeout = longest,
                                                              .bell = bell}));
    auto end = std::make_shared<PortEnd>(memory->worker, std::move(opened), window, longest);
    *port = std::make_unique<sluice_port>(std::move(end)).release();
    return Nothing{};
  });
}

sluice_code sluice_port_over(sluice_memory* memory, const sluice_collectives* collectives,
                             double timeout, sluice_port** port) {
  return call({__func__}, [&]() -> Verdict {
    SLUICE_TRY(check_pointers({{memory, "memory"}, {port, "port"}}));
    SLUICE_TRY_ASSIGN(const auto calls, sluice::abi::read_sized("collectives", collectives));
    SLUICE_TRY(check_calls(calls));
    SLUICE_TRY_ASSIGN(const auto longest, timeout_from(timeout));
    auto end = std::make_shared<PortEnd>(memory->worker, calls, longest);
    *port = std::make_unique<sluice_port>(std::move(end)).release();
    return Nothing{};
  });
}

sluice_code sluice_port_over_device(sluice_memory* memory, const sluice_collectives* collectives,
                                    void* stream, uint32_t carries_device, uint64_t wave,
                                    double timeout, sluice_port** port) {
  return call({__func__}, [&]() -> Verdict {
    SLUICE_TRY(check_pointers({{memory, "memory"}, {port, "port"}}));
    SLUICE_TRY_ASSIGN(const auto calls, sluice::abi::read_sized("collectives", collectives));
    SLUICE_TRY(check_calls(calls));
    SLUICE_TRY_ASSIGN(const auto longest, timeout_from(timeout));
    if (memory->worker->device == nullptr) {
      return invalid("the memory has no device; accepted: one made with options.device");
    }
    if (carries_device > 1) {
      return invalid(fmt::format("carries_device is {}; accepted: 0 or 1", carries_device));
    }
    if (wave < 1 || wave > kWaveMax) {
      return invalid(fmt::format("wave is {}; accepted: 1 to 2^32", wave));
    }
    auto end = std::make_shared<PortEnd>(memory->worker, calls, stream, carries_device == 1, wave,
                                         longest);
    SLUICE_TRY(end->reserve());
    *port = std::make_unique<sluice_port>(std::move(end)).release();
    return Nothing{};
  });
}

sluice_code sluice_port_reserve(sluice_port* port) {
  return call({__func__}, [&]() -> Verdict {
    SLUICE_TRY(check_pointers({{port, "port"}}));
    PortEnd& end = *port->end;
    if (!end.has_device()) return invalid("port: it has no device; accepted: one over a device");
    SLUICE_TRY(sluice::abi::check_idle(*end.worker(), "sluice_port_reserve"));
    if (end.driver().is_dead()) {
      return sluice::Problem{sluice::Code::unavailable,
                             "port: it failed before; accepted: a new port"};
    }
    return end.reserve();
  });
}

sluice_code sluice_port_stop(sluice_port* port) {
  return call({__func__}, [&]() -> Verdict {
    SLUICE_TRY(check_pointers({{port, "port"}}));
    const sluice::Status stopped = port->end->stop();
    if (!stopped) return sluice::Problem{stopped.error().code, stopped.error().what};
    return Nothing{};
  });
}

sluice_code sluice_port_device_counts(const sluice_port* port, sluice_device_counts* counts) {
  return call({__func__}, [&]() -> Verdict {
    SLUICE_TRY(check_pointers({{port, "port"}}));
    return sluice::abi::write_sized("counts", port->end->device_counts(), counts);
  });
}

void sluice_port_free(sluice_port* port) { std::unique_ptr<sluice_port>{port}; }

sluice_code sluice_port_run(sluice_port* port, const sluice_order* order,
                            const sluice_entry* entries, size_t entry_count) {
  return call({__func__}, [&]() -> Verdict {
    SLUICE_TRY(check_pointers({{port, "port"}}));
    SLUICE_TRY_ASSIGN(const auto wanted, sluice::abi::order_from(order));
    SLUICE_TRY_ASSIGN(const auto parsed, sluice::abi::entries_from(entries, entry_count));
    return port->end->run(wanted, parsed);
  });
}

sluice_code sluice_port_report(const sluice_port* port, sluice_report* report) {
  return call({__func__}, [&]() -> Verdict {
    SLUICE_TRY(check_pointers({{port, "port"}}));
    return sluice::abi::write_sized("report", port->end->report(), report);
  });
}

size_t sluice_port_probes(const sluice_port* port, sluice_probe* probes, size_t capacity) {
  if (port == nullptr) return 0;
  const auto found = port->end->probes();
  const std::size_t count = probes == nullptr ? 0 : std::min(found.size(), capacity);
  std::copy_n(found.begin(), count, probes);
  return found.size();
}

sluice_code sluice_port_traffic(const sluice_port* port, sluice_traffic* traffic) {
  return call({__func__}, [&]() -> Verdict {
    SLUICE_TRY(check_pointers({{port, "port"}}));
    return sluice::abi::write_sized("traffic", port->end->traffic(), traffic);
  });
}

}  // extern "C"
