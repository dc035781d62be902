#include "apps/sluice/commands/parser.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdint>
#include <limits>
#include <sstream>
#include <utility>
#include <vector>

#include "apps/sluice/process/terminal.h"

namespace sluice::cli {
namespace {

constexpr std::size_t kShownMax = 64;  // letters of a value in a message

CLI::Validator whole_number(std::uint64_t most) {
  return CLI::Validator(
      [most](const std::string& text) {
        std::uint64_t value = 0;
        const char* const end = text.data() + text.size();
        const auto parsed = std::from_chars(text.data(), end, value);
        const bool digits = parsed.ec == std::errc{} && parsed.ptr == end && value <= most;
        return digits ? std::string()
                      : fmt::format("'{}' is not accepted; accepted: a whole number, 0 to {}",
                                    text.substr(0, kShownMax), most);
      },
      "", "whole number");
}

// The type of one number of a value, which may be optional or a list.
template <class Number>
struct One {
  using type = Number;
};
template <class Number>
struct One<std::optional<Number>> {
  using type = Number;
};
template <class Number>
struct One<std::vector<Number>> {
  using type = Number;
};

// The command that was being parsed.
const CLI::App& innermost(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  return chosen.empty() ? app : innermost(*chosen.back());
}

std::string commands_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* one : app.get_subcommands({})) names.push_back(one->get_name());
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string flags_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* one : app.get_options()) {
    if (!one->get_positional()) names.push_back(one->get_name(false, true));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string unknown(const CLI::App& at, const std::string& argument) {
  const std::string shown = argument.substr(0, kShownMax);
  if (argument.starts_with('-')) {
    return fmt::format("unknown option '{}'; accepted: {}", shown, flags_of(at));
  }
  if (!at.get_subcommands({}).empty()) {
    return fmt::format("unknown command '{}'; accepted: {}", shown, commands_of(at));
  }
  return fmt::format("argument '{}' is not expected; accepted: options, {}", shown, flags_of(at));
}

// Of an option that got too many values, or none.
std::string wrong_number(const CLI::App& at, const std::string& said) {
  const std::string name = said.substr(0, said.find(':'));
  const CLI::Option* const option = at.get_option_no_throw(name);
  if (option == nullptr) return said;
  const auto& values = option->results();
  if (values.size() < 2) {
    return fmt::format("{} has no value; accepted: {} {}", name, name, option->get_type_name());
  }
  return fmt::format("{} is given {} times, '{}' and '{}'; accepted: once", name, values.size(),
                     values[0].substr(0, kShownMax), values[1].substr(0, kShownMax));
}

// Of an option without which a command does nothing: "--out is required".
std::string missing(const CLI::App& at, const std::string& said) {
  const std::string name = said.substr(0, said.find(' '));
  const CLI::Option* const option = at.get_option_no_throw(name);
  if (option == nullptr) return said;
  return fmt::format("{} is missing; accepted: {} {}", name, name, option->get_type_name());
}

// "bench codec", without the program's own name.
std::string path_of(const CLI::App& app) {
  const CLI::App* const parent = app.get_parent();
  if (parent == nullptr) return "";
  const std::string before = path_of(*parent);
  return before.empty() ? app.get_name() : fmt::format("{} {}", before, app.get_name());
}

// One line that names the value and what would be accepted.
std::string mistake(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& at = innermost(app);
  const auto extra = app.remaining(true);
  std::string text = error.what();
  switch (static_cast<CLI::ExitCodes>(error.get_exit_code())) {
    case CLI::ExitCodes::RequiredError:
    case CLI::ExitCodes::ExtrasError:
      if (!extra.empty()) {
        text = unknown(at, extra.front());
      } else if (!at.get_subcommands({}).empty()) {
        text = fmt::format("a command is missing; accepted: {}", commands_of(at));
      } else {
        text = missing(at, text);
      }
      break;
    case CLI::ExitCodes::ArgumentMismatch: text = wrong_number(at, text); break;
    default: break;
  }
  return &at == &app ? text : fmt::format("{}: {}", path_of(at), text);
}

std::vector<NamedOutput> given(const std::vector<OutputOption>& outputs) {
  std::vector<NamedOutput> named;
  for (const OutputOption& one : outputs) {
    if (one.option->count() == 0) continue;
    named.push_back(
        {one.option->get_name(), one.option->results().front(), one.writes, one.takes_dash});
  }
  return named;
}

}  // namespace

Option& Option::required() {
  option_.required();
  return *this;
}

Option& Option::one_value_each() {
  option_.allow_extra_args(false);
  return *this;
}

Command Command::add_command(const char* name, const char* help) {
  return {*app_.add_subcommand(name, help), plans_};
}

void Command::require_command() { app_.require_subcommand(1); }

void Command::footer(const char* text) { app_.footer(text); }

void Command::action(Action action) {
  app_.callback([&plans = plans_, action = std::move(action)] { plans.chosen = action; });
}

template <class Text>
Option Command::text(const char* names, Text& value, const char* help) {
  return Option(*app_.add_option(names, value, help));
}

template <class Number>
Option Command::number(const char* names, Number& value, const char* help) {
  constexpr std::uint64_t kMost = std::numeric_limits<typename One<Number>::type>::max();
  return Option(*app_.add_option(names, value, help)->check(whole_number(kMost)));
}

template <class Text>
Option Command::output(const char* names, Text& value, const char* help, WritesName writes) {
  CLI::Option* const option = app_.add_option(names, value, help);
  option->type_name(writes == nullptr ? "FILE" : "FOLDER");
  plans_.outputs.push_back({option, writes});
  return Option(*option);
}

Option Command::output_file_or_stdout(const char* names, std::string& value, const char* help) {
  const Option option = output(names, value, help, nullptr);
  plans_.outputs.back().takes_dash = true;
  return option;
}

template Option Command::text(const char*, std::string&, const char*);
template Option Command::text(const char*, std::optional<std::string>&, const char*);
template Option Command::text(const char*, std::vector<std::string>&, const char*);
template Option Command::output(const char*, std::string&, const char*, WritesName);
template Option Command::output(const char*, std::optional<std::string>&, const char*, WritesName);
template Option Command::number(const char*, std::uint32_t&, const char*);
template Option Command::number(const char*, std::uint64_t&, const char*);
template Option Command::number(const char*, std::optional<std::uint32_t>&, const char*);
template Option Command::number(const char*, std::optional<std::uint64_t>&, const char*);
template Option Command::number(const char*, std::vector<std::uint32_t>&, const char*);

Parsed parse(int argc, const char* const* argv, const std::function<void(Command)>& add) {
  CLI::App app("Sluice: gradients travel compressed and are summed while compressed.", "sluice");
  app.set_version_flag("--version", std::string("sluice ") + SLUICE_VERSION);
  Parsed parsed;
  Plans plans;
  add(Command(app, plans));
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked) {
    std::ostringstream text;
    app.exit(asked, text, text);
    print(text.str());
    parsed.status = 0;
    return parsed;
  } catch (const CLI::ParseError& error) {
    complain(mistake(app, error));
    parsed.status = kExitUsage;
    return parsed;
  }
  if (const Verdict different = check_outputs(given(plans.outputs)); !different) {
    complain(different.error().message);
    parsed.status = kExitUsage;
  }
  parsed.action = std::move(plans.chosen);
  return parsed;
}

}  // namespace sluice::cli
