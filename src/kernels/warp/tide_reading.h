// Sums of a block's codes as they came down, and its own codes: where they lie and how they are
// read. round/reduction.h defines the forms.
#pragma once

#include "base/random.h"
#include "kernels/warp/tide_chunk.h"

namespace sluice::warp {

// Of 32 blocks, one in each lane: where their sums lie, and the worker's own codes. Blocks that
// travelled as floats have 32 bits. Of those that did not travel nothing.
template <class W>
struct TideSpans {
  using U = typename W::U;
  using M = typename W::M;
  using Wide = typename W::Wide;

  U index;    // of the round: the width less one, where it is coded
  M coded;    // as codes
  M travels;  // as codes or floats
  M again;    // in the second sending
  M rounded;
  U bits;      // of a sum
  Wide bytes;  // address of the first sum

  SLUICE_WARP TideSpans(const TideChunk& chunk, const TideAhead<W>& ahead) {
    const U width = ahead.widths();
    const M exact = width == U(kTideExact);
    index = W::select(exact, U(kTideRounds - 1), width - U(1u));
    coded = index < U(8u);
    travels = coded | exact;
    again = ahead.has(kTideAgain);
    rounded = W::load(chunk.rounded.data(), index, coded) != U(0u);
    const U full = W::load(chunk.full_bits.data(), index, coded);
    bits = W::select(exact, U(32u), W::select(rounded, width + U(chunk.extra), full));
    // A rounded grain has a byte in front.
    const U grain = ahead.lanes() >> log2_floor(chunk.block);
    const U headers = W::select(rounded, grain + U(1u), U(0u));
    bytes = from(chunk.sendings[0].down.data(), chunk.sendings[1].down.data()) +
            W::template widened<Wide>(headers) + places(ahead.lanes(), bits);
  }
  // The shift of a rounded block: the byte in front of its grain.
  SLUICE_WARP U shifts(const TideChunk& chunk, const TideAhead<W>& ahead) const {
    const U within = ahead.lanes() & (chunk.block - 1);
    return W::byte_at(bytes - places(within, bits) - Wide(1u), rounded);
  }
  // Where the worker's own codes or floats lie.
  SLUICE_WARP Wide own(const TideChunk& chunk, const TideAhead<W>& ahead) const {
    const U width = W::select(coded, index + U(1u), U(32u));
    return from(chunk.sendings[0].up.data(), chunk.sendings[1].up.data()) +
           places(ahead.lanes(), width);
  }
  // The largest sum that all who were counted can reach.
  SLUICE_WARP U tops(const TideChunk& chunk) const {
    return U(chunk.contributors) * ((U(2u) << (index & 7u)) - U(1u));
  }
  // Asks for the sums of all blocks.
  SLUICE_WARP void prefetch(const TideAhead<W>& ahead) const {
    if constexpr (W::kPrefetches) {
      const U size = (bits << ahead.log2_sizes_of()) >> 3;
      prefetch_each<W>(bytes, W::select(coded, size, U(0u)));
    } else {
      static_cast<void>(ahead);
    }
  }

 private:
  // Rounds of either sending.
  template <class Byte>
  SLUICE_WARP Wide from(Byte* const* first, Byte* const* second) const {
    return W::load(first, index, travels & (again == M(false))) |
           W::load(second, index, travels & again);
  }
  SLUICE_WARP static Wide places(U lanes, U bits) {
    return W::template widened<Wide>(lanes >> 3) * W::template widened<Wide>(bits);
  }
};

// Packed lanes of `bits` bits. A lane stands for
// (lane·times + plus + 255 − dither)·factor + centre, modulo 2^32 in the brackets.
struct TideReading {
  const std::byte* bytes = nullptr;
  std::uint32_t bits = 1;
  std::uint32_t times = 256;
  std::uint32_t plus = 0;
  float factor = 0;
  float centre = 0;
};

// What decode needs of a block, in words of a warp's scratch: made for 32 blocks at a time, a block
// in each lane. kOwn: and what keep needs of the worker's own codes.
template <class W, bool kOwn>
class TideRecord {
 public:
  using U = typename W::U;
  static constexpr unsigned kWords = kOwn ? 16 : 12;

