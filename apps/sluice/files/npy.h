// NumPy's .npy files: read as float32, written as numpy.save writes float32.
//
// Every refusal is one line that names the file, the value and what is accepted:
// Code::malformed for what is no .npy file, Code::invalid_argument for what is not accepted of one,
// Code::io with the system's reason.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace sluice::cli {

// In C order; () is one value, a shape with a 0 none.
struct Array {
  std::vector<std::uint64_t> shape;
  std::vector<float> values;
};

inline constexpr std::size_t kNpyHeaderBytesMax = 65536;
inline constexpr std::size_t kNpyDimensionsMax = 64;  // NumPy's own limit
inline constexpr std::uint64_t kNpyElementsMax = std::uint64_t{1} << 40;

// A whole file of format version 1.0, 2.0 or 3.0, in C order only. Values are '<f4' (kept bit for
// bit), '<f2' (exact) or '<f8' (rounded to nearest, infinity beyond float32). The bytes are
// untrusted: what is allocated is bounded by their length. The name only appears in problems.
Checked<Array> parse_npy(std::span<const std::byte> bytes, std::string_view name);

// The same of a regular file, without holding its bytes and its values at once.
Checked<Array> read_npy(const std::string& path);

// Writes version 1.0, whole or not at all (output_file.h). The shape's product must be the number
// of values.
Verdict write_npy(const std::string& path, std::span<const std::uint64_t> shape,
                  std::span<const float> values);

}  // namespace sluice::cli
