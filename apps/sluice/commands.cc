#include "commands.h"

#include <fmt/format.h>

#include <charconv>
#include <memory>

#include "kernels/level.h"
#include "terminal.h"

namespace sluice::cli {
namespace {

constexpr int kExitFailure = 1;
constexpr int kExitUsage = 2;

int exit_status(const Problem& problem) {
  complain(problem.message);
  switch (problem.code) {
    case Code::invalid_argument:
    case Code::malformed:
    case Code::io: return kExitUsage;
    default: return kExitFailure;
  }
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

CLI::Validator whole_number() {
  return CLI::Validator(
      [](const std::string& text) {
        std::uint64_t value = 0;
        const char* const end = text.data() + text.size();
        const auto parsed = std::from_chars(text.data(), end, value);
        const bool digits = parsed.ec == std::errc{} && parsed.ptr == end;
        return digits ? std::string()
                      : fmt::format("'{}' is not accepted; accepted: a whole number, 0 to 2^64 - 1",
                                    text.substr(0, 64));
      },
      "", "whole number");
}

int run_command_line(int argc, const char* const* argv) {
  CLI::App app("Sluice: gradients travel compressed and are summed while compressed.", "sluice");
  app.set_version_flag("--version", std::string("sluice ") + SLUICE_VERSION);
  app.require_subcommand(1);
  app.footer(
      "A codec SPEC is a name or name:key=value,key=value; `sluice codecs` lists them.\n"
      "SLUICE_FORCE_KERNEL=scalar|avx2|avx512 pins the kernels; results do not depend on it.");
  Action action;
  add_codecs_command(app, action);
  add_reduce_command(app, action);
  add_bench_command(app, action);
  add_generate_command(app, action);
  add_tables_command(app, action);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kExitUsage;
  }
  if (const Verdict forced = check_forced_level(); !forced) return exit_status(forced.error());
  const Verdict verdict = action();
  return verdict ? 0 : exit_status(verdict.error());
}

}  // namespace sluice::cli
