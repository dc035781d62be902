// The file of --config: its bytes, or why it is none.
#pragma once

#include <cstddef>
#include <string>

#include "base/result.h"

namespace sluice::daemon {

inline constexpr std::size_t kConfigSizeMax = 65536;

// Never waits for a writer. Code::invalid_argument names the file and why: it cannot be read, is no
// regular file, or is larger.
Checked<std::string> read_config_file(const std::string& path);

}  // namespace sluice::daemon
