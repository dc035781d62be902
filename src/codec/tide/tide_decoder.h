// Writes the mean and what feedback keeps, once everything has been read.
//
// Lives for one call of the exchange, on its thread, inside a FloatEnvironment. Never allocates or
// fails: sums and codes were checked before.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "codec/chunk.h"
#include "codec/tide/summed_dithers.h"
#include "codec/tide/tide_layout.h"
#include "codec/tide/tide_scales.h"
#include "kernels/dither/dither.h"

namespace sluice::tide {

inline constexpr std::size_t kBatch = 16;  // blocks handed to a kernel at once; they fit L1

class Decoder {
 public:
  // How a block travelled.
  struct Form {
    std::uint8_t width = 0;
    Code12 code = 0;
  };

  // `from`: who was counted in every block of the chunk. Keeps references to chunk and shared,
  // which outlive it. Each block of the chunk is then handed over once, and flush() comes last.
  Decoder(const Chunk& chunk, const dither::Shared& shared, Workers from);

  // A block without bits: its mean is zero and everybody keeps all of it.
  void nothing(const TideLayout::Block& block);
  // A block that travelled as float32.
  void exact(const TideLayout::Block& block, std::span<const std::byte> own,
             std::span<const std::byte> sums);
  // A block of codes: twice their sums, and my own. Done by the next flush() at the latest, so the
  // spans stay put until then.
  void coded(const TideLayout::Block& block, Form form, std::span<const std::int32_t> twice,
             std::span<const std::byte> own);
  void flush();

 private:
  // A faint block of codes, at once.
  void faint(const TideLayout::Block& block, Form form, std::span<const std::int32_t> twice,
             std::span<const std::byte> own);

  // What my codes stand for.
  std::span<const float> own_values(dither::Keeping one, std::span<float> memory) const;
  void tell_coded(const dither::Keeping& one) const;
  [[nodiscard]] std::span<float> rest_of(std::uint32_t first, std::uint32_t count) const {
    return chunk_.residual.empty() ? chunk_.residual : chunk_.residual.subspan(first, count);
  }

  const Chunk& chunk_;
  const dither::Shared& shared_;
  bool counted_;
  std::uint32_t shift_;
  bool past_caches_;
  SummedDithers taken_;
  // By width, of all who were counted and of my own codes.
  struct Unit {
    double step = 0;
    double constant = 0;
  };
  std::array<Unit, dither::kWidthMax + 1> units_{};
  std::array<Unit, dither::kWidthMax + 1> own_units_{};
  std::size_t waiting_ = 0;
  std::array<dither::Decoding, kBatch> means_;
  std::array<dither::Keeping, kBatch> rests_;
};

}  // namespace sluice::tide
