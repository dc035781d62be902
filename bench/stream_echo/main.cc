// stream_echo: what the protocol costs. Carrier `stream` and a plain UDP echo of datagrams of the
// same size, through the same sockets code, alternately in one run over loopback: machines are
// shared and noisy, so the ratio is what counts.
#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "bench/stream_echo/run.h"
#include "protocol/assembly.h"
#include "wire/frame.h"

namespace sluice::bench {
namespace {

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

Figures ratio_of(const Figures& ours, const Figures& echo) {
  return {ours.rate / echo.rate, ours.rate_by_cpu / echo.rate_by_cpu,
          ours.gigabits / echo.gigabits};
}

std::string spread_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  const double median = (values[(values.size() - 1) / 2] + values[half]) / 2;
  return fmt::format("{:.4g} ({:.4g} to {:.4g})", median, values.front(), values.back());
}

void print_run(std::uint32_t number, const char* what, const Figures& figures, const Run& run) {
  fmt::print("{:>7}  {:<6}{:>27.1f}{:>27.1f}{:>27.2f}{:>10.1f}{:>8}\n", number, what,
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
  fmt::print("{:>7}  {:<6}{:>27}{:>27}{:>27}\n", "median", what, spread_of(columns[0]),
             spread_of(columns[1]), spread_of(columns[2]));
}

int failed(const char* what, const Problem& problem) {
  fmt::print(stderr, "stream_echo: {}: {}\n", what, problem.message);
  return 1;
}

int measure(const Workload& workload, std::uint32_t runs) {
  fmt::print(
      "# stream_echo: {} workers, datagrams of up to {} bytes, {} elements of 32 bits per worker;\n"
      "# echo: window {}; ours: wrap_sum{{32}}, tickets of {} elements, sums checked\n"
      "# per server CPU s: elements of all workers per second of the server's thread\n"
      "# Gb/s: datagrams up and down, without their UDP and IP headers\n"
      "{:>7}  {:<6}{:>27}{:>27}{:>27}{:>10}{:>8}\n",
      workload.workers, workload.frame, workload.elements(), workload.window, kLanes, "run", "",
      "M elements/s per worker", "M elements/server CPU s", "Gb/s", "B/frame", "again");
  std::vector<Figures> echoes;
  std::vector<Figures> reductions;
  std::vector<Figures> ratios;
  for (std::uint32_t i = 1; i <= runs; ++i) {
    const auto echo = run_echo(workload);
    if (!echo) return failed("echo", echo.error());
    echoes.push_back(figures_of(workload, *echo));
    print_run(i, "echo", echoes.back(), *echo);
    const auto ours = run_reduce(workload);
    if (!ours) return failed("ours", ours.error());
    reductions.push_back(figures_of(workload, *ours));
    print_run(i, "ours", reductions.back(), *ours);
    ratios.push_back(ratio_of(reductions.back(), echoes.back()));
  }
  print_spread("echo", echoes);
  print_spread("ours", reductions);
  print_spread("ratio", ratios);
  return 0;
}

int run(int argc, char** argv) {
  CLI::App app("Carrier stream beside a plain UDP echo of datagrams of the same size, on loopback");
  Workload workload;
  std::uint32_t runs = 3;
  const std::uint32_t frame_min = wire::kHeaderSize + protocol::kPayloadMin;
  app.add_option("--workers", workload.workers, "threads, each with a socket")
      ->check(CLI::Range(1u, 64u))
      ->capture_default_str();
  app.add_option("--frame", workload.frame, "bytes of a datagram")
      ->check(CLI::Range(frame_min, 8952u))
      ->capture_default_str();
  app.add_option("--window", workload.window, "datagrams on their way, per worker of the echo")
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
