// Ranks as text for a person. For log lines: allocates.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <utility>

namespace sluice {

inline constexpr std::uint32_t kRanksShown = 16;

// "3, 5, …": the first kRanksShown ranks for which is_member(rank) holds, and how many there are.
template <class IsMember>
std::pair<std::string, std::uint32_t> list_ranks(std::uint32_t workers, IsMember is_member) {
  std::string ranks;
  std::uint32_t count = 0;
  for (std::uint32_t rank = 0; rank < workers; ++rank) {
    if (!is_member(rank)) continue;
    if (++count <= kRanksShown) ranks += fmt::format("{}{}", ranks.empty() ? "" : ", ", rank);
  }
  if (count > kRanksShown) ranks += ", …";
  return {ranks, count};
}

// "waiting for 2 of 8 workers: 3, 5".
template <class IsMissing>
std::string list_missing(std::uint32_t workers, IsMissing is_missing) {
  const auto [ranks, count] = list_ranks(workers, is_missing);
  if (count == 0) return "nobody is missing";
  return fmt::format("waiting for {} of {} workers: {}", count, workers, ranks);
}

}  // namespace sluice
