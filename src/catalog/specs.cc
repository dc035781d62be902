#include "catalog/specs.h"

#include <fmt/format.h>

#include <algorithm>
#include <bitset>
#include <charconv>
#include <cmath>
#include <optional>

namespace sluice {
namespace {

constexpr std::size_t kSpecSizeMax = 512;

Problem invalid(std::string message) { return Problem{Code::invalid_argument, std::move(message)}; }

// What a person typed, safe to print: at most 64 bytes of whole characters, control characters
// replaced.
std::string in_quotes(std::string_view text) {
  std::size_t size = std::min<std::size_t>(text.size(), 64);
  while (size < text.size() && (static_cast<unsigned char>(text[size]) & 0xc0) == 0x80 && size > 0)
    --size;
  std::string shown(text.substr(0, size));
  for (char& c : shown) {
    if (static_cast<unsigned char>(c) < 32 || c == 127) c = '?';
  }
  return "'" + shown + (size < text.size() ? "…'" : "'");
}

std::string accepted_range(const OptionInfo& option) {
  switch (option.kind) {
    case OptionInfo::Kind::integer:
      return fmt::format(
          "{} to {}{}", option.minimum, option.maximum,
          option.multiple_of == 1 ? "" : fmt::format(", a multiple of {}", option.multiple_of));
    case OptionInfo::Kind::real: return fmt::format("{} to {}", option.minimum, option.maximum);
    case OptionInfo::Kind::choice: return fmt::format("{}", fmt::join(option.choices, "|"));
  }
  return "";
}

std::optional<double> parse_number(std::string_view text) {
  double value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<double> parse_value(const OptionInfo& option, std::string_view text) {
  if (option.kind == OptionInfo::Kind::choice) {
    for (std::size_t i = 0; i < option.choices.size(); ++i) {
      if (option.choices[i] == text) return static_cast<double>(i);
    }
    return std::nullopt;
  }
  // A real number may be a fraction: probabilities read better as 1/32.
  const std::size_t slash =
      option.kind == OptionInfo::Kind::real ? text.find('/') : std::string_view::npos;
  const std::optional<double> number = parse_number(text.substr(0, slash));
  if (!number) return std::nullopt;
  double value = *number;
  if (slash != std::string_view::npos) {
    const std::optional<double> divisor = parse_number(text.substr(slash + 1));
    if (!divisor || *divisor == 0) return std::nullopt;
    value /= *divisor;
  }
  if (!std::isfinite(value) || value < option.minimum || value > option.maximum) {
    return std::nullopt;
  }
  if (option.kind == OptionInfo::Kind::integer && std::fmod(value, option.multiple_of) != 0) {
    return std::nullopt;
  }
  return value;
}

std::string accepted_options(std::span<const OptionInfo> options) {
  if (options.empty()) return "none";
  std::string all;
  for (const OptionInfo& option : options) {
    all += fmt::format("{}{}", all.empty() ? "" : ", ", describe(option));
  }
  return all;
}

class OptionParser {
 public:
  OptionParser(std::string_view what, const SpecRow& row) : what_(what), row_(row) {
    for (std::size_t i = 0; i < row.options.size(); ++i) {
      values.values[i] = row.options[i].preset;
    }
  }

  Verdict parse(std::string_view assignment) {
    const std::size_t equals = assignment.find('=');
    const std::string_view key = assignment.substr(0, equals);
    for (std::size_t i = 0; i < row_.options.size(); ++i) {
      if (row_.options[i].key != key) continue;
      if (equals == std::string_view::npos) break;
      return set(i, assignment.substr(equals + 1));
    }
    return invalid(fmt::format("{} '{}' has no option {}; accepted: {}", what_, row_.name,
                               in_quotes(assignment), accepted_options(row_.options)));
  }

  OptionValues values;

 private:
  Verdict set(std::size_t index, std::string_view text) {
    const OptionInfo& option = row_.options[index];
    if (given_[index]) {
      return invalid(
          fmt::format("{} '{}': option '{}' is given twice", what_, row_.name, option.key));
    }
    given_[index] = true;
    const std::optional<double> value = parse_value(option, text);
    if (!value) {
      return invalid(fmt::format("{} '{}': {}={} is not accepted; accepted: {}", what_, row_.name,
                                 option.key, in_quotes(text), accepted_range(option)));
    }
    values.values[index] = *value;
    return Nothing{};
  }

  std::string_view what_;
  SpecRow row_;
  std::bitset<kOptionsMax> given_;
};

std::string names_of(std::span<const SpecRow> rows) {
  std::string names;
  for (const SpecRow& row : rows) names += fmt::format("{}{}", names.empty() ? "" : ", ", row.name);
  return names;
}

}  // namespace

std::string text_of(const OptionInfo& option, double value) {
  return option.kind == OptionInfo::Kind::choice
             ? std::string(option.choices[static_cast<std::size_t>(value)])
             : fmt::format("{}", value);
}

std::string describe(const OptionInfo& option) {
  return fmt::format("{}={} ({})", option.key, text_of(option, option.preset),
                     accepted_range(option));
}

Checked<ParsedSpec> parse_spec(std::string_view what, std::span<const SpecRow> rows,
                               std::string_view spec) {
  if (spec.size() > kSpecSizeMax) {
    return invalid(fmt::format("{} spec of {} characters; accepted: at most {}", what, spec.size(),
                               kSpecSizeMax));
  }
  const std::size_t colon = spec.find(':');
  const std::string_view name = spec.substr(0, colon);
  const auto row =
      std::find_if(rows.begin(), rows.end(), [&](const SpecRow& one) { return one.name == name; });
  if (row == rows.end()) {
    return invalid(
        fmt::format("unknown {} {}; accepted: {}", what, in_quotes(name), names_of(rows)));
  }
  OptionParser parser(what, *row);
  // A border promises an assignment after it, so "fixed:" and a last comma are refused.
  for (std::size_t at = colon; at != std::string_view::npos;) {
    const std::size_t comma = spec.find(',', at + 1);
    SLUICE_TRY(parser.parse(spec.substr(at + 1, comma - at - 1)));
    at = comma;
  }
  return ParsedSpec{static_cast<std::size_t>(row - rows.begin()), parser.values};
}

std::string canonical_spec(const SpecRow& row, const OptionValues& values) {
  std::string spec(row.name);
  for (std::size_t i = 0; i < row.options.size(); ++i) {
    const OptionInfo& option = row.options[i];
    if (values.values[i] == option.preset) continue;
    spec += fmt::format("{}{}={}", spec.size() == row.name.size() ? ":" : ",", option.key,
                        text_of(option, values.values[i]));
  }
  return spec;
}

}  // namespace sluice
