// What it means for a running daemon that its configuration was read again.
#pragma once

#include <string>
#include <vector>

#include "daemon_options.h"

namespace sluice::daemon {

struct Reload {
  Options options;                 // those that run, with what can change as it is wanted
  std::vector<std::string> lines;  // for the log: at least one
};

// Changes nothing by itself. What cannot change while the daemon runs stays, and gets a line.
Reload reload(const Options& running, const Options& wanted);

}  // namespace sluice::daemon
