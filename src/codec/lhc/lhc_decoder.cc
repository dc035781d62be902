#include "codec/lhc/lhc_decoder.h"

#include <array>

namespace sluice::lhc {
namespace {

bool has(std::span<const std::byte> index, std::size_t i) {
  return ((std::to_integer<unsigned>(index[i / 8]) >> (i % 8)) & 1) != 0;
}

// A lane of the sketch.
struct Column {
  std::span<float> sketch;
  std::uint32_t lane;

  [[nodiscard]] float& at(std::uint32_t row) const {
    return sketch[std::size_t{row} * kBlock + lane];
  }
};

float estimate(const BlockHash& hash, const Column& column) {
  std::array<float, 3> guesses{};
  for (std::size_t j = 0; j < 3; ++j) guesses[j] = hash.signs[j] * column.at(hash.rows[j]);
  return median(guesses[0], guesses[1], guesses[2]);
}

// The value in the row that has no other key, taken out of all three.
float take(const BlockHash& hash, std::uint32_t row, const Column& column) {
  float value = 0;
  for (std::size_t j = 0; j < 3; ++j) {
    if (hash.rows[j] == row) value = hash.signs[j] * column.at(row);
  }
  for (std::size_t j = 0; j < 3; ++j) column.at(hash.rows[j]) -= hash.signs[j] * value;
  return value;
}

}  // namespace

LaneDecoder::LaneDecoder(Arena& arena, std::uint32_t blocks, std::uint32_t rows)
    : rows_(rows),
      blocks_(arena.host<std::uint32_t>(blocks)),
      keys_(arena.host<peeling::Buckets>(blocks)),
      order_(arena.host<peeling::Peeled>(blocks)),
      stuck_(arena.host<std::uint32_t>(blocks)),
      scratch_{arena.host<peeling::Cell>(rows), arena.host<std::uint32_t>(rows)} {}

std::size_t LaneDecoder::decode(std::span<const std::byte> index, std::uint32_t lane,
                                std::span<const BlockHash> hashes, std::span<float> sketch,
                                std::span<float> sums) const {
  std::uint32_t count = 0;
  for (std::uint32_t block = 0; block < hashes.size(); ++block) {
    const std::size_t i = std::size_t{block} * kBlock + lane;
    if (i >= sums.size() || !has(index, i)) continue;
    blocks_[count] = block;
    keys_[count++] = hashes[block].rows;
  }
  const std::size_t peeled = peeling::order(keys_.first(count), rows_, scratch_, order_, stuck_);
  const Column column{sketch, lane};
  const auto sum_of = [&](std::uint32_t key) -> float& {
    return sums[std::size_t{blocks_[key]} * kBlock + lane];
  };
  for (const peeling::Peeled& next : order_.first(peeled)) {
    sum_of(next.key) = take(hashes[blocks_[next.key]], next.bucket, column);
  }
  for (const std::uint32_t key : stuck_.first(count - peeled)) {
    sum_of(key) = estimate(hashes[blocks_[key]], column);
  }
  return count - peeled;
}

}  // namespace sluice::lhc
