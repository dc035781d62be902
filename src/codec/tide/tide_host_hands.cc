// The hands of the host: kernels, at once.
#include <algorithm>
#include <array>

#include "codec/input.h"
#include "codec/tide/faint.h"
#include "codec/tide/tide_decoder.h"
#include "codec/tide/tide_hands.h"
#include "kernels/dither/dither.h"
#include "kernels/energy/energy.h"

namespace sluice::tide {
namespace {

constexpr std::uint32_t kMeasured = 256;  // blocks measured at a time

class HostHands final : public Hands {
 public:
  HostHands(Trip& trip, Arena& arena)
      : trip_(trip),
        chunk_(trip.chunk),
        layout_(trip.layout),
        signs_(arena.host<dither::Signs>(1)) {}

  [[nodiscard]] bool is_later() const override { return false; }
  void measure() override { measure(0, layout_.blocks()); }
  void encode_agreed(Sending& sending) override;
  void encode_and_measure() override;
  Status finish(std::span<const Answer> first, std::span<const Answer> again) override;
  void encode_exact(std::span<std::byte> up) override {
    encode_exact({0, chunk_.extent.count, chunk_.extent.count}, up);
  }
  void finish_exact(const Answer& answer) override {
    const dither::Shared shared{signs_[0], dithers()};
    Decoder decoder(chunk_, shared, answer.parts[0].from);
    decoder.exact({0, chunk_.extent.count, chunk_.extent.count}, trip_.first.memory_up(),
                  answer.down);
  }

 private:
  [[nodiscard]] Code12 my_code(const TideLayout::Block& block, float energy) const {
    const Code12 code = code_of(energy, log2_of(block.size));
    return code == kCodeZero ? faint_code(chunk_, block) : code;
  }
  void measure(std::uint32_t first, std::uint32_t end);
  void encode_exact(const TideLayout::Block& block, std::span<std::byte> up);
  void encode_some(Sending::Cursor& cursor, std::uint32_t first, std::uint32_t end);
  void encode_weak(std::uint32_t number, std::uint8_t width, Code12 code, std::span<std::byte> up);
  void encode_again(dither::Encoding one, std::uint32_t number);
  [[nodiscard]] Code12 code_to_send(std::uint32_t number) const;
  void decode_block(Decoder& decoder, std::span<const Answer> answers, std::uint32_t number,
                    const Returned& returned) const;

  [[nodiscard]] dither::Encoding encoding_of(const TideLayout::Block& block, std::uint8_t width,
                                             Code12 code, std::span<std::byte> up) const {
    return {{chunk_.extent.offset + block.first, block.size, width},
            encode_factor(code, log2_of(block.size)),
            chunk_.gradient.subspan(block.first, block.count),
            residual_of(block),
            up,
            nullptr};
  }
  [[nodiscard]] RandomStream dithers() const { return {chunk_.key, Purpose::dither, kShared}; }
  // One sign per place in a block, the same for all blocks of the tensor in this step.
  [[nodiscard]] dither::Shared shared() {
    if (!has_signs_) {
      dither::draw_signs(RandomStream(chunk_.key, Purpose::sign, kShared), trip_.settings.block,
                         signs_[0]);
      has_signs_ = true;
    }
    return {signs_[0], dithers()};
  }
  [[nodiscard]] std::span<const float> residual_of(const TideLayout::Block& block) const {
    if (chunk_.residual.empty()) return {};
    return chunk_.residual.subspan(block.first, block.count);
  }

