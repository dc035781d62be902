#include "parser.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdint>
#include <utility>
#include <vector>

namespace sluice::cli {
namespace {

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
  return {*app_.add_subcommand(name, help), chosen_};
}

void Command::require_command() { app_.require_subcommand(1); }

void Command::footer(const char* text) { app_.footer(text); }

void Command::action(Action action) {
  app_.callback([&chosen = chosen_, action = std::move(action)] { chosen = action; });
}

template <class Text>
Option Command::text(const char* names, Text& value, const char* help) {
  return Option(*app_.add_option(names, value, help));
}

template <class Number>
Option Command::number(const char* names, Number& value, const char* help) {
  return Option(*app_.add_option(names, value, help)->check(whole_number()));
}

template Option Command::text(const char*, std::string&, const char*);
template Option Command::text(const char*, std::optional<std::string>&, const char*);
template Option Command::text(const char*, std::vector<std::string>&, const char*);
template Option Command::number(const char*, std::uint32_t&, const char*);
template Option Command::number(const char*, std::uint64_t&, const char*);
template Option Command::number(const char*, std::optional<std::uint32_t>&, const char*);
template Option Command::number(const char*, std::optional<std::uint64_t>&, const char*);
template Option Command::number(const char*, std::vector<std::uint32_t>&, const char*);

Parsed parse(int argc, const char* const* argv, const std::function<void(Command)>& add) {
  CLI::App app("Sluice: gradients travel compressed and are summed while compressed.", "sluice");
  app.set_version_flag("--version", std::string("sluice ") + SLUICE_VERSION);
  Parsed parsed;
  add(Command(app, parsed.action));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    parsed.status = app.exit(error) == 0 ? 0 : kExitUsage;
  }
  return parsed;
}

}  // namespace sluice::cli
