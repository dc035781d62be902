#include "apps/sluice/files/json_file.h"

#include <cmath>

#include "apps/sluice/files/output_file.h"
#include "apps/sluice/process/terminal.h"

namespace sluice::cli {

Verdict write_text(const std::string& path, std::string_view text) {
  return path.empty() ? Verdict(Nothing{}) : write_file(path, text);
}

Verdict write_json(const std::string& path, const Json& json) {
  if (path.empty()) return Nothing{};
  // A file's name may have any bytes, JSON has Unicode alone.
  const std::string text = json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  if (path != "-") return write_text(path, text);
  print(text);
  return Nothing{};
}

Verdict first_problem(std::initializer_list<Verdict> verdicts) {
  for (const Verdict& verdict : verdicts) {
    if (!verdict) return verdict;
  }
  return Nothing{};
}

Json as_rows(const std::vector<Json>& rows) {
  return rows.size() == 1 ? rows.front() : Json{{"rows", rows}};
}

Json number_or_null(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? Json(*value) : Json(nullptr);
}

}  // namespace sluice::cli
