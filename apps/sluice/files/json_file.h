// Results on disk. Code::io names the file and the system's reason.
#pragma once

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace sluice::cli {

using Json = nlohmann::ordered_json;

// Writes whole or not at all (output_file.h). An empty path writes nothing.
Verdict write_text(const std::string& path, std::string_view text);
// The same. "-" is standard output, whose failure flush_printed() tells. Bytes that are not UTF-8
// become U+FFFD.
Verdict write_json(const std::string& path, const Json& json);

// The first that failed, of outputs that were all tried.
Verdict first_problem(std::initializer_list<Verdict> verdicts);

// One row as itself, several as {"rows": […]}.
Json as_rows(const std::vector<Json>& rows);

// JSON has no infinities and no NaN: those become null.
Json number_or_null(const std::optional<double>& value);

}  // namespace sluice::cli
