#include "tests/support/every_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "catalog/specs.h"
#include "tests/support/pairwise.h"

namespace sluice::support {
namespace {

// The default first: where a covering set leaves a choice, it takes that.
std::vector<double> values_of(const OptionInfo& option) {
  std::vector<double> values{option.preset};
  const auto add = [&](double value) {
    if (std::find(values.begin(), values.end(), value) == values.end()) values.push_back(value);
  };
  for (std::size_t i = 0; i < option.choices.size(); ++i) add(static_cast<double>(i));
  if (option.kind == OptionInfo::Kind::choice) return values;
  add(option.minimum);
  add(option.maximum);
  return values;
}

}  // namespace

std::set<std::string> specs_of(const Info& info) {
  std::vector<std::vector<double>> values;
  std::vector<std::size_t> counts;
  for (const OptionInfo& option : info.options) {
    values.push_back(values_of(option));
    counts.push_back(values.back().size());
  }
  std::set<std::string> specs{std::string(info.name)};
  for (std::size_t i = 0; i < values.size(); ++i) {
    for (const double value : values[i]) {
      specs.insert(
          fmt::format("{}:{}={}", info.name, info.options[i].key, text_of(info.options[i], value)));
    }
  }
  if (values.size() < 2) return specs;
  for (const Row& row : covering_rows(counts, forbid_nothing)) {
    std::string options;
    for (std::size_t i = 0; i < row.size(); ++i) {
      options += fmt::format("{}{}={}", i == 0 ? "" : ",", info.options[i].key,
                             text_of(info.options[i], values[i][row[i]]));
    }
    specs.insert(fmt::format("{}:{}", info.name, options));
  }
  return specs;
}

}  // namespace sluice::support
