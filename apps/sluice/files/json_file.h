// Results on disk.
#pragma once

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace sluice::cli {

using Json = nlohmann::ordered_json;

// Writes whole or not at all; an empty path nothing.
Verdict write_text(const std::string& path, std::string_view text);
// The same; "-" is standard output. Bytes that are not UTF-8 become U+FFFD.
Verdict write_json(const std::string& path, const Json& json);

// Of outputs that are all tried, whether or not another failed.
Verdict first_problem(std::initializer_list<Verdict> verdicts);

// One row as itself, several as {"rows": […]}.
Json as_rows(const std::vector<Json>& rows);

// JSON has no infinities and no NaN: those become null.
Json number_or_null(const std::optional<double>& value);

}  // namespace sluice::cli
