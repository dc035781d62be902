#include "codec/thc/thc.h"

#include <fmt/format.h>

#include <bit>

#include "base/limits.h"
#include "codec/thc/thc_exchange.h"
#include "codec/thc/thc_settings.h"

namespace sluice::thc {
namespace {

constexpr std::uint32_t kBlockDefault = 1024;
constexpr std::uint32_t kBlockMin = 16;  // below it scales cost more than codes

static_assert(
    std::uint64_t{kGridMax} * kWorkersMax < (1u << 24),
    "every sum is exact in float32 and fits the reductions, so no worker count is refused");
static_assert(kBitsMax == quantiser::kBitsMax && kGridMax == quantiser::kLargestMax);
static_assert(kOptions[kBits].maximum == kBitsMax && kOptions[kGrid].maximum == kGridMax);
static_assert(kOptions[kRotation].maximum == kChunkMax);

class ThcCodec final : public Codec {
 public:
  explicit ThcCodec(ThcSettings settings) : settings_(std::move(settings)) {}

  [[nodiscard]] Traits traits(std::uint32_t workers) const override {
    static_cast<void>(workers);
    // Biased: what is clamped is lost to the mean and comes back only through feedback. A worker
    // whose norm is small beside another's may lose more than it has: typical, not always.
    return {.homomorphic = true,
            .quorum = true,
            .rounds_sums = settings_.down == Down::round,
            .fuses_feedback = true,
            .contraction = takes_off() ? Contraction::typical : Contraction::never};
  }
  [[nodiscard]] Plan plan(const Tensor& tensor, std::uint32_t workers) const override {
    static_cast<void>(tensor);
    static_cast<void>(workers);
    return {.multiple_of = settings_.block,
            .count_max = settings_.one_block ? settings_.block : kChunkMax};
  }
  Exchange* begin(const Chunk& chunk, Arena& arena) const override {
    return arena.make<ThcExchange>(chunk, arena, settings_);
  }

 private:
  // Whether a normal vector loses less than it has. With bounds in place of a clamp, one bit's
  // error is near the squared range and two bits' is below the variance.
  [[nodiscard]] bool takes_off() const {
    if (settings_.range == ThcRange::minmax) return settings_.bits > 1;
    return settings_.table.rounding + settings_.table.clamping < 1;
  }

  ThcSettings settings_;
};

Problem refused(std::string_view what, std::string_view accepted) {
  return {Code::invalid_argument,
          fmt::format("codec 'thc': {} is not accepted; accepted: {}", what, accepted)};
}

Verdict set_grid(const OptionValues& options, ThcSettings& settings) {
  const std::uint32_t g_min = grid_min(settings.bits);
  const std::uint32_t g = options.integer(kGrid);
  if (settings.range == ThcRange::minmax) {
    if (g != 0 && g != g_min) {
      return refused(fmt::format("g={} with range=minmax and bits={}", g, settings.bits),
                     fmt::format("0 or {}", g_min));
    }
    settings.g = g_min;
    return Nothing{};
  }
  if (g != 0 && g < g_min) {
    return refused(fmt::format("g={} with bits={}", g, settings.bits),
                   fmt::format("0 (automatic) or {} to {}", g_min, kGridMax));
  }
  settings.g = g != 0 ? g : settings.bits == 4 ? 30 : g_min;
  return Nothing{};
}

// What is mixed and what has one scale. A scale over several rotations side by side is not offered:
// it loses an order of magnitude where layers differ (§5.4 of the study in the README).
Verdict set_blocks(Grouping grouping, std::uint32_t rotation, ThcSettings& settings) {
  if (rotation != 0 && !std::has_single_bit(rotation)) {
    return refused(fmt::format("rotation={}", rotation), "0 or a power of two up to 1048576");
  }
  if (settings.range == ThcRange::minmax) {
    if (rotation > 1) {
      return refused(fmt::format("rotation={} with range=minmax", rotation), "0 or 1");
    }
    if (grouping == Grouping::strided) {
      return refused("grouping=strided with range=minmax", "blocks or full");
    }
    settings.rotation = 1;
    settings.block = grouping == Grouping::full ? kChunkMax : kBlockDefault;
    settings.one_block = grouping == Grouping::full;
    return Nothing{};
  }
  if (grouping == Grouping::strided) {
    settings.rotation = rotation != 0 ? rotation : kBlockDefault;
    settings.block = kChunkMax;
    settings.one_block = true;
    return Nothing{};
  }
  if (rotation != 0 && rotation < kBlockMin) {
    return refused(fmt::format("rotation={} with grouping={}", rotation,
                               kGroupings[static_cast<std::size_t>(grouping)]),
                   "0 or 16 to 1048576 (less with grouping=strided)");
  }
  const bool full = grouping == Grouping::full;
  settings.rotation = rotation != 0 ? rotation : full ? kChunkMax : kBlockDefault;
  settings.block = settings.rotation;
  settings.one_block = full;
  return Nothing{};
}

}  // namespace

Checked<std::unique_ptr<Codec>> make(const OptionValues& options) {
  ThcSettings settings;
  settings.bits = options.integer(kBits);
  settings.range = static_cast<ThcRange>(options.choice(kRange));
  settings.rounding = static_cast<ThcRounding>(options.choice(kRounding));
  settings.down = static_cast<Down>(options.choice(kDown));
  settings.extra = options.integer(kExtra);
  SLUICE_TRY(set_grid(options, settings));
  SLUICE_TRY(set_blocks(static_cast<Grouping>(options.choice(kGrouping)),
                        options.integer(kRotation), settings));
  const double p = options.real(kMass);
  if (settings.range == ThcRange::minmax && p != kOptions[kMass].preset) {
    return refused(fmt::format("p={} with range=minmax", p), "the default: nothing is clamped");
  }
  if (settings.extra != 0 && settings.down != Down::round) {
    return refused(fmt::format("extra={} with down={}", settings.extra, name_of(settings.down)),
                   "0; more with down=round");
  }
  settings.table = make_table({.bits = settings.bits,
                               .g = settings.g,
                               .p = p,
                               .shape = static_cast<Shape>(options.choice(kTable))});
  settings.quantiser = quantiser::make_quantiser(settings.table.values);
  return std::unique_ptr<Codec>(std::make_unique<ThcCodec>(std::move(settings)));
}

}  // namespace sluice::thc
