#include "commands.h"

#include <utility>

#include "kernels/level.h"
#include "terminal.h"

namespace sluice::cli {
namespace {

constexpr int kExitFailure = 1;

int exit_status(const Problem& problem) {
  complain(problem.message);
  switch (problem.code) {
    case Code::invalid_argument:
    case Code::malformed:
    case Code::io: return kExitUsage;
    default: return kExitFailure;
  }
}

void add_commands(Command program) {
  program.require_command();
  program.footer(
      "A codec SPEC is a name or name:key=value,key=value; `sluice codecs` lists them.\n"
      "SLUICE_FORCE_KERNEL=scalar|avx2|avx512 pins the kernels; results do not depend on it.");
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

int run_command_line(int argc, const char* const* argv) {
  const Parsed parsed = parse(argc, argv, &add_commands);
  if (parsed.status) return *parsed.status;
  if (const Verdict forced = check_forced_level(); !forced) return exit_status(forced.error());
  const Verdict verdict = parsed.action();
  return verdict ? 0 : exit_status(verdict.error());
}

}  // namespace sluice::cli
