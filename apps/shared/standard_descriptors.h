// What every program of ours does before it opens anything.
#pragma once

namespace sluice {

// At the start of the process. Descriptors 0 to 2 are open from here on, or a file or socket would
// take the place of one. Standard output that was closed cannot be written to; the others are as
// /dev/null.
void keep_standard_descriptors();

}  // namespace sluice
