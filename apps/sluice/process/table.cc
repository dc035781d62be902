#include "apps/sluice/process/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace sluice::cli {
namespace {

// Characters, not bytes: continuation bytes of UTF-8 do not count.
std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

bool is_left(const std::vector<std::string>& header, std::size_t column) {
  return column == 0 || header[column].starts_with('<');
}

std::string_view title_of(const std::string& header) {
  return std::string_view(header).substr(header.starts_with('<') ? 1 : 0);
}

}  // namespace

std::string format_table(const std::vector<std::string>& header,
                         const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < header.size(); ++i) {
    widths.push_back(width_of(title_of(header[i])));
    for (const auto& row : rows) widths[i] = std::max(widths[i], width_of(row[i]));
  }
  std::string text;
  const auto line = [&](const auto& cell) {
    std::string out;
    for (std::size_t i = 0; i < header.size(); ++i) {
      const std::string_view shown = cell(i);
      const std::string pad(widths[i] - width_of(shown), ' ');
      out += i == 0 ? "" : "  ";
      out += is_left(header, i) ? fmt::format("{}{}", shown, pad) : fmt::format("{}{}", pad, shown);
    }
    out.erase(out.find_last_not_of(' ') + 1);
    text += out + "\n";
  };
  line([&](std::size_t i) { return title_of(header[i]); });
  for (const auto& row : rows) line([&](std::size_t i) { return std::string_view(row[i]); });
  return text;
}

std::string format_pairs(const std::vector<std::pair<std::string, std::string>>& pairs) {
  std::size_t width = 0;
  for (const auto& [name, value] : pairs) width = std::max(width, width_of(name));
  std::string text;
  for (const auto& [name, value] : pairs) {
    text += fmt::format("{}{}  {}\n", name, std::string(width - width_of(name), ' '), value);
  }
  return text;
}

std::string format_figure(const std::optional<double>& value) {
  return value ? fmt::format("{:.3g}", *value) : "-";
}

}  // namespace sluice::cli
