// Bytes of .npy files, for the tests here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"

namespace sluice::cli {

using Bytes = std::vector<std::byte>;
using Shape = std::vector<std::uint64_t>;

inline void append(Bytes& bytes, std::string_view text) {
  for (const char letter : text) bytes.push_back(static_cast<std::byte>(letter));
}

// A file of any version with any header, followed by the values as they are.
template <class T = float>
Bytes file_of(std::string_view header, std::vector<T> values = {}, unsigned version = 1) {
  Bytes bytes;
  append(bytes, "\x93NUMPY");
  bytes.push_back(static_cast<std::byte>(version));
  bytes.push_back(std::byte{0});
  const std::size_t at = bytes.size();
  bytes.resize(at + (version == 1 ? 2 : 4));
  if (version == 1) store_le(bytes, at, static_cast<std::uint16_t>(header.size()));
  if (version != 1) store_le(bytes, at, static_cast<std::uint32_t>(header.size()));
  append(bytes, header);
  const auto data = std::as_bytes(std::span(values));
  bytes.insert(bytes.end(), data.begin(), data.end());
  return bytes;
}

inline std::string header_of(std::string_view type, std::string_view shape) {
  return "{'descr': '" + std::string(type) +
         "', 'fortran_order': False, 'shape': " + std::string(shape) + ", }\n";
}

// numpy.save("x.npy", numpy.array([[1], [0.5]], "float32"))
inline Bytes golden_file() {
  Bytes bytes;
  append(bytes, {"\x93NUMPY\x01\x00\x76\x00", 10});
  append(bytes, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1), }");
  append(bytes, std::string(58, ' ') + "\n");
  append(bytes, {"\x00\x00\x80\x3f\x00\x00\x00\x3f", 8});
  return bytes;
}

}  // namespace sluice::cli
