// What a codec object of this folder was made for. The codec owns its settings and never changes
// them; exchanges on any thread read them.
#pragma once

#include <algorithm>
#include <cstdint>

#include "codec/thc/tables.h"
#include "kernels/quantiser/quantiser.h"
#include "round/reduction.h"

namespace sluice::thc {

inline constexpr std::uint32_t kChunkMax = 1u << 20;  // coordinates: the largest rotation
inline constexpr std::uint32_t kGrain = 256;          // lanes under one header of a narrow answer

enum class Grouping : std::uint8_t { blocks, strided, full };
enum class ThcRange : std::uint8_t { norm, minmax };
enum class ThcRounding : std::uint8_t { stochastic, stratified, nearest };

struct ThcSettings {
  std::uint32_t bits = 4;
  std::uint32_t g = 30;
  std::uint32_t block = 1024;     // coordinates with one scale
  std::uint32_t rotation = 1024;  // coordinates that are mixed, at most a block
  bool one_block = false;         // a chunk is one block
  ThcRange range = ThcRange::norm;
  ThcRounding rounding = ThcRounding::stochastic;
  Down down = Down::full;
  std::uint32_t extra = 0;
  Table table;
  quantiser::Quantiser quantiser;  // the table as the kernels want it

  // Coordinates mixed in a block of so many.
  [[nodiscard]] std::uint32_t mixed(std::uint32_t count) const { return std::min(rotation, count); }
};

}  // namespace sluice::thc
