// `sluice bench`: the commands around the measurements.
#include <memory>

#include "bench_codec.h"
#include "commands.h"
#include "json_file.h"
#include "terminal.h"

namespace sluice::cli {
namespace {

struct Request {
  std::vector<std::string> specs;
  std::string json;
  BenchOptions options;
};

Verdict run(const Request& request) {
  const std::vector<std::string> canonical{"all"};
  SLUICE_TRY_ASSIGN(const auto codecs,
                    make_codecs(request.specs.empty() ? canonical : request.specs));
  SLUICE_TRY_ASSIGN(const auto rows, bench_codecs(codecs, request.options));
  std::vector<Json> json;
  json.reserve(rows.size());
  for (const BenchRow& row : rows) json.push_back(to_json(row));
  if (request.json != "-") print(to_text(rows));
  return write_json(request.json, as_rows(json));
}

}  // namespace

void add_bench_command(CLI::App& app, Action& action) {
  CLI::App* const bench = app.add_subcommand("bench", "Measure speed, always against memcpy");
  bench->require_subcommand(1);
  CLI::App* const command = bench->add_subcommand(
      "codec", "Encode, combine and decode in GB/s of float32 gradient, and ÷ memcpy");
  const auto request = std::make_shared<Request>();
  command->add_option("--codec", request->specs, "Codec SPECs [all]");
  command->add_option("--count", request->options.count, "Coordinates [16777216: 64 MiB]")
      ->check(whole_number());
  command->add_option("--threads", request->options.threads, "Share the coordinates among [1]")
      ->check(whole_number());
  command->add_option("--workers", request->options.workers, "Contributions to combine [4]")
      ->check(whole_number());
  command->add_option("--kernel", request->options.kernel, "scalar, avx2, avx512 or best [best]");
  command->add_option("--repetitions", request->options.repetitions, "Of which the median [9]")
      ->check(whole_number());
  command
      ->add_option("--chunk", request->options.chunk,
                   "Coordinates per chunk, fitted to the codec's plan [65536]")
      ->check(whole_number());
  command->add_option("--feedback", request->options.feedback,
                      "none, or ef: a residual is carried, encode and decode include it [none]");
  command->add_option(
      "--data", request->options.data,
      "uniform in [-1, 1); normal; layers: normal, each 4096 of another scale [uniform]");
  command->add_option("--json", request->json, "Write the figures here (- for stdout)");
  command->footer(
      "Without options: the canonical workload. Repetitions of all codecs and of memcpy take\n"
      "turns; figures are medians of wall time. encode is everything between gradient and bytes,\n"
      "combine is adding one worker's bytes, decode is everything from the answer to the mean.\n"
      "A repetition is a training step: codec state and residual are carried to the next one.\n"
      "Only worker 0 is timed; its gradients are read from end to end, the other workers' from\n"
      "1 MiB each, again and again, as they would not pass through worker 0's caches either.");
  command->callback([&action, request] { action = [request] { return run(*request); }; });
}

}  // namespace sluice::cli
