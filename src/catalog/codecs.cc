#include "catalog/codecs.h"

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

std::string text_of(const OptionInfo& option, double value) {
  return option.kind == OptionInfo::Kind::choice
             ? std::string(option.choices[static_cast<std::size_t>(value)])
             : fmt::format("{}", value);
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

const Info* find(std::string_view name) {
  for (const Info& info : kCodecs) {
    if (info.name == name) return &info;
  }
  return nullptr;
}

std::string codec_names() {
  std::string names;
  for (const Info& info : kCodecs)
    names += fmt::format("{}{}", names.empty() ? "" : ", ", info.name);
  return names;
}

std::string accepted_options(const Info& info) {
  if (info.options.empty()) return "none";
  std::string all;
  for (const OptionInfo& option : info.options) {
    all += fmt::format("{}{}", all.empty() ? "" : ", ", describe(option));
  }
  return all;
}

class OptionParser {
 public:
  explicit OptionParser(const Info& info) : info_(info) {
    for (std::size_t i = 0; i < info.options.size(); ++i) {
      values.values[i] = info.options[i].preset;
    }
  }

  Verdict parse(std::string_view assignment) {
    const std::size_t equals = assignment.find('=');
    const std::string_view key = assignment.substr(0, equals);
    for (std::size_t i = 0; i < info_.options.size(); ++i) {
      if (info_.options[i].key != key) continue;
      if (equals == std::string_view::npos) break;
      return set(i, assignment.substr(equals + 1));
    }
    return invalid(fmt::format("codec '{}' has no option {}; accepted: {}", info_.name,
                               in_quotes(assignment), accepted_options(info_)));
  }

  OptionValues values;

 private:
  Verdict set(std::size_t index, std::string_view text) {
    const OptionInfo& option = info_.options[index];
    if (given_[index]) {
      return invalid(fmt::format("codec '{}': option '{}' is given twice", info_.name, option.key));
    }
    given_[index] = true;
    const std::optional<double> value = parse_value(option, text);
    if (!value) {
      return invalid(fmt::format("codec '{}': {}={} is not accepted; accepted: {}", info_.name,
                                 option.key, in_quotes(text), accepted_range(option)));
    }
    values.values[index] = *value;
    return Nothing{};
  }

  const Info& info_;
  std::bitset<kOptionsMax> given_;
};

std::string canonical(const Info& info, const OptionValues& values) {
  std::string spec(info.name);
  for (std::size_t i = 0; i < info.options.size(); ++i) {
    const OptionInfo& option = info.options[i];
    if (values.values[i] == option.preset) continue;
    spec += fmt::format("{}{}={}", spec.size() == info.name.size() ? ":" : ",", option.key,
                        text_of(option, values.values[i]));
  }
  return spec;
}

struct Parsed {
  const Info* info = nullptr;
  OptionValues values;
};

Checked<Parsed> parse(std::string_view spec) {
  if (spec.size() > kSpecSizeMax) {
    return invalid(fmt::format("codec spec of {} characters; accepted: at most {}", spec.size(),
                               kSpecSizeMax));
  }
  const std::size_t colon = spec.find(':');
  const std::string_view name = spec.substr(0, colon);
  const Info* const info = find(name);
  if (info == nullptr) {
    return invalid(fmt::format("unknown codec {}; accepted: {}", in_quotes(name), codec_names()));
  }
  OptionParser parser(*info);
  // A border promises an assignment after it, so "fixed:" and a last comma are refused.
  for (std::size_t at = colon; at != std::string_view::npos;) {
    const std::size_t comma = spec.find(',', at + 1);
    SLUICE_TRY(parser.parse(spec.substr(at + 1, comma - at - 1)));
    at = comma;
  }
  return Parsed{info, parser.values};
}

Checked<NamedCodec> make(const Parsed& parsed) {
  SLUICE_TRY_ASSIGN(auto codec, parsed.info->make(parsed.values));
  return NamedCodec{parsed.info, canonical(*parsed.info, parsed.values), std::move(codec)};
}

}  // namespace

std::string describe(const OptionInfo& option) {
  return fmt::format("{}={} ({})", option.key, text_of(option, option.preset),
                     accepted_range(option));
}

Checked<NamedCodec> make_codec(std::string_view spec) {
  SLUICE_TRY_ASSIGN(const Parsed parsed, parse(spec));
  return make(parsed);
}

Checked<std::string> settle_spec(std::string_view spec, bool feedback) {
  auto parsed = parse(spec);
  if (!parsed || parsed->info->settle == nullptr) return std::string(spec);
  parsed->info->settle(parsed->values, feedback);
  SLUICE_TRY_ASSIGN(const NamedCodec made, make(*parsed));
  return made.spec;
}

bool resumes(std::string_view saved, std::string_view spec) {
  if (saved == spec) return true;
  const auto before = parse(saved);
  const auto now = parse(spec);
  if (!before || !now || before->info != now->info) return false;
  for (std::size_t i = 0; i < now->info->options.size(); ++i) {
    if (now->info->options[i].resumes) continue;
    if (before->values.values[i] != now->values.values[i]) return false;
  }
  return true;
}

}  // namespace sluice
