// Lane sums of whole strips: 1024 codes that lie on vectors of memory, 32 to a lane of the warp. So
// a contributor costs a load of a few words, and its codes add up eight at a time before they are
// looked at one by one.
#pragma once

#include "kernels/warp/packing.h"
#include "kernels/warp/sum_rounding.h"

namespace sluice::warp {

template <class W>
class SumStrips {
 public:
  using I = typename W::I;
  using U = typename W::U;

  static constexpr std::uint32_t kStrip = 1024;
  static constexpr std::uint32_t kEach = kStrip / kLanes;  // codes of a lane
  static constexpr std::uint32_t kDownBitsMax = 16;
  static constexpr std::uint32_t kRoundBitsMax = 12;  // of a code, and four beyond it
  // Of the warp's scratch: all sums of a strip, and a header for every lane at the most.
  static constexpr std::uint32_t kTileBits = kStrip * kDownBitsMax + 8 * kLanes;

  // Whether whole strips of the segment can be reduced here. Sums have 16 bits at the most, and the
  // squares of a grain's errors 32.
  SLUICE_WARP static bool take(const Sum& sum) {
    if (sum.op != SumOp::lane_sum || sum.down_bits > kDownBitsMax) return false;
    const bool grains = sum.grain >= kEach && sum.grain <= kStrip && kStrip % sum.grain == 0;
    const std::uint32_t top = sum.contributors * ((1u << sum.bits) - 1);
    const bool form = sum.form == SumForm::full || (top < 2048 && sum.down_bits <= kRoundBitsMax);
    return grains && sum.contributors <= 256 && form && is_aligned(sum.source, kVector) &&
           sum.stride % kVector == 0;
  }

  SLUICE_WARP SumStrips(W& w, const Sum& sum)
      : w_(w), it_(sum), top_(sum.contributors * ((1u << sum.bits) - 1)) {}

  SLUICE_WARP void one(std::uint32_t strip) {
    U halves[kHalves];
    SLUICE_WARP_UNROLL
    for (unsigned i = 0; i < kHalves; ++i) halves[i] = U(0u);
    switch (it_.bits) {
      case 1: add<1>(strip, halves); break;
      case 2: add<2>(strip, halves); break;
      case 3: add<3>(strip, halves); break;
      case 4: add<4>(strip, halves); break;
      case 5: add<5>(strip, halves); break;
      case 6: add<6>(strip, halves); break;
      case 7: add<7>(strip, halves); break;
      default: add<8>(strip, halves); break;
    }
    write(strip, halves);
  }

 private:
  static constexpr std::uintptr_t kVector = 16;  // bytes
  static constexpr unsigned kGroups = kEach / kGroup;
  // Sums in pairs of 16 bits, four to a group: those of codes 0 and 4, 2 and 6, 1 and 5, 3 and 7.
  static constexpr unsigned kHalves = kEach / 2;

  // kCount bits, at most 32, from a bit of a lane's words on; above them there may be anything.
  template <unsigned kCount>
  SLUICE_WARP static U bits_from(const U* words, unsigned first) {
    const unsigned shift = first % 32;
    const U low = words[first / 32] >> shift;
    if (shift + kCount <= 32) return low;
    return low | (words[first / 32 + 1] << (32 - shift));
  }

  // Spreads four fields of a word over two: the first and third, and the second and fourth, each in
  // 16 bits.
  template <unsigned kField>
  SLUICE_WARP static void add_spread(U word, U& even, U& odd) {
    constexpr std::uint32_t kMask = (1u << kField) - 1;
    constexpr unsigned kUp = 16 - 2 * kField;
    const U next = word >> kField;
    even = even + ((word & kMask) | ((word << kUp) & (kMask << 16)));
    odd = odd + ((next & kMask) | ((next << kUp) & (kMask << 16)));
  }