  SLUICE_WARP static void put(W& w, const TideChunk& chunk, const TideAhead<W>& ahead, U addends,
                              U multipliers) {
    const TideSpans<W> spans(chunk, ahead);
    spans.prefetch(ahead);
    U r[kWords];
    put_address(r, spans.bytes);
    // sums::reading_of. 128 times twice the sum is lane·times + plus + 255.
    const U shift = spans.shifts(chunk, ahead) & U(31u);  // Larger ones have been refused.
    const U one = U(1u) << shift;
    const U centre = (spans.tops(chunk) + U(1u)) >> 1;
    const U base = (centre << 1) - (one << (spans.bits & 31u)) + one - U(1u);
    r[kBits] = spans.bits;
    r[kTimes] = U(256u) << shift;
    r[kPlus] = W::select(spans.rounded, base << 7, U(0u)) - U(255u);
    const auto faint = (ahead.codes() - U(1u)) < U(kCodeLeast - 1);
    const U code = ahead.codes() + W::select(faint, U(kGainCode), U(0u));
    r[kKind] = ahead.widths() | W::select(faint & spans.coded, U(kFaint), U(0u));
    put_affine(r + kAffine, *chunk.affines, spans, code, ahead.log2_sizes_of());
    r[kKey] = addends;
    r[kKey + 1] = multipliers;
    r[kKey + 2] = r[kKey + 3] = U(0u);
    if constexpr (kOwn) {
      put_address(r + kOwnBytes, spans.own(chunk, ahead));
      r[kOwnAffine] = r[kOwnAffine + 1] = U(0u);
      if (chunk.residual != nullptr) {
        put_affine(r + kOwnAffine, *chunk.own_affines, spans, code, ahead.log2_sizes_of());
      }
    }
    w.template put_records<kWords>(r);
  }

  // Of one of the 32.
  SLUICE_WARP TideRecord(const W& w, std::uint32_t index) {
    w.template record<kWords, 8>(index, 0, words_);
    w.template record<kWords, 2>(index, kKey, words_ + kKey);
    if constexpr (kOwn) w.template record<kWords, 4>(index, kOwnBytes, words_ + kOwnBytes);
  }
  [[nodiscard]] SLUICE_WARP unsigned width() const { return words_[kKind] & 0xffu; }
  [[nodiscard]] SLUICE_WARP bool is_faint() const { return (words_[kKind] & kFaint) != 0; }
  [[nodiscard]] SLUICE_WARP BlockKey key() const { return {words_[kKey], words_[kKey + 1]}; }
  [[nodiscard]] SLUICE_WARP TideReading sums() const {
    return {address(words_), words_[kBits],           words_[kTimes],
            words_[kPlus],   number(words_[kAffine]), number(words_[kAffine + 1])};
  }
  [[nodiscard]] SLUICE_WARP TideReading own() const {
    static_assert(kOwn);
    return {address(words_ + kOwnBytes),   width(), 256, 0u - 255u, number(words_[kOwnAffine]),
            number(words_[kOwnAffine + 1])};
  }

 private:
  static constexpr std::uint32_t kFaint = 256;  // beside the width
  // Words 0 and 1 have the sums' address.
  static constexpr unsigned kBits = 2;
  static constexpr unsigned kTimes = 3;
  static constexpr unsigned kPlus = 4;
  static constexpr unsigned kKind = 5;
  static constexpr unsigned kAffine = 6;
  static constexpr unsigned kKey = 8;
  static constexpr unsigned kOwnBytes = 12;
  static constexpr unsigned kOwnAffine = 14;

  SLUICE_WARP static void put_address(U* words, typename W::Wide address) {
    words[0] = W::narrowed(address);
    words[1] = W::narrowed(address >> 32);
  }
  SLUICE_WARP static void put_affine(U* words, const TideAffines& of, const TideSpans<W>& spans,
                                     U code, U log2_size) {
    const auto affine = affine_of<W>(of, spans.index, code, log2_size, spans.coded);
    words[0] = W::bits(affine.factor);
    words[1] = W::bits(affine.centre);
  }
  SLUICE_WARP static const std::byte* address(const std::uint32_t* words) {
    return address_in(words);
  }
  SLUICE_WARP static float number(std::uint32_t bits) { return std::bit_cast<float>(bits); }

  std::uint32_t words_[kWords];
};

// The lanes of a run, one after the other, out of as few loads as they fit.
template <class W, unsigned kLog2>
SLUICE_WARP void read_run(const W& w, const typename W::Packed& packed, std::uint32_t bits,
                          unsigned run, typename W::U* lanes) {
  using S = Shape<kLog2>;
  using U = typename W::U;
  const auto mask = holds<W, kLog2>(w);
  const U at = run_start<W, kLog2>(w, run) * U(bits);
  if (S::kRun * bits <= 32) {
    const U all = W::window_and_more(packed, at, S::kRun * bits, mask);
    SLUICE_WARP_UNROLL
    for (unsigned j = 0; j < S::kRun; ++j) {
      lanes[j] = (all >> (j * bits)) & ((1u << bits) - 1);
    }
    return;
  }
  SLUICE_WARP_UNROLL
  for (unsigned j = 0; j < S::kRun; ++j) {
    lanes[j] = W::window_and_more(packed, at + U(j * bits), bits, mask) & ((1u << bits) - 1);
  }
}

}  // namespace sluice::warp
