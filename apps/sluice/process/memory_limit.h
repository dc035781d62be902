// What a command does where memory runs out: it says so in a line and ends with the status of a
// mistake, since less would have been accepted.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"

namespace sluice::cli {

// How every such line begins.
inline constexpr const char* kOutOfMemory = "out of memory";

// Does the work. Where memory for it, or a thread, cannot be had, the Problem says so and what was
// wanted, if that is not empty.
Verdict with_memory(const std::string& wanted, const std::function<Verdict()>& work);

// An exception that leaves a thread ends the process where it stands. From here on, where it says
// that memory ran out, that is the line on standard error and `status` the exit status.
void end_threads_without_memory(int status);

}  // namespace sluice::cli
