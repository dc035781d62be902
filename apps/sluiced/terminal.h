// Where the daemon writes: its log to standard error, what was asked for to standard output.
#pragma once

#include <string_view>

namespace sluice::daemon {

// One line with the daemon's name before it, written at once and whole. Any thread.
void say(std::string_view line);
void print(std::string_view text);

}  // namespace sluice::daemon
