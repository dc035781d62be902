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

// Adds blocks [first, last), each with its code.
void count_blocks(const TideLayout& layout, std::uint32_t first, std::uint32_t last,
                  std::span<const Code12> codes, Counts counts);

// A part of an exchange, with its lifetime and its thread; scratch is the arena's. Never allocates
// or fails.
class Allotting {
 public:
  // Keeps references to chunk, layout and settings, which outlive it.
  Allotting(const Chunk& chunk, const TideLayout& layout, const TideSettings& settings,
            Arena& arena);

  // By the model's last step where there was one, else by each share of the chunk alone. A code and
  // a width for each block; codes are agreed, and any are safe. Widths are 0 to kWidthMax: kExact
  // is not decided here. The same on all workers. Inside a FloatEnvironment.
  void allot(std::span<const Code12> codes, std::span<std::uint8_t> widths);

 private:
  void by_model(std::span<const Code12> codes, std::span<std::uint8_t> widths) const;
  // Blocks [first, last) of the chunk.
  struct Share {
    std::uint32_t first = 0;
    std::uint32_t last = 0;
  };
  [[nodiscard]] Share share_from(std::uint32_t first) const;
  void by_share(Share share, std::span<const Code12> codes, std::span<std::uint8_t> widths);
  void mark_turns(Share share, std::span<const Code12> codes, std::uint64_t live,
                  std::uint64_t most, std::span<std::uint8_t> turns);
  std::uint64_t mark_class(Share share, std::span<const Code12> codes, std::uint64_t most,
                           std::uint64_t number, std::span<std::uint8_t> turns) const;
  [[nodiscard]] std::uint64_t hash_at(std::uint32_t first) const;

  const Chunk& chunk_;
  const TideLayout& layout_;
  const TideSettings& settings_;
  std::span<std::uint64_t> counts_;       // of a share's blocks …
  std::span<std::uint64_t> turn_counts_;  // … and of those whose turn at the floor it is
};

}  // namespace sluice::tide
