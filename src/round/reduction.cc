#include "round/reduction.h"

#include <algorithm>
#include <bit>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/limits.h"
#include "base/random.h"

namespace sluice {
namespace {

constexpr unsigned kCodeBitsMax = 8;
constexpr unsigned kRoundedBitsMax = 24;

Error invalid(const char* what) { return Error{Code::invalid_argument, 0, what}; }

// Errors of a grain are summed in 64 bits; a grain that could overflow them is refused here.
bool rounding_fits(const Reduction& what, std::uint32_t workers) {
  const double widest = 2.0 * value_max(what) * workers + 2;
  return widest * widest * grain_of(what) < 0x1p63;
}

Status check_lane_sum(const Reduction& what, std::uint32_t workers) {
  if (what.bits < 1 || what.bits > kCodeBitsMax) return invalid("lane_sum: bits must be 1 to 8");
  if (!what.table.empty() && what.table.size() != std::size_t{1} << what.bits) {
    return invalid("lane_sum: a table needs 2^bits entries");
  }
  if (what.down != Down::round) {
    return what.extra == 0 ? ok() : invalid("lane_sum: extra needs down=round");
  }
  if (what.bits + what.extra > kRoundedBitsMax) {
    return invalid("lane_sum: bits + extra must be at most 24");
  }
  if (!rounding_fits(what, workers)) {
    return invalid("lane_sum: grain * (2 * workers * value_max)^2 must stay below 2^63");
  }
  return ok();
}

Status check_integers(const Reduction& what) {
  const bool whole = what.bits == 8 || what.bits == 16 || what.bits == 32 || what.bits == 64;
  switch (what.op) {
    case Op::wrap_sum:
      return what.bits % 8 == 0 && what.bits >= 8 && what.bits <= 64
                 ? ok()
                 : invalid("wrap_sum: bits must be a multiple of 8, from 8 to 64");
    case Op::block_sum:
      if (!whole) return invalid("block_sum: bits must be 8, 16, 32 or 64");
      if (what.grain == 0) return invalid("block_sum: needs a grain");
      return what.grain <= kBlockGrainMax ? ok()
                                          : invalid("block_sum: a grain must be at most 65528");
    case Op::max:
      return what.bits >= 1 && what.bits <= 32 ? ok() : invalid("max: bits must be 1 to 32");
    case Op::gather: return what.bits == 8 ? ok() : invalid("gather: bits must be 8");
    default:
      return what.bits == 8 * floats::size_of(float_format(what.op))
                 ? ok()
                 : invalid("float sum: bits must be those of the format");
  }
}

}  // namespace

std::string_view name_of(Op op) {
  switch (op) {
    case Op::lane_sum: return "lane_sum";
    case Op::wrap_sum: return "wrap_sum";
    case Op::max: return "max";
    case Op::gather: return "gather";
    case Op::block_sum: return "block_sum";
    case Op::f32_sum: return "f32_sum";
    case Op::bf16_sum: return "bf16_sum";
    case Op::f16_sum: return "f16_sum";
  }
  return "unknown";
}

std::string_view name_of(Down down) {
  switch (down) {
    case Down::full: return "full";
    case Down::narrow: return "narrow";
    case Down::round: return "round";
  }
  return "unknown";
}

bool operator==(const Reduction& a, const Reduction& b) {
  return a.op == b.op && a.bits == b.bits && a.down == b.down && a.extra == b.extra &&
         a.count == b.count && a.grain == b.grain &&
         std::equal(a.table.begin(), a.table.end(), b.table.begin(), b.table.end());
}

Status check(const Reduction& what, std::uint32_t workers) {
  if (workers < 1 || workers > kWorkersMax) return invalid("workers must be 1 to 4096");
  if (what.op > Op::f16_sum || what.down > Down::round) return invalid("unknown reduction");
  if (what.count > kLanesMax) return invalid("a round may have at most 2^28 lanes");
  if (what.grain % 8 != 0 || what.grain > kLanesMax) {
    return invalid("a grain must be a multiple of 8 lanes, at most 2^28");
  }
  if (what.op == Op::lane_sum) return check_lane_sum(what, workers);
  if (what.down != Down::full || what.extra != 0 || !what.table.empty()) {
    return invalid("down, extra and table belong to lane_sum");
  }
  return check_integers(what);
}

floats::Format float_format(Op op) {
  SLUICE_ASSERT(is_float_sum(op));
  if (op == Op::f32_sum) return floats::Format::f32;
  return op == Op::bf16_sum ? floats::Format::bf16 : floats::Format::f16;
}

std::uint32_t grain_of(const Reduction& what) {
  return what.grain == 0 || is_list(what.op) ? what.count : std::min(what.grain, what.count);
}

std::uint32_t value_max(const Reduction& what) {
  if (what.table.empty()) return (1u << what.bits) - 1u;
  return *std::max_element(what.table.begin(), what.table.end());
}

unsigned sum_bits(const Reduction& what, std::uint32_t workers) {
  const std::uint64_t top = std::uint64_t{value_max(what)} * workers;
  return std::max(1u, static_cast<unsigned>(std::bit_width(top)));
}

bool is_rounded(const Reduction& what, std::uint32_t workers) {
  return what.down == Down::round &&
         static_cast<unsigned>(what.bits + what.extra) < sum_bits(what, workers);
}

std::size_t up_size(const Reduction& what) {
  if (what.op == Op::gather) return what.count;
  if (what.op == Op::block_sum) {
    return what.count == 0 ? 0 : kBlockListHeader + block_count(what) * block_size_max(what);
  }
  return bytes_for_bits(std::uint64_t{what.count} * what.bits);
}

namespace {

// Sum over grains of header + lanes · bits, each grain in whole bytes.
std::size_t grains_size(const Reduction& what, std::size_t header, unsigned bits) {
  if (what.count == 0) return 0;
  const std::uint32_t grain = grain_of(what);
  const std::uint32_t tail = what.count % grain;
  const std::size_t whole = what.count / grain;
  return whole * (header + bytes_for_bits(std::uint64_t{grain} * bits)) +
         (tail == 0 ? 0 : header + bytes_for_bits(std::uint64_t{tail} * bits));
}

}  // namespace

std::size_t down_size_max(const Reduction& what, std::uint32_t workers) {
  switch (what.op) {
    case Op::gather: return std::size_t{workers} * (kMessageHeader + what.count);
    case Op::lane_sum: {
      const unsigned full = sum_bits(what, workers);
      if (what.down == Down::narrow) {
        return grains_size(what, 1 + bytes_for_bits(full), full);
      }
      if (is_rounded(what, workers)) {
        return grains_size(what, 1, static_cast<unsigned>(what.bits + what.extra));
      }
      return bytes_for_bits(std::uint64_t{what.count} * full);
    }
    default: return up_size(what);
  }
}

bool is_down_size_fixed(const Reduction& what) {
  return !is_list(what.op) && !(what.op == Op::lane_sum && what.down == Down::narrow);
}

std::size_t block_size_max(const Reduction& what) {
  return kBlockHeader + std::size_t{what.grain} * what.bits / 8;
}

std::uint32_t block_count(const Reduction& what) { return divide_up(what.count, what.grain); }

std::uint64_t digest_of(const Reduction& what) {
  std::uint64_t digest =
      mix(static_cast<std::uint64_t>(what.op),
          std::uint64_t{what.bits} << 16 | static_cast<std::uint64_t>(what.down) << 8 | what.extra);
  digest = mix(digest, std::uint64_t{what.count} << 32 | what.grain);
  for (const std::uint16_t entry : what.table) digest = mix(digest, entry);
  return digest;
}

}  // namespace sluice
