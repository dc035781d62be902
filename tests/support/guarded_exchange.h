// Drives one exchange on every worker directly, without groups, and watches what groups do not: the
// memory it promised, and that nothing of the caller's is written before it is done.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "carrier/world.h"
#include "codec/codec.h"
#include "tests/support/arrangement.h"
#include "tests/support/guarded.h"
#include "tests/support/tampering_carrier.h"

namespace sluice::support {

struct GuardedCase {
  std::uint32_t count = 257;  // of the only chunk; no more than the codec's count_max is used
  std::uint32_t workers = 3;
  DataKind data = DataKind::normal;
  Missing missing = Missing::none;
  std::string_view feedback = "ef";  // its SPEC; the memories start filled
  bool in_place = false;
  GuardedMemory::Borders borders = GuardedMemory::Borders::exact;
};

std::string describe(const GuardedCase& guarded_case);

struct GuardedWorker {
  enum class End : std::uint8_t { none, done, failed };
  End end = End::none;  // none: waits for others
  Error error;          // of End::failed
  std::vector<float> gradient;
  std::vector<float> input;  // what feedback made of it
  std::vector<float> mean;
  std::vector<float> residual;  // feedback's first memory
};

struct GuardedOutcome {
  std::string complaint;  // the first promise that was broken; empty: none
  std::vector<GuardedWorker> workers;
  std::vector<std::vector<std::size_t>> down_sizes;  // of worker 0's answers, by leg and round
  std::size_t host_size = 0;                         // memory of one exchange
  std::size_t place_size = 0;
};

GuardedOutcome run_exchange(const Codec& codec, const CarrierInfo& carrier,
                            const GuardedCase& guarded_case, const Tampering& tampering = {});

}  // namespace sluice::support
