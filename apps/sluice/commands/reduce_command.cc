// `sluice reduce`: the command around reduce.h.
#include <fmt/format.h>

#include <memory>

#include "apps/sluice/commands/commands.h"
#include "apps/sluice/files/json_file.h"
#include "apps/sluice/files/npy.h"
#include "apps/sluice/files/wire_dump.h"
#include "apps/sluice/process/terminal.h"
#include "apps/sluice/reduce/reduce.h"
#include "catalog/feedbacks.h"

namespace sluice::cli {
namespace {

struct Request {
  std::vector<std::string> specs;
  std::string out;
  std::string json;
  std::string carrier = "local";
  ReduceOptions options;
  std::vector<std::string> files;
};

// What a process can find out by itself.
struct Prepared {
  std::vector<NamedCodec> codecs;
  std::vector<Array> workers;
};

Checked<Prepared> prepare(const Process& process, const Request& request) {
  Prepared prepared;
  SLUICE_TRY_ASSIGN(prepared.codecs, make_codecs(request.specs));
  const std::size_t codecs = prepared.codecs.size();
  if (!request.out.empty() && codecs != 1) {
    return Problem{
        Code::invalid_argument,
        fmt::format("--out {} with {} codecs; accepted: one codec", request.out, codecs)};
  }
  if (const auto& folder = request.options.dump_wire; folder) {
    if (codecs != 1) {
      return Problem{
          Code::invalid_argument,
          fmt::format("--dump-wire {} with {} codecs; accepted: one codec", *folder, codecs)};
    }
    SLUICE_TRY(check_dump_folder(*folder));
  }
  SLUICE_TRY(check_reduce(process, request.options, request.files.size()));
  SLUICE_TRY_ASSIGN(prepared.workers, read_workers(request.files));
  return prepared;
}

Verdict run_here(const Process& process, const Request& request) {
  const Checked<Prepared> prepared = prepare(process, request);
  SLUICE_TRY(process.all_ready(prepared ? Verdict(Nothing{}) : Verdict(prepared.error())));
  std::vector<Reduced> rows;
  std::vector<Json> json;
  for (const NamedCodec& codec : prepared->codecs) {
    SLUICE_TRY_ASSIGN(Reduced reduced, reduce(process, codec, request.options, prepared->workers));
    json.push_back(to_json(reduced));
    rows.push_back(std::move(reduced));
  }
  if (!process.speaks()) return Nothing{};
  if (request.json != "-") print(to_text(rows));
  return first_problem(
      {request.out.empty()
           ? Verdict(Nothing{})
           : write_npy(request.out, prepared->workers.front().shape, rows.front().mean),
       write_json(request.json, as_rows(json))});
}

Verdict run(const Request& request) {
  SLUICE_TRY(check_timeout(request.options.timeout_seconds));
  SLUICE_TRY_ASSIGN(const Process process,
                    enter(request.carrier, std::chrono::seconds(request.options.timeout_seconds)));
  return process.signed_by(run_here(process, request));
}

}  // namespace

void add_reduce_command(Command& program) {
  Command command = program.add_command(
      "reduce", "Reduce one gradient file per worker and report bytes, errors and times");
  const auto request = std::make_shared<Request>();
  command.text("--codec", request->specs, "Codec SPEC, or 'all'; may be given several times")
      .required()
      .one_value_each();
  command.output_file("--out", request->out, "Write the decoded mean here, in the inputs' shape");
  command.output_file_or_stdout("--json", request->json, "Write the figures here (- for stdout)");
  command.output_folder("--dump-wire", request->options.dump_wire,
                        "Write all bytes that cross the carrier, and a manifest, into this folder, "
                        "which is empty or does not exist",
                        &is_dump_file);
  command.number("--seed", request->options.seed, "Job seed of all randomness [0]");
  command.number("--step", request->options.step, "Number of the first step [0]");
  const std::string feedbacks = fmt::format("SPEC: {} [none]", feedbacks_accepted());
  command.text("--feedback", request->options.feedback, feedbacks.c_str());
  command.number("--steps", request->options.steps,
                 "Reduce the same inputs this often, feedback carried over; errors are then "
                 "those of the running average, bytes and rounds the total [1]");
  command
      .number("--drop", request->options.drop,
              "Lose this worker's contribution; may be given several times")
      .one_value_each();
  command.text("--carrier", request->carrier,
               "What runs the rounds: local, or one between processes that a launcher "
               "started, such as mpi [local]");
  command.number("--timeout", request->options.timeout_seconds,
                 "Seconds a step may take before the workers that are missing are named [60]");
  command.text("files", request->files,
               "One .npy per worker: float32 (float16 and float64 are converted), C order, "
               "any shape, the same for all; 1 to 4096 files");
  command.footer(
      "Example:\n"
      "  sluice reduce --codec fixed --out mean.npy --json stats.json w0.npy w1.npy w2.npy\n"
      "  mpirun -n 2 --allow-run-as-root sluice reduce --carrier mpi --codec fixed w0.npy w1.npy\n"
      "nmse is the error energy over the mean of the workers' energies, vnmse over the energy of\n"
      "the true mean; both against the mean of the workers that were counted. Wire bytes are the\n"
      "round payloads of one worker. encode and decode seconds are per worker, reduce seconds the\n"
      "carrier's time to combine all contributions. Between processes each reads all files and\n"
      "reduces its own worker's; worker 0 prints and writes, and the figures are its own.");
  command.action([request] { return run(*request); });
}

}  // namespace sluice::cli
