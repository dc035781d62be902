#include "catalog/codecs.h"

namespace sluice {
namespace {

constexpr auto kRows = [] {
  std::array<SpecRow, kCodecs.size()> rows;
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = {kCodecs[i].name, kCodecs[i].options};
  return rows;
}();

struct Parsed {
  const Info* info = nullptr;
  OptionValues values;
};

Checked<Parsed> parse(std::string_view spec) {
  SLUICE_TRY_ASSIGN(const ParsedSpec parsed, parse_spec("codec", kRows, spec));
  return Parsed{&kCodecs[parsed.row], parsed.values};
}

Checked<NamedCodec> make(const Parsed& parsed) {
  SLUICE_TRY_ASSIGN(auto codec, parsed.info->make(parsed.values));
  return NamedCodec{parsed.info,
                    canonical_spec({parsed.info->name, parsed.info->options}, parsed.values),
                    std::move(codec)};
}

}  // namespace

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
