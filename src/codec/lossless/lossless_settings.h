// What a user chose of the lossless codec, and what its exchanges count.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace sluice::lossless {

enum class Mode : std::uint8_t { automatic, packed, sketch, dense };
enum class Sum : std::uint8_t { exact, floats };
enum class IndexKind : std::uint8_t { automatic, bitmap, tiers, rows, bloom, gather };

struct LosslessSettings {
  Mode mode = Mode::automatic;
  Sum sum = Sum::exact;
  IndexKind index = IndexKind::automatic;
  std::uint32_t leg_bytes = 128;  // what one more leg is worth, per chunk
  double room = 1;                // of a sketch, times what the sizing rule asks for
};

// Entries of a chunk's tally. Bytes are those this worker sends; keys and chunks are agreed.
enum class Count : std::uint8_t {
  header_bytes,     // sizes and exponents, by which everything else is chosen
  index_bytes,      // where the values are
  value_bytes,      // the values
  exception_bytes,  // values that travel one by one
  union_keys,       // coordinates that travelled, false positives of the index among them
  stuck_keys,       // that a sketch did not give back and that travelled once more
  exceptions,       // values of this worker that did not fit their block's integers
  chunks_empty,     // that were zero on all workers
  chunks_packed,
  chunks_sketch,
  chunks_dense,
  sketches_again,  // that the last step's exponents or size did not fit
};
inline constexpr std::array<std::string_view, 12> kCountNames{
    "header_bytes",  "index_bytes",   "value_bytes",  "exception_bytes",
    "union_keys",    "stuck_keys",    "exceptions",   "chunks_empty",
    "chunks_packed", "chunks_sketch", "chunks_dense", "sketches_again"};

}  // namespace sluice::lossless