  Trip& trip_;
  const Chunk& chunk_;
  const TideLayout& layout_;
  std::span<dither::Signs> signs_;  // one
  bool has_signs_ = false;
};

// My scale codes of blocks [first, end).
void HostHands::measure(std::uint32_t first, std::uint32_t end) {
  std::array<float, kMeasured> energies;
  std::uint32_t b = first;
  while (b < end) {
    const TideLayout::Block block = layout_[b];
    const std::uint32_t whole_end = std::min(end, layout_.whole());
    const std::uint32_t blocks = b < layout_.whole() ? std::min(kMeasured, whole_end - b) : 1;
    const std::uint32_t count = blocks == 1 ? block.count : blocks * block.size;
    const TideLayout::Block run{block.first, block.size, count};
    energy::blocks(chunk_.gradient.subspan(run.first, count), residual_of(run), block.size,
                   energies);
    for (std::uint32_t i = 0; i < blocks; ++i) {
      trip_.mine[b + i] = my_code(layout_[b + i], energies[i]);
    }
    b += blocks;
  }
}

void HostHands::encode_exact(const TideLayout::Block& block, std::span<std::byte> up) {
  std::array<float, kBlockMost> memory;
  const auto input = input_tile(chunk_, block.first, block.count, memory);
  floats::encode(floats::Format::f32, input, 1.0f, up.first(std::size_t{4} * block.count));
  const auto padding = up.subspan(std::size_t{4} * block.count);
  std::fill(padding.begin(), padding.end(), std::byte{0});
}

void HostHands::encode_agreed(Sending& sending) {
  if (!trip_.counted) return sending.clear();
  std::array<dither::Encoding, kBatch> batch;
  std::size_t waiting = 0;
  const auto flush = [&] {
    dither::encode(shared(), trip_.shift, std::span(batch).first(waiting));
    waiting = 0;
  };
  Sending::Cursor cursor;
  for (std::uint32_t b = 0; b < layout_.blocks(); ++b) {
    const std::uint8_t width = sending.widths()[b];
    if (width == 0) continue;
    const TideLayout::Block block = layout_[b];
    const auto up = sending.own(width, cursor.take(width, block.size), block.size);
    if (width == kExact) {
      encode_exact(block, up);
      continue;
    }
    if (trip_.agreed[b] < kCodeAboveFaint) {
      encode_weak(b, width, trip_.agreed[b], up);
      continue;
    }
    batch[waiting] = encoding_of(block, width, trip_.agreed[b], up);
    if (++waiting == kBatch) flush();
  }
  flush();
}

// A block that is faint, or so weak that a residual that waits may exceed its scale.
void HostHands::encode_weak(std::uint32_t number, std::uint8_t width, Code12 code,
                            std::span<std::byte> up) {
  const TideLayout::Block block = layout_[number];
  const bool faint = is_faint(code);
  std::array<float, kBlockMost> memory;
  dither::Encoding one = encoding_of(block, width, faint ? amplified(code) : code, up);
  if (trip_.mine[number] == kCodeZero) {
    one.values = one.more = {};
  } else if (faint) {
    one.values = amplified_input(chunk_, block, memory);
    one.more = {};
  }
  dither::encode(shared(), trip_.shift, {&one, 1});
}

void HostHands::encode_and_measure() {
  Sending::Cursor cursor;
  for (std::uint32_t first = 0; first < layout_.blocks(); first += kBatch) {
    encode_some(cursor, first, std::min<std::uint32_t>(first + kBatch, layout_.blocks()));
  }
}

// With the scales of the step before; my own new ones come out of the same pass over memory.
void HostHands::encode_some(Sending::Cursor& cursor, std::uint32_t first, std::uint32_t end) {
  std::array<dither::Encoding, kBatch> batch;
  std::array<std::uint32_t, kBatch> number;
  std::array<float, kBatch> energies;
  std::size_t waiting = 0;
  for (std::uint32_t b = first; b < end; ++b) {
    const std::uint8_t width = trip_.first.widths()[b];
    const TideLayout::Block block = layout_[b];
    if (width == 0) {
      measure(b, b + 1);
      continue;
    }
    const auto up = trip_.first.own(width, cursor.take(width, block.size), block.size);
    if (trip_.before[b] < kCodeAboveFaint) {
      measure(b, b + 1);
      if (trip_.mine[b] == kCodeNotFinite) {
        encode_again(encoding_of(block, width, kCodeOfOne, up), b);
      } else {
        encode_weak(b, width, code_to_send(b), up);
      }
      continue;
    }
    batch[waiting] = encoding_of(block, width, trip_.before[b], up);
    batch[waiting].energy = &energies[waiting];
    number[waiting++] = b;
  }
  dither::encode(shared(), trip_.shift, std::span(batch).first(waiting));
  for (std::size_t i = 0; i < waiting; ++i) {
    const std::uint32_t b = number[i];
    trip_.mine[b] = my_code(layout_[b], energies[i]);
    if (trip_.mine[b] > trip_.before[b] + kDampedFrom) encode_again(batch[i], b);
  }
}

// A block that has outgrown its scale: once more, damped. One with Inf or NaN as zeros: it will be
// sent again exactly, and what a processor makes of a NaN here is its own affair.
void HostHands::encode_again(dither::Encoding one, std::uint32_t number) {
  one.energy = nullptr;
  if (trip_.mine[number] == kCodeNotFinite) {
    one.values = one.more = {};
  } else {
    one.factor = encode_factor(code_to_send(number), log2_of(one.block.size));
  }
  dither::encode(shared(), trip_.shift, {&one, 1});
}

// The previous step's, or a larger one for a block of mine that has outgrown it.
Code12 HostHands::code_to_send(std::uint32_t number) const {
  const auto damped = static_cast<Code12>(std::max(0, trip_.mine[number] - kDampedFrom));
  return std::max(trip_.before[number], damped);
}

Status HostHands::finish(std::span<const Answer> first, std::span<const Answer> again) {
  const std::uint32_t workers = chunk_.extent.workers;
  if (again.empty() || trip_.alike) SLUICE_TRY(trip_.first.read(first, workers));
  if (!again.empty()) SLUICE_TRY(trip_.again.read(again, workers));
  const dither::Shared shared = this->shared();
  Decoder decoder(chunk_, shared, trip_.only);
  each_returned(trip_, !again.empty(), [&](std::uint32_t number, const Returned& returned) {
    decode_block(decoder, returned.is_again ? again : first, number, returned);
  });
  decoder.flush();
  return ok();
}

void HostHands::decode_block(Decoder& decoder, std::span<const Answer> answers,
                             std::uint32_t number, const Returned& returned) const {
  const TideLayout::Block block = layout_[number];
  if (returned.width == 0) return decoder.nothing(block);
  const auto own = returned.sending->own(returned.width, returned.lane, block.size);
  if (returned.width == kExact) {
    const auto sums = answers[Sending::index_of(returned.width)].down.subspan(
        std::size_t{4} * returned.lane, std::size_t{4} * block.size);
    return decoder.exact(block, own, sums);
  }
  decoder.coded(block, {returned.width, returned.code},
                returned.sending->twice(returned.width, returned.lane, block.size), own);
}

}  // namespace

Hands* make_host_hands(Trip& trip, Arena& arena) { return arena.make<HostHands>(trip, arena); }

}  // namespace sluice::tide
