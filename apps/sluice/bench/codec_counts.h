// What a codec counted, by the names of its row in the catalogue.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "codec/info.h"

namespace sluice::cli {

using CodecCounts = std::vector<std::pair<std::string_view, std::uint64_t>>;

// `counts` has one number for each name of the row. Names live as long as the program.
inline CodecCounts named_counts(const Info& info, std::span<const std::uint64_t> counts) {
  CodecCounts named;
  for (std::size_t i = 0; i < info.counts.size(); ++i) {
    named.emplace_back(info.counts[i], counts[i]);
  }
  return named;
}

// The ways its chunks took as one word, "packed" or "packed+dense"; empty where it counts none.
template <class Count>
std::string mode_of(const std::vector<std::pair<std::string_view, Count>>& counts) {
  constexpr std::string_view kChunks = "chunks_";
  std::string mode;
  for (const auto& [name, count] : counts) {
    if (count == 0 || !name.starts_with(kChunks)) continue;
    if (!mode.empty()) mode += '+';
    mode += name.substr(kChunks.size());
  }
  return mode;
}

}  // namespace sluice::cli
