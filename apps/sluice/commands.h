// The subcommands. Each adds its options to the parser and, when chosen, sets what to run.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "catalog/codecs.h"

namespace sluice::cli {

// What the chosen command does once everything is parsed.
using Action = std::function<Verdict()>;

void add_codecs_command(CLI::App& app, Action& action);
void add_reduce_command(CLI::App& app, Action& action);
void add_bench_command(CLI::App& app, Action& action);
void add_generate_command(CLI::App& app, Action& action);
void add_tables_command(CLI::App& app, Action& action);

// Every SPEC of a command; "all" is the whole catalogue with default options.
Checked<std::vector<NamedCodec>> make_codecs(const std::vector<std::string>& specs);

// Refuses what is not a plain decimal number: the parser alone would wrap -1 to 2^64 - 1.
CLI::Validator whole_number();

// Parses and runs; the process's exit status: 0, 2 for the user's mistake or a bad file, 1 for
// anything else.
int run_command_line(int argc, const char* const* argv);

}  // namespace sluice::cli
