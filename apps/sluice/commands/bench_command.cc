// `sluice bench`: the commands around the measurements.
#include <fmt/format.h>

#include <memory>
#include <optional>

#include "apps/sluice/bench/allreduce_table.h"
#include "apps/sluice/bench/bench_allreduce.h"
#include "apps/sluice/bench/bench_codec.h"
#include "apps/sluice/bench/bench_lossless.h"
#include "apps/sluice/bench/lossless_table.h"
#include "apps/sluice/commands/commands.h"
#include "apps/sluice/files/json_file.h"
#include "apps/sluice/process/process.h"
#include "apps/sluice/process/terminal.h"
#include "catalog/feedbacks.h"

namespace sluice::cli {
namespace {

struct CodecRequest {
  std::vector<std::string> specs;
  std::string json;
  BenchOptions options;
};

Verdict run(const CodecRequest& request) {
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

struct AllreduceRequest {
  std::vector<std::string> specs;
  std::string json;
  std::string carrier = "local";
  std::string bytes_min = "32M";
  std::string bytes_max;  // empty: as bytes_min
  std::uint64_t check = 1;
  std::string type = "float";
  std::string redop = "avg";
  std::string data = "normal";
  std::optional<std::uint32_t> workers;
  AllreduceOptions options;
};

Problem invalid(std::string message) { return Problem{Code::invalid_argument, std::move(message)}; }

Checked<AllreduceOptions> options_of(const Process& process, const AllreduceRequest& request) {
  AllreduceOptions options = request.options;
  SLUICE_TRY_ASSIGN(options.bytes_min, parse_bytes("-b", request.bytes_min));
  options.bytes_max = options.bytes_min;
  if (!request.bytes_max.empty()) {
    SLUICE_TRY_ASSIGN(options.bytes_max, parse_bytes("-e", request.bytes_max));
  }
  SLUICE_TRY_ASSIGN(options.data, parse_data("--data", request.data));
  if (request.check > 1) return invalid(fmt::format("-c {}; accepted: 0, 1", request.check));
  options.check = request.check == 1;
  if (request.type != "float") {
    return invalid(fmt::format("-d '{}'; accepted: float", request.type.substr(0, 64)));
  }
  if (request.redop != "avg") {
    return invalid(fmt::format("-o '{}'; accepted: avg", request.redop.substr(0, 64)));
  }
  if (request.workers) {
    SLUICE_TRY(check_launched(process, *request.workers, "workers (--workers)"));
    options.workers = *request.workers;
  }
  if (process.launched != 0) options.workers = process.launched;
  return options;
}

// What a process can find out by itself.
struct Prepared {
  std::vector<NamedCodec> codecs;
  AllreduceOptions options;
};

Checked<Prepared> prepare(const Process& process, const AllreduceRequest& request) {
  const std::vector<std::string> canonical{"tide:bits=4"};
  Prepared prepared;
  SLUICE_TRY_ASSIGN(prepared.codecs,
                    make_codecs(request.specs.empty() ? canonical : request.specs));
  SLUICE_TRY_ASSIGN(prepared.options, options_of(process, request));
  SLUICE_TRY(check_allreduce(process, prepared.options, prepared.codecs));
  return prepared;
}

Verdict check_right(std::span<const AllreduceRow> rows) {
  const std::uint64_t wrong = wrong_in_all(rows);
  if (wrong == 0) return Nothing{};
  return Problem{Code::mismatch, fmt::format("{} coordinates are wrong", wrong)};
}

Verdict run_here(const Process& process, const AllreduceRequest& request) {
  const Checked<Prepared> prepared = prepare(process, request);
  SLUICE_TRY(process.all_ready(prepared ? Verdict(Nothing{}) : Verdict(prepared.error())));
  const std::vector<NamedCodec>& codecs = prepared->codecs;
  SLUICE_TRY_ASSIGN(const AllreduceBench bench,
                    by_carrier(prepare_allreduce(process, prepared->options, codecs)));
  const bool prints = process.speaks() && request.json != "-";
  if (prints) print(allreduce_header(bench, codecs));
  std::vector<AllreduceRow> rows;
  std::vector<Json> json;
  SLUICE_TRY(by_carrier(bench_allreduce(bench, codecs, [&](const AllreduceRow& row) {
    if (prints) print(to_text(bench, row));
    rows.push_back(row);
    json.push_back(to_json(bench, row));
  })));
  if (!process.speaks()) return Nothing{};
  if (prints) print(allreduce_footer(bench, rows));
  return first_problem({check_right(rows), write_json(request.json, as_rows(json))});
}

Verdict run(const AllreduceRequest& request) {
  SLUICE_TRY(check_timeout(request.options.timeout_seconds));
  SLUICE_TRY_ASSIGN(const Process process,
                    enter(request.carrier, std::chrono::seconds(request.options.timeout_seconds)));
  return process.signed_by(run_here(process, request));
}

struct LosslessRequest {
  std::vector<std::string> specs;
  std::string json;
  std::string svg;
  std::vector<std::string> densities;
  std::vector<std::string> overlaps;
  std::vector<std::uint32_t> workers;
  std::string pattern = "random";
  LosslessOptions options;
};

Checked<LosslessOptions> options_of(const LosslessRequest& request) {
  LosslessOptions options = request.options;
  if (!request.densities.empty()) options.densities.clear();
  for (const std::string& text : request.densities) {
    SLUICE_TRY_ASSIGN(const double density, parse_density("--density", text));
    options.densities.push_back(density);
  }
  if (!request.overlaps.empty()) options.overlaps.clear();
  for (const std::string& text : request.overlaps) {
    SLUICE_TRY_ASSIGN(const Overlap overlap, parse_overlap("--overlap", text));
    options.overlaps.push_back(overlap);
  }
  if (!request.workers.empty()) options.workers = request.workers;
  SLUICE_TRY_ASSIGN(options.pattern, parse_pattern("--pattern", request.pattern));
  return options;
}

Verdict run(const LosslessRequest& request) {
  SLUICE_TRY_ASSIGN(const LosslessOptions options, options_of(request));
  SLUICE_TRY_ASSIGN(auto codecs,
                    make_codecs(request.specs.empty() ? lossless_specs() : request.specs));
  SLUICE_TRY_ASSIGN(const auto rows, bench_lossless(std::move(codecs), options));
  std::vector<Json> json;
  json.reserve(rows.size());
  for (const LosslessRow& row : rows) json.push_back(to_json(row));
  if (request.json != "-") print(to_text(rows));
  return first_problem({check_exact(rows), write_json(request.json, as_rows(json)),
                        write_text(request.svg, to_svg(plot_of(rows)))});
}

void add_codec(Command& bench) {
  Command command = bench.add_command(
      "codec", "Encode, combine and decode in GB/s of float32 gradient, and ÷ memcpy");
  const auto request = std::make_shared<CodecRequest>();
  command.text("--codec", request->specs, "Codec SPECs [all]");
  command.number("--count", request->options.count, "Coordinates [16777216: 64 MiB]");
  command.number("--threads", request->options.threads, "Share the coordinates among [1]");
  command.number("--workers", request->options.workers, "Contributions to combine [4]");
  command.text("--kernel", request->options.kernel, "scalar, avx2, avx512 or best [best]");
  command.number("--repetitions", request->options.repetitions, "Of which the median [9]");
  command.number("--chunk", request->options.chunk,
                 "Coordinates per chunk, fitted to the codec's plan [65536]");
  const std::string feedbacks =
      fmt::format("SPEC: {}; its memories are carried, encode and decode include it [none]",
                  feedbacks_accepted());
  command.text("--feedback", request->options.feedback, feedbacks.c_str());
  command.text("--data", request->options.data,
               "uniform in [-1, 1); normal; layers: normal, each 4096 of another scale; "
               "sparse:DENSITY[,OVERLAP[,PATTERN]] as in bench lossless [uniform]");
  command.output_file_or_stdout("--json", request->json, "Write the figures here (- for stdout)");
  command.footer(
      "Without options: the canonical workload. Repetitions of all codecs and of memcpy take\n"
      "turns; figures are medians of wall time. encode is everything between gradient and bytes,\n"
      "combine is adding one worker's bytes, decode is everything from the answer to the mean.\n"
      "A repetition is a training step: codec state and feedback are carried to the next one.\n"
      "Only worker 0 is timed; its gradients are read from end to end, the other workers' from\n"
      "1 MiB each, again and again, as they would not pass through worker 0's caches either.");
  command.action([request] { return run(*request); });
}

void add_allreduce(Command& bench) {
  Command command = bench.add_command(
      "allreduce", "Whole operations between the workers of a job, in the shape of nccl-tests");
  const auto request = std::make_shared<AllreduceRequest>();
  AllreduceOptions& options = request->options;
  command.text("--carrier", request->carrier, "What runs the rounds, such as mpi [local]");
  command.text("--codec", request->specs, "Codec SPEC, or 'all'; may repeat [tide:bits=4]")
      .one_value_each();
  command.number("--workers", request->workers, "On local; elsewhere as many as were launched [4]");
  command.text("-b,--minbytes", request->bytes_min,
               "Smallest gradient: bytes of float32, with K, M or G [32M]");
  command.text("-e,--maxbytes", request->bytes_max, "Largest gradient [as -b]");
  command.number("-f,--stepfactor", options.factor, "From a size to the next [2]");
  command.number("-n,--iters", options.iterations, "Operations that are timed, of each kind [20]");
  command.number("-w,--warmup_iters", options.warmup, "Operations before them [5]");
  command.number(
      "-c,--check", request->check,
      "1: check results, which takes 2 · workers · size more memory in every process; 0: do "
      "not, #wrong and vnmse are N/A [1]");
  command.text("-d,--datatype", request->type, "float [float]");
  command.text("-o,--op", request->redop, "avg [avg]");
  command.number("--seed", options.seed, "Of gradients and codecs [0]");
  command.text("--data", request->data,
               "uniform, normal, layers or sparse:DENSITY[,OVERLAP[,PATTERN]], as in bench codec "
               "[normal]");
  const std::string feedbacks = fmt::format("SPEC: {} [none]", feedbacks_accepted());
  command.text("--feedback", options.feedback, feedbacks.c_str());
  command.number("--chunk", options.chunk,
                 "Coordinates per chunk, fitted to the codec's plan [65536]");
  command.number("--window", options.window, "Chunks in flight [4]");
  command.number(
      "--timeout", options.timeout_seconds,
      "Seconds an operation may take before the workers that are missing are named [60]");
  command.output_file_or_stdout("--json", request->json, "Write the figures here (- for stdout)");
  command.footer(
      "Example:\n"
      "  mpirun -n 4 --allow-run-as-root --oversubscribe sluice bench allreduce --carrier mpi\n"
      "      --codec tide:bits=4 -b 64K -e 64M -f 4\n"
      "An operation is a training step of one tensor: codec state and feedback are carried to the\n"
      "next. Where the carrier has a float32 all-reduce of its own, it is measured beside the\n"
      "codecs, in rows named plain. The lines above the table say what its columns are; #wrong is\n"
      "0 for every codec on every carrier, or something is broken and the exit status is 1.");
  command.action([request] { return run(*request); });
}

void add_lossless(Command& bench) {
  Command command = bench.add_command(
      "lossless", "Sparse gradients: bytes against dense float32 and its bounds, results, times");
  const auto request = std::make_shared<LosslessRequest>();
  LosslessOptions& options = request->options;
  command
      .text("--codec", request->specs,
            "Codec SPEC, or 'all'; may repeat [lossless, lossless:sum=float, "
            "lossless:index=bitmap, lhc]")
      .one_value_each();
  command.text("--density", request->densities,
               "Share of the coordinates that any worker has, such as 5% or 0.05 [0.1% 1% 5% 10% "
               "20% 50%]");
  command.text("--overlap", request->overlaps,
               "What the workers' supports have in common: identical, independent, disjoint [all]");
  command.number("--workers", request->workers, "1 to 64 [2 8]");
  command.number("--count", options.count, "Coordinates [1048576]");
  command.text("--pattern", request->pattern,
               "What is zero or not as a whole: random: each coordinate; blocks of 256; columns "
               "of a layer of 1024; rows of an embedding of 64 [random]");
  command.number("--repetitions", options.repetitions, "Of which the median [9]");
  command.number("--seed", options.seed, "Of gradients and codecs [0]");
  command.number("--chunk", options.chunk,
                 "Coordinates per chunk, fitted to the codec's plan [65536]");
  command.output_file_or_stdout("--json", request->json, "Write the figures here (- for stdout)");
  command.output_file("--svg", request->svg, "Draw reduction over density here");
  command.footer(
      "Examples:\n"
      "  sluice bench lossless --svg lossless.svg\n"
      "  sluice bench lossless --density 5% --overlap identical --workers 8 --count 16777216 \\\n"
      "    --codec lossless:mode=packed\n"
      "Every density with every overlap and number of workers. Bytes and results are those of "
      "real\n"
      "reductions on carrier local, of a second step; times are those of worker 0 alone, measured\n"
      "as bench codec does, with codec f32 and with reading the gradient in the same run. A\n"
      "gradient of rows or columns is a matrix where its width divides --count. A result of codec\n"
      "lossless that is not exact makes the exit status 1.");
  command.action([request] { return run(*request); });
}

}  // namespace

void add_bench_command(Command& program) {
  Command bench = program.add_command("bench", "Measure speed, against memcpy or float32");
  bench.require_command();
  add_codec(bench);
  add_allreduce(bench);
  add_lossless(bench);
}

}  // namespace sluice::cli
