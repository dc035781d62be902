// Where the daemon writes before it serves: problems to standard error, what was asked for to
// standard output. For one thread; once it serves, Log writes instead.
#pragma once

#include <string_view>

namespace sluice::daemon {

// One line with the daemon's name before it, written before this returns: waits for the reader.
void complain(std::string_view line);
// The same for text as it is; gives errno, or 0 where all of it went out.
int print(std::string_view text);

}  // namespace sluice::daemon
