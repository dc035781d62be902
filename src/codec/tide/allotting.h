// Gives every block of a chunk its width, from codes that all workers know.
#pragma once

#include <cstdint>
#include <span>

#include "codec/arena.h"
#include "codec/chunk.h"
#include "codec/tide/tide_layout.h"
#include "codec/tide/tide_settings.h"
#include "codec/tide/widths.h"

namespace sluice::tide {

// A part of an exchange, with its lifetime and its thread; scratch is the arena's. Never allocates
// or fails.
class Allotting {
 public:
  // Keeps references to chunk, layout and settings, which outlive it.
  Allotting(const Chunk& chunk, const TideLayout& layout, const TideSettings& settings,
            Arena& arena);

  // By the model's last step where there was one, else by the chunk alone. A code and a width for
  // each block; codes are agreed, and any are safe. Widths are 0 to kWidthMax: kExact is not
  // decided here. The same on all workers. Inside a FloatEnvironment.
  void allot(std::span<const Code12> codes, std::span<std::uint8_t> widths);

 private:
  void by_model(std::span<const Code12> codes, std::span<std::uint8_t> widths) const;
  void by_chunk(std::span<const Code12> codes, std::span<std::uint8_t> widths);
  void mark_turns(std::span<const Code12> codes, std::uint64_t live, std::uint64_t most,
                  std::span<std::uint8_t> turns);
  std::uint64_t mark_class(std::span<const Code12> codes, std::uint64_t most, std::uint64_t number,
                           std::span<std::uint8_t> turns) const;
  [[nodiscard]] std::uint64_t hash_at(std::uint32_t first) const;

  const Chunk& chunk_;
  const TideLayout& layout_;
  const TideSettings& settings_;
  std::span<std::uint64_t> counts_;       // of all blocks …
  std::span<std::uint64_t> turn_counts_;  // … and of those whose turn at the floor it is
};

}  // namespace sluice::tide
