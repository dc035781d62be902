// What launchers leave in the environment of the processes they start. Nothing here calls MPI.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "base/result.h"

namespace sluice::mpi {

// As std::getenv: null if there is no such variable.
using Environment = std::function<const char*(const char* name)>;

// Whether a launcher started this process: Open MPI's mpirun, or one that speaks PMIx or PMI.
// Without one Open MPI would start a job of one and, on some machines, a daemon with it.
bool is_launched(const Environment& environment);

struct Claim {
  const char* variable = "";
  std::uint32_t workers = 0;
};
// How many processes the launcher says it has started; nothing where it does not say.
std::optional<Claim> claim_of(const Environment& environment);

// `workers` is what MPI says. Code::unavailable where MPI says one and the launcher more: an Open
// MPI that does not understand the launcher makes a world of one out of every process, and each
// would average with nobody.
Verdict check_claim(const Environment& environment, std::uint32_t workers);

}  // namespace sluice::mpi
