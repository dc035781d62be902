// SPECs: `name` or `name:key=value,key=value`, of the rows of a table. Functions have no state: any
// thread may call them. They are for start-up, and allocate.
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

// Which row, and a value for each of its options in their order.
struct ParsedSpec {
  std::size_t row = 0;
  OptionValues values;
};

// `spec` is any bytes. `what` is what the rows are, for errors: "codec". Code::invalid_argument
// names the value and what is accepted. Options that are not given have their default.
Checked<ParsedSpec> parse_spec(std::string_view what, std::span<const SpecRow> rows,
                               std::string_view spec);

// Name, then the options that differ from the default, in order. `values` are of this row.
std::string canonical_spec(const SpecRow& row, const OptionValues& values);

// A value of an option as a SPEC has it. The value is in the option's range.
std::string text_of(const OptionInfo& option, double value);

// "block=256 (32–4096, multiple of 8)": an option as the command line and the errors show it.
std::string describe(const OptionInfo& option);

}  // namespace sluice
