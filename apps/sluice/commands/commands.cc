#include "apps/sluice/commands/commands.h"

#include <fmt/format.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "apps/sluice/process/memory_limit.h"
#include "apps/sluice/process/terminal.h"
#include "kernels/level.h"

namespace sluice::cli {
namespace {

constexpr int kExitFailure = 1;
constexpr int kExitBrokenPipe = 128 + SIGPIPE;  // as if the signal had ended it

int exit_status(const Problem& problem) {
  const bool is_said =
      problem.code != Code::out_of_memory || problem.message.starts_with(kOutOfMemory);
  complain(is_said ? problem.message : fmt::format("{}: {}", kOutOfMemory, problem.message));
  switch (problem.code) {
    case Code::invalid_argument:
    case Code::out_of_memory:
    case Code::malformed:
    case Code::io: return kExitUsage;
    default: return kExitFailure;
  }
}

void add_commands(Command program) {
  program.require_command();
  program.footer(
      "A codec SPEC is a name or name:key=value,key=value; `sluice codecs` lists them.\n"
      "SLUICE_FORCE_KERNEL=scalar|avx2|avx512 pins the kernels; results do not depend on it.\n"
      "Exit status: 0; 2 for a mistake, a file that cannot be read or written, or too little\n"
      "memory; 141 where the reader of standard output went away; 1 for anything else, such as\n"
      "a network that fails, workers that are missing or results that are wrong.");
  add_codecs_command(program);
  add_reduce_command(program);
  add_bench_command(program);
  add_generate_command(program);
  add_tables_command(program);
}

}  // namespace

Checked<std::vector<NamedCodec>> make_codecs(const std::vector<std::string>& specs) {
  std::vector<NamedCodec> codecs;
  for (const std::string& spec : specs) {
    if (spec == "all") {
      for (const Info& info : kCodecs) {
        SLUICE_TRY_ASSIGN(auto codec, make_codec(info.name));
        codecs.push_back(std::move(codec));
      }
      continue;
    }
    SLUICE_TRY_ASSIGN(auto codec, make_codec(spec));
    codecs.push_back(std::move(codec));
  }
  return codecs;
}

namespace {

int parse_and_run(int argc, const char* const* argv) {
  const Parsed parsed = parse(argc, argv, &add_commands);
  if (parsed.status) return *parsed.status;
  if (const Verdict forced = check_forced_level(); !forced) return exit_status(forced.error());
  const Verdict verdict = with_memory("", parsed.action);
  return verdict ? 0 : exit_status(verdict.error());
}

}  // namespace

int run_command_line(int argc, const char* const* argv) {
  prepare_standard_streams();
  end_threads_without_memory(kExitUsage);
  const int status = parse_and_run(argc, argv);
  const int error = flush_printed();
  if (status != 0 || error == 0) return status;
  if (error == EPIPE) return kExitBrokenPipe;  // whoever read it has seen enough
  return exit_status(Problem{
      Code::io, fmt::format("standard output: cannot be written: {}", std::strerror(error))});
}

}  // namespace sluice::cli
