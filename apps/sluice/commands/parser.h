// Commands and their options. CLI11 does the work, seen by parser.cc alone: its headers cost every
// file that includes them four seconds.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "apps/sluice/files/output_check.h"
#include "base/result.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace sluice::cli {

// What the chosen command does once everything is parsed.
using Action = std::function<Verdict()>;

// An option that was added; lives as long as its command.
class Option {
 public:
  explicit Option(CLI::Option& option) : option_(option) {}

  Option& required();
  Option& one_value_each();  // of a list: the option is repeated, not its values

 private:
  CLI::Option& option_;
};

// An option that names what is written: its value is there after parsing.
struct OutputOption {
  CLI::Option* option = nullptr;
  WritesName writes = nullptr;
  bool takes_dash = false;
};

// What commands leave to be done once everything is parsed.
struct Plans {
  Action chosen;
  std::vector<OutputOption> outputs;
};

// The program or one of its commands; lives as long as the call to parse(). Names are as CLI11 has
// them: "--json", "-b,--minbytes", "files" for what has no flag. Values are written while parsing,
// and keep what they have where nothing is given. They outlive the action. `help` and names are
// copied.
class Command {
 public:
  Command(CLI::App& app, Plans& plans) : app_(app), plans_(plans) {}

  Command add_command(const char* name, const char* help);
  void require_command();  // exactly one of those that were added
  void footer(const char* text);
  // What to do when this command is chosen, once parse() has returned.
  void action(Action action);

  // Text is std::string, or an optional or a vector of it.
  template <class Text>
  Option text(const char* names, Text& value, const char* help);
  // Text that names a file that is written, or a folder in which names are. No two of a command
  // may be the same: output_check.h.
  template <class Text>
  Option output_file(const char* names, Text& value, const char* help) {
    return output(names, value, help, nullptr);
  }
  // The same; "-" is standard output.
  Option output_file_or_stdout(const char* names, std::string& value, const char* help);
  template <class Text>
  Option output_folder(const char* names, Text& value, const char* help, WritesName writes) {
    return output(names, value, help, writes);
  }
  // Number is an unsigned integer of 32 or 64 bits, or an optional or a vector of it. Refuses what
  // is not a plain decimal number: CLI11 alone would wrap -1 to 2^64 - 1.
  template <class Number>
  Option number(const char* names, Number& value, const char* help);

 private:
  template <class Text>
  Option output(const char* names, Text& value, const char* help, WritesName writes);

  CLI::App& app_;
  Plans& plans_;
};

inline constexpr int kExitUsage = 2;

// What parse() found: something to do, or else the status to exit with, everything being said. A
// status goes before an action.
struct Parsed {
  Action action;
  std::optional<int> status;
};

// Calls `add` with the program, to which it adds commands. Status 0 after --help and --version,
// whose text is printed. Status kExitUsage after a mistake: one line on standard error names the
// value and what would be accepted.
Parsed parse(int argc, const char* const* argv, const std::function<void(Command)>& add);

}  // namespace sluice::cli