  // Up to four bits: every other code makes a word of four fields twice as wide, in which
  // 2^kBits + 1 workers' codes add up before they are spread.
  template <unsigned kBits>
  struct Narrow {
    static constexpr std::uint32_t kBatch = kBits == 1 ? 3 : 4;
    static constexpr std::uint32_t kHeld = ((1u << kBits) + 1) / kBatch * kBatch;
    static constexpr std::uint32_t kPair = ((1u << kBits) - 1) | ((1u << kBits) - 1) << (2 * kBits);
    static constexpr std::uint32_t kOthers = kPair | kPair << (4 * kBits);

    U even[kGroups];
    U odd[kGroups];

    SLUICE_WARP Narrow() { clear(); }
    SLUICE_WARP void clear() {
      SLUICE_WARP_UNROLL
      for (unsigned g = 0; g < kGroups; ++g) even[g] = odd[g] = U(0u);
    }
    SLUICE_WARP void add(const U* words) {
      SLUICE_WARP_UNROLL
      for (unsigned g = 0; g < kGroups; ++g) {
        const U word = bits_from<8 * kBits>(words, 8 * kBits * g);
        even[g] = even[g] + (word & kOthers);
        odd[g] = odd[g] + ((word >> kBits) & kOthers);
      }
    }
    SLUICE_WARP void spread(U* halves) {
      SLUICE_WARP_UNROLL
      for (unsigned g = 0; g < kGroups; ++g) {
        U* const four = halves + std::size_t{4} * g;
        add_spread<2 * kBits>(even[g], four[0], four[1]);
        add_spread<2 * kBits>(odd[g], four[2], four[3]);
      }
      clear();
    }
  };

  // Five bits and more: two runs of four codes to a group.
  template <unsigned kBits>
  struct Wide {
    static constexpr std::uint32_t kBatch = 2;
    static constexpr std::uint32_t kHeld = 256;  // 16 bits hold that many

    U runs[kHalves];  // codes 0 and 2, 1 and 3, 4 and 6, 5 and 7 of each group

    SLUICE_WARP Wide() {
      SLUICE_WARP_UNROLL
      for (unsigned i = 0; i < kHalves; ++i) runs[i] = U(0u);
    }
    SLUICE_WARP void add(const U* words) {
      SLUICE_WARP_UNROLL
      for (unsigned r = 0; r < 2 * kGroups; ++r) {
        add_spread<kBits>(bits_from<4 * kBits>(words, 4 * kBits * r), runs[2 * r], runs[2 * r + 1]);
      }
    }
    SLUICE_WARP void spread(U* halves) {
      SLUICE_WARP_UNROLL
      for (unsigned i = 0; i < kHalves; i += 4) {
        SLUICE_WARP_UNROLL
        for (unsigned j = 0; j < 2; ++j) {
          const U low = runs[i + j];
          const U high = runs[i + j + 2];
          halves[i + 2 * j] = (low & 0xffffu) | (high << 16);
          halves[i + 2 * j + 1] = (low >> 16) | (high & 0xffff0000u);
        }
      }
    }
  };

  template <unsigned kBits>
  SLUICE_WARP void add(std::uint32_t strip, U* halves) const {
    if constexpr (kBits <= 4) {
      add_all<Narrow<kBits>, kBits>(strip, halves);
    } else {
      add_all<Wide<kBits>, kBits>(strip, halves);
    }
  }

  template <class Adder, unsigned kBits>
  SLUICE_WARP void add_all(std::uint32_t strip, U* halves) const {
    constexpr std::uint32_t kBatch = Adder::kBatch;
    const std::byte* const from = it_.source + std::uint64_t{strip} * kStrip / 8 * kBits;
    Adder adder;
    std::uint32_t held = 0;
    for (std::uint32_t first = 0; first < it_.contributors; first += kLanes) {
      const std::uint32_t left = it_.contributors - first;
      const std::uint32_t here = left < kLanes ? left : kLanes;
      const U ranks = W::load(it_.ranks + first, w_.lane(), w_.lane() < U(here));
      SLUICE_WARP_NO_UNROLL
      for (std::uint32_t i = 0; i < here; i += kBatch) {
        U words[kBatch][kBits];
        // All loads first: they are on their way together.
        SLUICE_WARP_UNROLL
        for (std::uint32_t k = 0; k < kBatch; ++k) {
          const std::uint64_t rank = W::broadcast(ranks, (i + k) % kLanes);
          if (i + k < here) {
            W::template load_words<kBits>(from + rank * it_.stride, w_.lane(), words[k]);
          } else {
            SLUICE_WARP_UNROLL
            for (unsigned j = 0; j < kBits; ++j) words[k][j] = U(0u);
          }
        }
        if (held + kBatch > Adder::kHeld) {
          adder.spread(halves);
          held = 0;
        }
        SLUICE_WARP_UNROLL
        for (std::uint32_t k = 0; k < kBatch; ++k) adder.add(words[k]);
        held += kBatch;
      }
    }
    adder.spread(halves);
  }

