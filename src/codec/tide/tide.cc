#include "codec/tide/tide.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/bytes.h"
#include "codec/tide/exchange.h"

namespace sluice::tide {
namespace {

constexpr std::uint32_t kCountMax = 1u << 26;

class TideCodec final : public Codec {
 public:
  explicit TideCodec(const Settings& settings) : settings_(settings) {}

  [[nodiscard]] Traits traits(std::uint32_t workers) const override {
    static_cast<void>(workers);
    // Not unbiased: what exceeds a block's clamp is cut. Not always a contraction: a block that
    // another worker dominates may come back with more noise than it had energy.
    return {.homomorphic = true,
            .quorum = true,
            .contraction = Contraction::typical,
            .model_size = kCountWords * sizeof(std::uint64_t),
            .tally_count = kCountWords};
  }

  [[nodiscard]] Plan plan(const Tensor& tensor, std::uint32_t workers) const override {
    static_cast<void>(workers);
    Plan plan{.multiple_of = settings_.block, .count_max = kCountMax};
    if (settings_.scales == Scales::previous) plan.state_size = 2 * blocks_of(tensor);
    return plan;
  }

  // The scales alone must not cost more than everything may.
  [[nodiscard]] Verdict accepts(std::span<const Tensor> tensors,
                                std::uint32_t workers) const override {
    static_cast<void>(workers);
    double coordinates = 0;
    double blocks = 0;
    for (const Tensor& tensor : tensors) {
      if (tensor.count() < kExactBelow) continue;
      coordinates += static_cast<double>(tensor.count());
      blocks += static_cast<double>(blocks_of(tensor));
    }
    if (settings_.bits * coordinates >= kCodeBits * blocks) return Nothing{};
    return Problem{
        sluice::Code::invalid_argument,
        fmt::format("codec 'tide': bits={} for {} coordinates in {} blocks, whose scales "
                    "alone take {} bits; accepted: {:.2f} to 8, or larger blocks",
                    settings_.bits, coordinates, blocks, kCodeBits * blocks,
                    std::ceil(100 * kCodeBits * blocks / coordinates) / 100)};
  }

  Exchange* begin(const Chunk& chunk, Arena& arena) const override {
    return arena.make<TideExchange>(chunk, arena, settings_);
  }

  void end_step(std::span<const std::uint64_t> tally, std::span<std::byte> model) const override {
    std::array<std::uint64_t, kCountWords> summed;
    sum_from_above(tally, summed);
    for (std::size_t i = 0; i < kCountWords; ++i) store_le(model, 8 * i, summed[i]);
  }

 private:
  [[nodiscard]] std::size_t blocks_of(const Tensor& tensor) const {
    const std::uint64_t whole = tensor.count() / settings_.block;
    const auto rest = static_cast<std::uint32_t>(tensor.count() % settings_.block);
    return whole + Layout(rest, settings_.block).blocks();
  }

  Settings settings_;
};

}  // namespace

Checked<std::unique_ptr<Codec>> make(const OptionValues& options) {
  Settings settings;
  settings.bits = options.real(0);
  settings.block = 64u << options.choice(1);
  settings.down = static_cast<Down>(options.choice(2));
  if (options.choice(3) != 0) settings.extra = static_cast<std::uint8_t>(options.choice(3) - 1);
  settings.scales = static_cast<Scales>(options.choice(4));
  if (settings.extra && settings.down != Down::round) {
    return Problem{sluice::Code::invalid_argument,
                   fmt::format("codec 'tide': extra={} with down={}; accepted: extra=auto, or "
                               "down=round",
                               kExtras[options.choice(3)], kDowns[options.choice(2)])};
  }
  return std::unique_ptr<Codec>(std::make_unique<TideCodec>(settings));
}

}  // namespace sluice::tide
