// Limits that several layers rely on, each with its reason.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice {

inline constexpr std::uint32_t kWorkersMax = 4096;      // what `local` can step in one process
inline constexpr std::uint32_t kWorkerThreadsMax = 64;  // beyond it `local` steps the workers
inline constexpr std::size_t kWorkerWordsMax = kWorkersMax / 64;  // of a set of workers
inline constexpr std::uint32_t kLanesMax = 1u << 28;              // of one round: 1 GiB of float32
inline constexpr std::size_t kAlignment = 64;           // of every buffer an arena hands out
inline constexpr std::uint32_t kTableEntriesMax = 256;  // codes of 8 bits
inline constexpr std::size_t kLegRoundsMax = 32;        // independent rounds of one leg

static_assert(kWorkersMax % 64 == 0, "sets of workers are whole words");

}  // namespace sluice
