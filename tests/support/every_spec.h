// SPECs of a codec that between them have every value of its options.
#pragma once

#include <set>
#include <string>

#include "codec/info.h"

namespace sluice::support {

// Every value of every option beside defaults, and every pair of values of two options. Those that
// contradict each other are left to make_codec to refuse.
std::set<std::string> specs_of(const Info& info);

}  // namespace sluice::support
