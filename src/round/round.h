// One round: bytes up, an exact reduction, bytes down, and who contributed.
//
// All are values that own nothing. Memory of a Round is the exchange's; memory of an Answer is the
// exchange's or the carrier's (Carrier::take says how long it lives).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "round/reduction.h"
#include "round/workers.h"

namespace sluice {

namespace device {
class Bench;
}

// Lanes [first, first + count) of an answer and who was counted in them. Borders lie on grains.
struct Part {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  Workers from;
};

// `up` and `down` do not overlap, and lie where the exchange's Place says.
struct Round {
  Reduction what;                 // has passed check()
  std::span<const std::byte> up;  // up_size, or at most that for lists
  std::span<std::byte> down;      // at least down_size_max
  Workers only = {};              // exactly these are counted; unrestricted: whoever arrives
  bool anywhere = false;          // the answer need not lie in `down`: nobody looks there later
};

struct Answer {
  std::span<const std::byte> down;  // what was filled of Round::down, or lies elsewhere (anywhere)
  std::span<const Part> parts;      // cover the lanes in order
};

// Where bytes live. With a bench: where its device reaches them, and what reads or writes them is
// recorded there, in order.
struct Place {
  device::Bench* bench = nullptr;
  // Bytes of rounds lie in host memory that the device reaches too: for carriers of the host.
  bool is_shared = false;

  [[nodiscard]] bool on_device() const { return bench != nullptr; }
  // Of a leg's bytes, once the device is done with them.
  [[nodiscard]] Place of_wire() const { return is_shared ? Place{} : *this; }
};

// What a codec relies on before it reads an answer, which comes from outside. The size is possible.
// The parts cover all lanes in order, on grains. Their sets have ranks below n, are not empty, and
// are exactly `only` where the round named one. Anything else is Code::malformed. The bytes
// themselves are not looked at. Any thread; never allocates.
Status check_answer(const Round& round, const Answer& answer, std::uint32_t workers);

}  // namespace sluice
