// SPECs: `name` or `name:key=value,key=value`, of the rows of a table. Errors name what is
// accepted.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "codec/info.h"

namespace sluice {

// What a SPEC is read by: a row of a table.
struct SpecRow {
  std::string_view name;
  std::span<const OptionInfo> options = {};
};

struct ParsedSpec {
  std::size_t row = 0;
  OptionValues values;
};

// `what` is what the rows are, for errors: "codec".
Checked<ParsedSpec> parse_spec(std::string_view what, std::span<const SpecRow> rows,
                               std::string_view spec);

// Name, then the options that differ from the default, in order.
std::string canonical_spec(const SpecRow& row, const OptionValues& values);

// A value of an option as a SPEC has it.
std::string text_of(const OptionInfo& option, double value);

// "block=256 (32–4096, multiple of 8)": an option as the command line and the errors show it.
std::string describe(const OptionInfo& option);

}  // namespace sluice