  // The sums of a group, in order.
  SLUICE_WARP static void sums_of(const U* halves, unsigned group, U* sums) {
    SLUICE_WARP_UNROLL
    for (unsigned j = 0; j < 4; ++j) {
      const unsigned at = j % 2 * 2 + j / 2;
      sums[at] = halves[4 * group + j] & 0xffffu;
      sums[at + 4] = halves[4 * group + j] >> 16;
    }
  }

  // Of one lane's sums, for a shift that cuts nothing off: Σ(2r + 1 − 2^shift)², where r is what is
  // shifted out. Sums of 256 workers have 8 bits more than a code, so r has no more than that.
  SLUICE_WARP U uncut_error(std::uint32_t shift, const U* halves) const {
    if (shift == 1) return U(kEach);
    // Sums less the centre, plus a multiple of 2^shift.
    const std::uint32_t plus = ((0u - ((top_ + 1) >> 1)) & ((1u << shift) - 1)) * 0x10001u;
    const std::uint32_t mask = ((1u << shift) - 1) * 0x10001u;
    U once(0u);
    U squares(0u);
    SLUICE_WARP_UNROLL
    for (unsigned i = 0; i < kHalves; i += 2) {
      const U four = ((halves[i] + plus) & mask) | (((halves[i + 1] + plus) & mask) << 8);
      once = W::dot(four, U(0x01010101u), once);
      squares = W::dot(four, four, squares);
    }
    const std::uint32_t off = (1u << shift) - 1;
    return (squares << 2) - once * U(4 * off) + U(kEach * off * off);
  }
  // For any shift.
  SLUICE_WARP U squared_error(std::uint32_t shift, const U* halves) const {
    const std::uint32_t bits = it_.down_bits;
    if (shift != 0) {
      return squares(halves, [&](U sum) { return twice_off<W>(sum, top_, bits, shift); });
    }
    // Only what is cut off is lost.
    const std::int32_t half = std::int32_t{1} << (bits - 1);
    const std::int32_t plus = half - static_cast<std::int32_t>((top_ + 1) >> 1);
    const U quarter = squares(halves, [&](U sum) {
      return W::as_int(sum) + I(plus) - W::clamped(W::as_int(sum), plus, 2 * half - 1);
    });
    return quarter << 2;
  }
  template <class Off>
  SLUICE_WARP static U squares(const U* halves, Off off) {
    U total(0u);
    SLUICE_WARP_UNROLL
    for (unsigned g = 0; g < kGroups; ++g) {
      U sums[kGroup];
      sums_of(halves, g, sums);
      SLUICE_WARP_UNROLL
      for (unsigned j = 0; j < kGroup; ++j) total = total + W::template squared<U>(off(sums[j]));
    }
    return total;
  }

  // sums::best_shift of each lane's grain. The largest shift cuts nothing off.
  SLUICE_WARP U best_shift(const U* halves) const {
    const std::uint32_t most = shift_max(top_, it_.down_bits);
    if (most == 0) return U(0u);
    U best(0u);
    U least = of_grain(squared_error(0, halves));
    SLUICE_WARP_NO_UNROLL
    for (std::uint32_t shift = 1; shift < most; ++shift) {
      take_less(of_grain(squared_error(shift, halves)), shift, least, best);
    }
    take_less(of_grain(uncut_error(most, halves)), most, least, best);
    return best;
  }
  SLUICE_WARP U of_grain(U error) const {
    for (std::uint32_t apart = 1; apart < it_.grain / kEach; apart *= 2) {
      error = error + W::shuffle_xor(error, apart);
    }
    return error;
  }
  SLUICE_WARP static void take_less(U error, std::uint32_t shift, U& least, U& best) {
    const auto better = error < least;
    best = W::select(better, U(shift), best);
    least = W::select(better, error, least);
  }

