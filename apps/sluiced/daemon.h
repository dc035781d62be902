// The daemon as a whole: options, aggregator, pages, signals, log.
#pragma once

namespace sluice::daemon {

// The process's exit status: 0, 2 for the user's mistake, 1 for anything else.
int run(int argc, const char* const* argv);

}  // namespace sluice::daemon
