// stream_echo: what the protocol costs. Carrier `stream` and two UDP echoes of datagrams of the
// same size, one plain and one through the carrier's sockets code, alternately in one run over
// loopback: machines are shared and noisy, so the ratios are what counts.
#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "bench/stream_echo/run.h"
#include "protocol/assembly.h"
#include "wire/frame.h"

namespace sluice::bench {
namespace {

struct Kind {
  const char* name;
  Checked<Run> (*run)(const Workload& workload);
};

constexpr std::array kKinds{Kind{"plain", &run_plain}, Kind{"trains", &run_trains},
                            Kind{"ours", &run_reduce}};
enum : std::size_t { kPlain, kTrains, kOurs };  // of kKinds

// What is printed of a run.
struct Figures {
  double rate = 0;         // million elements per second and worker
  double rate_by_cpu = 0;  // million elements of all workers per second of the server's thread
  double gigabits = 0;     // per second, of datagrams up and down
};

Figures figures_of(const Workload& workload, const Run& run) {
  const double elements = 1e-6 * static_cast<double>(workload.elements());
  return {elements / run.seconds, elements * workload.workers / run.server_seconds,
          8e-9 * static_cast<double>(run.bytes) / run.seconds};
}

// Run by run, since a machine's noise lasts longer than one.
std::vector<Figures> ratios_of(const std::vector<Figures>& ours, const std::vector<Figures>& echo) {
  std::vector<Figures> ratios;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    ratios.push_back({ours[i].rate / echo[i].rate, ours[i].rate_by_cpu / echo[i].rate_by_cpu,
                      ours[i].gigabits / echo[i].gigabits});
  }
  return ratios;
}

std::string spread_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  const double median = (values[(values.size() - 1) / 2] + values[half]) / 2;
  return fmt::format("{:.4g} ({:.4g} to {:.4g})", median, values.front(), values.back());
}

void print_run(std::uint32_t number, const char* what, const Figures& figures, const Run& run) {
  fmt::print("{:>7}  {:<12}{:>27.1f}{:>27.1f}{:>27.2f}{:>10.1f}{:>8}\n", number, what,
             figures.rate, figures.rate_by_cpu, figures.gigabits,
             static_cast<double>(run.bytes) / static_cast<double>(run.datagrams), run.again);
  std::fflush(stdout);
}

void print_spread(const char* what, const std::vector<Figures>& runs) {
  std::vector<std::vector<double>> columns(3);
  for (const Figures& one : runs) {
    columns[0].push_back(one.rate);
    columns[1].push_back(one.rate_by_cpu);
    columns[2].push_back(one.gigabits);
  }
  fmt::print("{:>7}  {:<12}{:>27}{:>27}{:>27}\n", "median", what, spread_of(columns[0]),
             spread_of(columns[1]), spread_of(columns[2]));
}

int failed(const char* what, const Problem& problem) {
  fmt::print(stderr, "stream_echo: {}: {}\n", what, problem.message);
  return 1;
}

void print_head(const Workload& workload) {
  fmt::print(
      "# stream_echo: {} workers, datagrams of up to {} bytes, {} elements of 32 bits per worker\n"
      "# plain: UDP echo, one recvfrom and one sendto per datagram; window {}\n"
      "# trains: UDP echo through the carrier's sockets code (recvmmsg, sendmmsg, GSO, GRO); "
      "window {}\n"
      "# ours: carrier stream, wrap_sum{{32}}, tickets of {} elements, sums checked\n"
      "# per server CPU s: elements of all workers per second of the server's thread\n"
      "# Gb/s: datagrams up and down, without their UDP and IP headers\n"
      "{:>7}  {:<12}{:>27}{:>27}{:>27}{:>10}{:>8}\n",
      workload.workers, workload.frame, workload.elements(), workload.window, workload.window,
      kLanes, "run", "", "M elements/s per worker", "M elements/server CPU s", "Gb/s", "B/frame",
      "again");
}

int measure(const Workload& workload, std::uint32_t runs) {
  print_head(workload);
  std::array<std::vector<Figures>, kKinds.size()> figures;
  for (std::uint32_t i = 1; i <= runs; ++i) {
    for (std::size_t kind = 0; kind < kKinds.size(); ++kind) {
      const auto run = kKinds[kind].run(workload);
      if (!run) return failed(kKinds[kind].name, run.error());
      figures[kind].push_back(figures_of(workload, *run));
      print_run(i, kKinds[kind].name, figures[kind].back(), *run);
    }
  }
  for (std::size_t kind = 0; kind < kKinds.size(); ++kind) {
    print_spread(kKinds[kind].name, figures[kind]);
  }
  print_spread("ours/plain", ratios_of(figures[kOurs], figures[kPlain]));
  print_spread("ours/trains", ratios_of(figures[kOurs], figures[kTrains]));
  return 0;
}

int run(int argc, char** argv) {
  CLI::App app("Carrier stream beside UDP echoes of datagrams of the same size, on loopback");
  Workload workload;
  std::uint32_t runs = 3;
  const std::uint32_t frame_min = wire::kHeaderSize + protocol::kPayloadMin;
  app.add_option("--workers", workload.workers, "threads, each with a socket")
      ->check(CLI::Range(1u, 64u))
      ->capture_default_str();
  app.add_option("--frame", workload.frame, "bytes of a datagram")
      ->check(CLI::Range(frame_min, 8952u))
      ->capture_default_str();
  app.add_option("--window", workload.window, "datagrams on their way, per worker of an echo")
      ->check(CLI::Range(1u, 4096u))
      ->capture_default_str();
  app.add_option("--tickets", workload.tickets, "of 65536 elements, per worker and run")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 20))
      ->capture_default_str();
  app.add_option("--runs", runs, "of each, alternating")
      ->check(CLI::Range(1u, 1000u))
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  return measure(workload, runs);
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  try {
    return sluice::bench::run(argc, argv);
  } catch (const std::exception& error) {
    std::fputs(error.what(), stderr);
    return 1;
  }
}