  // Sums on their way down. Those of a lane fill `down_bits` words, whatever that number is.
  SLUICE_WARP void write(std::uint32_t strip, const U* halves) {
    if (it_.form == SumForm::full) {
      return write_as<1, kDownBitsMax, false>(strip, halves, U(0u));
    }
    write_as<1, kRoundBitsMax, true>(strip, halves, best_shift(halves));
  }
  template <unsigned kLeast, unsigned kMost, bool kRounds>
  SLUICE_WARP void write_as(std::uint32_t strip, const U* halves, U shift) {
    if constexpr (kLeast < kMost) {
      constexpr unsigned kMiddle = (kLeast + kMost) / 2;
      if (it_.down_bits <= kMiddle) return write_as<kLeast, kMiddle, kRounds>(strip, halves, shift);
      write_as<kMiddle + 1, kMost, kRounds>(strip, halves, shift);
    } else if constexpr (kRounds) {
      write_rounded<kLeast>(strip, halves, shift);
    } else {
      write_full<kLeast>(strip, halves);
    }
  }
  template <unsigned kDown>
  SLUICE_WARP void write_full(std::uint32_t strip, const U* halves) {
    w_.tile_begin();
    const U first = W::settled(w_.lane()) * U(kDown);
    pack<kDown>(
        halves, [](U sum) { return sum; },
        [&](unsigned k, U word) { w_.tile_word(first + U(k), word); });
    w_.template tile_write_words<kDown>(it_.down +
                                        std::uint64_t{strip} * (std::uint64_t{kStrip / 8} * kDown));
  }
  template <unsigned kDown>
  SLUICE_WARP void write_rounded(std::uint32_t strip, const U* halves, U shift) {
    // Settled, or what follows from it for all widths is made before the first strip.
    const U lane = W::settled(w_.lane());
    const unsigned log2_each = log2_floor(it_.grain / kEach);  // of the lanes of a grain
    const U number = lane >> log2_each;
    const std::uint32_t grains = kLanes >> log2_each;
    std::byte* const to = it_.down + std::uint64_t{strip} * (kStrip / 8 * kDown + grains);
    // A header for every grain so far.
    const U at = lane * U(4 * kDown) + number + U(1u + W::tile_start(to) / 8);
    w_.tile_begin();
    const U within = lane & ((1u << log2_each) - 1);
    w_.tile_bytes(at - U(1u), shift, U(0u), 1, within == U(0u));
    WordsAt<W> words(at);
    pack<kDown>(
        halves, [&](U sum) { return rounded<W>(sum, top_, kDown, shift); },
        [&](unsigned k, U word) { words.put(w_, k, word); });
    words.finish(w_, kDown);
    w_.tile_write(to, kStrip / 8 * kDown + grains);
  }
  // Codes of kDown bits, one behind the other: calls put(k, word) for each word, in order. Each as
  // soon as it is full, or they would take all registers.
  template <unsigned kDown, class Code, class Put>
  SLUICE_WARP static void pack(const U* halves, Code code, Put put) {
    U word(0u);
    SLUICE_WARP_UNROLL
    for (unsigned g = 0; g < kGroups; ++g) {
      U sums[kGroup];
      sums_of(halves, g, sums);
      SLUICE_WARP_UNROLL
      for (unsigned j = 0; j < kGroup; ++j) {
        const unsigned at = (g * kGroup + j) * kDown;
        const U one = code(sums[j]);
        word = at % 32 == 0 ? one : word | (one << (at % 32));
        if (at % 32 + kDown < 32) continue;
        put(at / 32, word);
        if (at % 32 + kDown > 32) word = one >> (32 - at % 32);
      }
    }
  }

  W& w_;
  const Sum& it_;
  std::uint32_t top_;
};

}  // namespace sluice::warp
