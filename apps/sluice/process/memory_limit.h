// What a command does where memory runs out: it says so in a line and ends with the status of a
// mistake, since less would have been accepted.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"

namespace sluice::cli {

// How every such line begins.
inline constexpr const char* kOutOfMemory = "out of memory";

// Does the work. Where memory for it, or a thread, cannot be had, Code::out_of_memory says so and
// what was wanted, if that is not empty. Other exceptions pass.
Verdict with_memory(const std::string& wanted, const std::function<Verdict()>& work);

// An exception that leaves a thread ends the process where it stands. From here on, if it says that
// memory ran out, a line on standard error says so and the exit status is `status`. Once, at the
// start of the process.
void end_threads_without_memory(int status);

}  // namespace sluice::cli
