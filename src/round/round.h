// One round: bytes up, an exact reduction, bytes down, and who contributed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "round/reduction.h"
#include "round/workers.h"

struct CUstream_st;

namespace sluice {

// Lanes [first, first + count) of an answer and who was counted in them. Borders lie on grains.
struct Part {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  Workers from;
};

struct Round {
  Reduction what;
  std::span<const std::byte> up;
  std::span<std::byte> down;  // at least down_size_max
  Workers only = {};          // exactly these are counted; unrestricted: whoever arrives
  bool anywhere = false;      // the answer need not lie in `down`: nobody looks there later
};

struct Answer {
  std::span<const std::byte> down;  // what was filled of Round::down, or lies elsewhere (anywhere)
  std::span<const Part> parts;      // cover the lanes in order
};

// Where bytes live. Device bytes are ready in stream order, both ways; a null stream is a stream.
struct Place {
  bool device = false;
  CUstream_st* stream = nullptr;
};

// What a codec relies on before it reads an answer, which comes from outside: the size is possible
// and the parts cover all lanes in order, on grains, with sets of ranks below n, none empty, and
// exactly `only` where the round named one.
Status check_answer(const Round& round, const Answer& answer, std::uint32_t workers);

}  // namespace sluice
