// Runs tests of this very program under mpirun, so that processes meet.
#pragma once

#include <cstdint>
#include <string>

namespace sluice::support {

// Whether this process is one of the ranks.
bool is_rank();

// Why no ranks can be started here; empty: they can.
std::string why_no_ranks();

// Starts so many processes of this program that run the tests of the filter, and waits for them.
struct Ranks {
  bool succeeded = false;  // all of them
  std::string output;      // the command and what all of them printed
};
Ranks run_ranks(std::uint32_t ranks, const std::string& filter);

}  // namespace sluice::support
