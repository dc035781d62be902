// Two MPI libraries in one process do not work: both have functions of the same names, and a call
// of one may end in the other.
#pragma once

#include <string>

namespace sluice::mpi {

// What an MPI in this process that is not Open MPI calls itself, and its file; empty: there is
// none. Looks at every loaded file.
std::string other_mpi();

}  // namespace sluice::mpi
