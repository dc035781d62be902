// The daemon as a whole: options, aggregator, pages, signals, log.
#pragma once

namespace sluice::daemon {

// The whole life of the process; call it once, on its first thread, before any other thread. Where
// it has served it does not return but ends the process, without destructors. Else it gives the
// exit status: 0 after --help and --version, 2 for the user's mistake, 1 for anything else. It is
// 141 where whoever read standard output went away.
int run(int argc, const char* const* argv);

}  // namespace sluice::daemon
