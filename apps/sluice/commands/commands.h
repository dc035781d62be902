// The commands of `sluice`. Each adds itself, with its options and what it does when chosen. For
// the first thread of the process.
#pragma once

#include <string>
#include <vector>

#include "apps/sluice/commands/parser.h"
#include "base/result.h"
#include "catalog/codecs.h"

namespace sluice::cli {

void add_codecs_command(Command& program);
void add_reduce_command(Command& program);
void add_bench_command(Command& program);
void add_generate_command(Command& program);
void add_tables_command(Command& program);

// Every SPEC of a command; "all" is the whole catalogue with default options. Fails as make_codec.
Checked<std::vector<NamedCodec>> make_codecs(const std::vector<std::string>& specs);

// Parses and runs, once per process. Gives the exit status:
//
//   0    all is well
//   2    the user's mistake, a bad file, one that cannot be written (standard output too), or too
//        little memory
//   141  whoever read standard output went away; everything else is done
//   1    anything else, such as a carrier that fails
int run_command_line(int argc, const char* const* argv);

}  // namespace sluice::cli
