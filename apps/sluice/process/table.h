// Tables and figures as a person reads them. No state, nothing fails.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace sluice::cli {

// Columns padded to their widest cell: the first left-aligned, the others right-aligned unless
// their header starts with '<'. Rows have as many cells as the header.
std::string format_table(const std::vector<std::string>& header,
                         const std::vector<std::vector<std::string>>& rows);

// "name   value" lines.
std::string format_pairs(const std::vector<std::pair<std::string, std::string>>& pairs);

// Three significant digits: 0.0123, 1.23e-09; "-" for nothing.
std::string format_figure(const std::optional<double>& value);

}  // namespace sluice::cli
