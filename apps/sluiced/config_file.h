// The file of --config: its bytes, or why it is none.
#pragma once

#include <cstddef>
#include <string>

#include "base/result.h"

namespace sluice::daemon {

inline constexpr std::size_t kConfigSizeMax = 65536;

// Never waits: what is no regular file, or a larger one, is refused with its name.
Checked<std::string> read_config_file(const std::string& path);

}  // namespace sluice::daemon
