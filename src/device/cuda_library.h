// CUDA's table, found at run time: neither building nor starting Sluice needs CUDA.
//
// libsluice_cuda.so has the kernels. It is loaded only where a driver is that can run them.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"
#include "device/device_table.h"

namespace sluice::device {

// The table of libsluice_cuda.so. It is looked for at the first call, and never unloaded; any
// thread. Code::unavailable says what is missing and what is accepted, the same at every call:
//
//   driver    libcuda.so.1, of driver 580 or later, which supports CUDA 13
//   library   $SLUICE_CUDA_LIBRARY; else the file beside the one that this code is in; else what
//             the loader finds
//   version   of the table: the library and this code belong to the same version of Sluice
//   devices   one at least
//
// SLUICE_CUDA_LIBRARY=emulated gives emulated(), whatever the machine has.
//
// Initialises CUDA in this process. CUDA does not survive a fork(): a process that has called this
// starts others by exec.
Checked<const Table*> cuda();

// --- the parts of it, for tests ---

// As std::getenv: null if there is no such variable.
using Environment = std::function<const char*(const char* name)>;

// What cuda() does at its first call.
Checked<const Table*> load_cuda(const Environment& environment);

// Whether the file is a driver that can run CUDA 13.
Verdict check_driver(const char* file);
// The same of what cuDriverGetVersion gives: 13000 for 13.0.
Verdict check_driver_version(int version);

// The table of the library that is so called: a path, or a name that the loader looks for.
Checked<const Table*> open_cuda_library(const std::string& file);
// The table, if this code can use it and there is a device. `file` names it in messages.
Checked<const Table*> check_table(const Table* table, const std::string& file);

}  // namespace sluice::device
