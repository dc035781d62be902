// `sluice codecs`: the catalogue as a table.
#include <fmt/format.h>

#include <memory>

#include "apps/sluice/commands/commands.h"
#include "apps/sluice/files/json_file.h"
#include "apps/sluice/process/table.h"
#include "apps/sluice/process/terminal.h"

namespace sluice::cli {
namespace {

Json to_json(const OptionInfo& option) {
  Json json;
  json["key"] = option.key;
  json["help"] = option.help;
  if (option.kind == OptionInfo::Kind::choice) {
    json["default"] = option.choices[static_cast<std::size_t>(option.preset)];
    json["choices"] = std::vector<std::string>(option.choices.begin(), option.choices.end());
    return json;
  }
  json["default"] = option.preset;
  json["minimum"] = option.minimum;
  json["maximum"] = option.maximum;
  if (option.kind == OptionInfo::Kind::integer) json["multiple_of"] = option.multiple_of;
  return json;
}

Json to_json(const NamedCodec& codec) {
  const Traits traits = codec.codec->traits(2);
  Json json;
  json["name"] = codec.info->name;
  json["summary"] = codec.info->summary;
  json["options"] = Json::array();
  for (const OptionInfo& option : codec.info->options) json["options"].push_back(to_json(option));
  json["homomorphic"] = traits.homomorphic;
  json["lossless"] = traits.lossless;
  json["unbiased"] = traits.unbiased;
  json["contraction"] = name_of(traits.contraction);
  json["reductions"] = codec.info->reductions;
  json["paper"] = codec.info->paper;
  return json;
}

// Every option on a line of its own: some codecs have many.
std::string options_text(const std::vector<NamedCodec>& codecs) {
  std::vector<std::vector<std::string>> rows;
  for (const NamedCodec& codec : codecs) {
    std::string name(codec.info->name);
    for (const OptionInfo& option : codec.info->options) {
      rows.push_back({name, describe(option), std::string(option.help)});
      name.clear();
    }
  }
  return format_table({"name", "<option=default (accepted)", "<meaning"}, rows);
}

std::string to_text(const std::vector<NamedCodec>& codecs) {
  std::vector<std::vector<std::string>> rows;
  const auto yes = [](bool value) { return std::string(value ? "yes" : "no"); };
  for (const NamedCodec& codec : codecs) {
    const Traits traits = codec.codec->traits(2);
    rows.push_back({std::string(codec.info->name), yes(traits.homomorphic), yes(traits.lossless),
                    yes(traits.unbiased), std::string(name_of(traits.contraction)),
                    std::string(codec.info->reductions), std::string(codec.info->paper)});
  }
  return format_table({"name", "<homomorphic", "<lossless", "<unbiased", "<contraction",
                       "<reductions", "<paper"},
                      rows) +
         "\n" + options_text(codecs);
}

Verdict list_codecs(const std::string& json_path) {
  SLUICE_TRY_ASSIGN(const auto codecs, make_codecs({"all"}));
  if (json_path != "-") print(to_text(codecs));
  Json rows = Json::array();
  for (const NamedCodec& codec : codecs) rows.push_back(to_json(codec));
  return write_json(json_path, Json{{"rows", rows}});
}

}  // namespace

void add_codecs_command(Command& program) {
  Command command = program.add_command(
      "codecs", "List the codecs: options with defaults and ranges, what they promise, sources");
  const auto json_path = std::make_shared<std::string>();
  command.output_file_or_stdout("--json", *json_path,
                                "Also write the list to this file (- for stdout)");
  command.action([json_path] { return list_codecs(*json_path); });
}

}  // namespace sluice::cli
