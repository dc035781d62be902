#include "json_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "terminal.h"

namespace sluice::cli {

Verdict write_text(const std::string& path, std::string_view text) {
  if (path.empty()) return Nothing{};
  const std::string beside = fmt::format("{}.{}.tmp", path, getpid());
  std::ofstream file(beside, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (file && std::rename(beside.c_str(), path.c_str()) == 0) return Nothing{};
  const int error = errno;
  std::remove(beside.c_str());
  return Problem{Code::io, fmt::format("{}: cannot be written: {}", path, std::strerror(error))};
}

Verdict write_json(const std::string& path, const Json& json) {
  const std::string text = json.dump(2) + "\n";
  if (path != "-") return write_text(path, text);
  print(text);
  return Nothing{};
}

Json as_rows(const std::vector<Json>& rows) {
  return rows.size() == 1 ? rows.front() : Json{{"rows", rows}};
}

Json number_or_null(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? Json(*value) : Json(nullptr);
}

}  // namespace sluice::cli
