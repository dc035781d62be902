#include "codec/tide/tide_decoder.h"

#include <algorithm>

#include "codec/input.h"
#include "codec/tide/faint.h"

namespace sluice::tide {

namespace {

// Whether the mean is best written past the caches: it is not what the encoder has just read, there
// is much of it, and every block of it, of 16 coordinates at least, is on cache lines.
bool is_far(const Chunk& chunk) {
  constexpr std::size_t kMuch = 1u << 14;
  return chunk.mean.data() != chunk.given().data() && chunk.mean.size() >= kMuch &&
         reinterpret_cast<std::uintptr_t>(chunk.mean.data()) % dither::kCacheLine == 0;
}

}  // namespace

Decoder::Decoder(const Chunk& chunk, const dither::Shared& shared, Workers from)
    : chunk_(chunk),
      shared_(shared),
      counted_(from.has(chunk.extent.rank)),
      shift_(shift_of(chunk.extent.rank, chunk.extent.workers)),
      past_caches_(is_far(chunk)) {
  taken_.set(from, chunk.extent.workers);
  for (unsigned width = 1; width <= dither::kWidthMax; ++width) {
    units_[width] = {unit_step(width, taken_.contributors()), taken_.constant(width)};
    own_units_[width] = {unit_step(width, 1), own_constant(width)};
  }
}

void Decoder::nothing(const TideLayout::Block& block) {
  keep_everything(chunk_, block.first, block.count);
  const auto mean = chunk_.mean.subspan(block.first, block.count);
  std::fill(mean.begin(), mean.end(), 0.0f);
}

void Decoder::exact(const TideLayout::Block& block, std::span<const std::byte> own,
                    std::span<const std::byte> sums) {
  const std::size_t size = std::size_t{4} * block.count;
  if (!counted_) {
    keep_everything(chunk_, block.first, block.count);
  } else if (chunk_.residual.empty()) {
    tell_all_sent(chunk_, block.first, block.count);
  } else {
    std::array<float, kBlockMost> memory;
    const auto input = input_tile(chunk_, block.first, block.count, memory);
    floats::residual(floats::Format::f32, input, own.first(size), 1.0f,
                     chunk_.residual.subspan(block.first, block.count));
  }
  floats::decode_mean(floats::Format::f32, sums.first(size), 1.0f,
                      static_cast<float>(taken_.contributors()),
                      chunk_.mean.subspan(block.first, block.count));
}

void Decoder::coded(const TideLayout::Block& block, Form form, std::span<const std::int32_t> twice,
                    std::span<const std::byte> own) {
  if (is_faint(form.code)) return faint(block, form, twice, own);
  const dither::Block place{chunk_.extent.offset + block.first, block.size, form.width};
  const unsigned log2_size = log2_of(block.size);
  if (chunk_.has_feedback()) {
    const Unit& unit = own_units_[form.width];
    rests_[waiting_] = {place, decode_affine(form.code, log2_size, unit.step, unit.constant), own,
                        chunk_.gradient.subspan(block.first, block.count),
                        rest_of(block.first, block.count)};
  }
  const Unit& unit = units_[form.width];
  means_[waiting_] = {place, decode_affine(form.code, log2_size, unit.step, unit.constant), twice,
                      chunk_.mean.subspan(block.first, block.count)};
  if (++waiting_ == kBatch) flush();
}

void Decoder::faint(const TideLayout::Block& block, Form form, std::span<const std::int32_t> twice,
                    std::span<const std::byte> own) {
  const dither::Block place{chunk_.extent.offset + block.first, block.size, form.width};
  const unsigned log2_size = log2_of(block.size);
  const Code12 code = amplified(form.code);
  std::array<float, kBlockMost> memory;
  if (!counted_) {
    keep_everything(chunk_, block.first, block.count);
  } else if (chunk_.has_feedback()) {
    std::array<float, kBlockMost> rest{};
    const Unit& unit = own_units_[form.width];
    dither::Keeping one{place, decode_affine(code, log2_size, unit.step, unit.constant), own,
                        amplified_input(chunk_, block, memory), std::span(rest).first(block.count)};
    if (chunk_.keeper != nullptr) {
      const auto values = own_values(one, rest);
      tell_sent(chunk_, block.first, block.count, [&](std::uint32_t at, std::span<double> sent) {
        const auto input = chunk_.gradient.subspan(block.first + at, sent.size());
        faint_sent(input, values.subspan(at, sent.size()), sent);
      });
    } else {
      dither::keep(shared_, shift_, {&one, 1});
      attenuate(one.rest, chunk_.residual.subspan(block.first, block.count));
    }
  }
  const Unit& unit = units_[form.width];
  const dither::Decoding one{place, decode_affine(code, log2_size, unit.step, unit.constant), twice,
                             std::span(memory).first(block.count)};
  dither::decode(shared_, taken_.dithers(), false, {&one, 1});
  attenuate(one.mean, chunk_.mean.subspan(block.first, block.count));
}

// The kernel takes values off an input: off −0, which leaves the sign of every zero as it is.
std::span<const float> Decoder::own_values(dither::Keeping one, std::span<float> memory) const {
  static constexpr auto kMinusZeros = [] {
    std::array<float, kBlockMost> zeros;
    zeros.fill(-0.0f);
    return zeros;
  }();
  const auto own = memory.first(one.values.size());
  one.values = std::span(kMinusZeros).first(own.size());
  one.rest = own;
  std::fill(own.begin(), own.end(), -0.0f);
  dither::keep(shared_, shift_, {&one, 1});
  for (float& value : own) value = -value;
  return own;
}

void Decoder::tell_coded(const dither::Keeping& one) const {
  std::array<float, kBlockMost> memory;
  const auto own = own_values(one, memory);
  const auto first = static_cast<std::uint32_t>(one.block.element - chunk_.extent.offset);
  tell_sent(chunk_, first, static_cast<std::uint32_t>(own.size()),
            [&](std::uint32_t at, std::span<double> sent) {
              std::copy_n(own.begin() + at, sent.size(), sent.begin());
            });
}

void Decoder::flush() {
  // Residuals first: the mean may be the gradient's own memory.
  if (!counted_) {
    for (const dither::Decoding& one : std::span(means_).first(waiting_)) {
      keep_everything(chunk_, static_cast<std::uint32_t>(one.block.element - chunk_.extent.offset),
                      static_cast<std::uint32_t>(one.mean.size()));
    }
  } else if (!chunk_.residual.empty()) {
    dither::keep(shared_, shift_, std::span(rests_).first(waiting_));
  } else if (chunk_.keeper != nullptr) {
    for (const dither::Keeping& one : std::span(rests_).first(waiting_)) tell_coded(one);
  }
  dither::decode(shared_, taken_.dithers(), past_caches_, std::span(means_).first(waiting_));
  waiting_ = 0;
}

}  // namespace sluice::tide
