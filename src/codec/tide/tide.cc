#include "codec/tide/tide.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/bytes.h"
#include "codec/tide/tide_exchange.h"
#include "codec/tide/tide_needs.h"

namespace sluice::tide {
namespace {

constexpr std::uint32_t kCountMax = 1u << 26;

// Places in kOptions.
enum : std::size_t { kBits, kBlock, kDown, kExtra, kScale, kFloor };
static_assert(kOptions[kDown].key == "down" && kOptions[kFloor].key == "floor");

class TideCodec final : public Codec {
 public:
  explicit TideCodec(const TideSettings& settings) : settings_(settings) {}

  [[nodiscard]] Traits traits(std::uint32_t workers) const override {
    // Not unbiased: what exceeds a block's clamp is cut. Not always a contraction: a block that
    // another worker dominates may come back with more noise than it had energy.
    return {.homomorphic = true,
            .quorum = true,
            .rounds_sums = settings_.down == Down::round && is_cut(workers),
            .fuses_feedback = true,
            .on_device = true,
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
    const Sum sum = sum_of(tensors);
    if (settings_.bits * sum.coordinates >= kCodeBits * sum.blocks) return Nothing{};
    return Problem{
        sluice::Code::invalid_argument,
        fmt::format("codec 'tide': bits={} for {} coordinates in {} blocks, whose scales "
                    "alone take {} bits; accepted: {:.2f} to 8, or larger blocks",
                    settings_.bits, sum.coordinates, sum.blocks, kCodeBits * sum.blocks,
                    std::ceil(100 * kCodeBits * sum.blocks / sum.coordinates) / 100)};
  }

  // The budget is the model's but for the first step, when it is that of a tensor or chunk. One
  // that cannot pay for itself then may be silent once.
  [[nodiscard]] std::uint64_t heard_within(std::span<const Tensor> tensors,
                                           std::uint32_t workers) const override {
    static_cast<void>(workers);
    const Sum all = sum_of(tensors);
    if (all.blocks == 0) return 1;
    if (!settings_.floor || budget_of(all) <= 0) return 0;
    if (!pays_for(all))
      return static_cast<std::uint64_t>(std::ceil(2 * all.lanes / budget_of(all)));
    const bool all_pay = std::all_of(tensors.begin(), tensors.end(), [&](const Tensor& tensor) {
      return pays_for(sum_of({&tensor, 1}));
    });
    return all_pay ? 1 : 2;
  }

  Exchange* begin(const Chunk& chunk, Arena& arena) const override {
    return arena.make<TideExchange>(chunk, arena, settings_);
  }

  [[nodiscard]] DeviceNeeds device_needs(const Extent& extent, bool keeps) const override {
    return tide::device_needs(settings_, extent, keeps);
  }

  void end_step(std::span<const std::uint64_t> tally, std::span<std::byte> model) const override {
    std::array<std::uint64_t, kCountWords> summed;
    sum_from_above(tally, summed);
    for (std::size_t i = 0; i < kCountWords; ++i) store_le(model, 8 * i, summed[i]);
  }

 private:
  // Whether a rounded sum of so many workers has fewer bits than its codes can need.
  [[nodiscard]] bool is_cut(std::uint32_t workers) const {
    for (unsigned width = 1; width <= dither::kWidthMax; ++width) {
      const std::uint64_t most = std::uint64_t{workers} * ((1u << width) - 1);
      if (std::bit_width(most) > width + settings_.extra_for(workers)) return true;
    }
    return false;
  }
  // Of tensors that are cut into blocks.
  struct Sum {
    double coordinates = 0;
    double blocks = 0;
    double lanes = 0;  // coordinates with padding
  };
  [[nodiscard]] Sum sum_of(std::span<const Tensor> tensors) const {
    Sum sum;
    for (const Tensor& tensor : tensors) {
      if (tensor.count() < kExactBelow) continue;
      const auto rest = static_cast<std::uint32_t>(tensor.count() % settings_.block);
      sum.coordinates += static_cast<double>(tensor.count());
      sum.blocks += static_cast<double>(blocks_of(tensor));
      sum.lanes +=
          static_cast<double>(tensor.count() - rest + TideLayout(rest, settings_.block).lanes());
    }
    return sum;
  }
  [[nodiscard]] double budget_of(const Sum& sum) const {
    return std::floor(settings_.bits * sum.coordinates) - kCodeBits * sum.blocks;
  }
  [[nodiscard]] bool pays_for(const Sum& sum) const { return sum.lanes <= budget_of(sum); }
  [[nodiscard]] std::size_t blocks_of(const Tensor& tensor) const {
    const std::uint64_t whole = tensor.count() / settings_.block;
    const auto rest = static_cast<std::uint32_t>(tensor.count() % settings_.block);
    return whole + TideLayout(rest, settings_.block).blocks();
  }

  TideSettings settings_;
};

}  // namespace

void settle(OptionValues& options, bool feedback) {
  double& down = options.values[kDown];
  if (kDowns[options.choice(kDown)] == "auto") {
    down = static_cast<double>(TideSettings{}.down_for(feedback));
  }
}

Checked<std::unique_ptr<Codec>> make(const OptionValues& options) {
  TideSettings settings;
  settings.bits = options.real(kBits);
  settings.block = 64u << options.choice(kBlock);
  if (const std::size_t down = options.choice(kDown); kDowns[down] != "auto") {
    settings.down = static_cast<Down>(down);
  }
  if (const std::size_t extra = options.choice(kExtra); extra != 0) {
    settings.extra = static_cast<std::uint8_t>(extra - 1);
  }
  settings.scales = static_cast<Scales>(options.choice(kScale));
  settings.floor = options.choice(kFloor) != 0;
  if (settings.extra && settings.down_for(false) != Down::round) {
    return Problem{sluice::Code::invalid_argument,
                   fmt::format("codec 'tide': extra={} with down={}; accepted: extra=auto, or "
                               "down=round, or down=auto without feedback",
                               kExtras[options.choice(kExtra)], kDowns[options.choice(kDown)])};
  }
  return std::unique_ptr<Codec>(std::make_unique<TideCodec>(settings));
}

}  // namespace sluice::tide
