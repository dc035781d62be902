#include "catalog/carriers.h"

#include <fmt/format.h>

#include <string>

namespace sluice {

Checked<const CarrierInfo*> find_carrier(std::string_view name) {
  std::string accepted;
  for (const CarrierInfo& info : kCarriers) {
    if (info.name == name) return &info;
    accepted += fmt::format("{}{}", accepted.empty() ? "" : ", ", info.name);
  }
  return Problem{Code::invalid_argument,
                 fmt::format("unknown carrier '{}'; accepted: {}", name, accepted)};
}

}  // namespace sluice
