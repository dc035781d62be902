#include "codec/lossless/lossless.h"

#include <fmt/format.h>

#include "base/bytes.h"
#include "codec/lossless/lossless_exchange.h"

namespace sluice::lossless {
namespace {

constexpr std::uint32_t kCountMax = 1u << 20;

class LosslessCodec final : public Codec {
 public:
  explicit LosslessCodec(const LosslessSettings& settings) : settings_(settings) {}

  [[nodiscard]] Traits traits(std::uint32_t workers) const override {
    const bool exact = settings_.sum == Sum::exact;
    return {.homomorphic = exact,
            .lossless = exact,
            .unbiased = true,
            .quorum = true,
            .elementwise = true,
            .contraction = Contraction::always,
            .error_max = (exact ? 1 : workers + 1) * 0x1p-24,
            .tally_count = kCountNames.size()};
  }
  [[nodiscard]] Plan plan(const Tensor& tensor, std::uint32_t workers) const override {
    static_cast<void>(workers);
    return {.multiple_of = kBlockMin,
            .count_max = kCountMax,
            .state_size = kRememberedSize * divide_up<std::uint64_t>(tensor.count(), kBlockMin)};
  }
  Exchange* begin(const Chunk& chunk, Arena& arena) const override {
    return arena.make<LosslessExchange>(chunk, arena, settings_);
  }

 private:
  LosslessSettings settings_;
};

}  // namespace

namespace {

Problem refused(std::string_view what, std::string_view accepted) {
  return Problem{Code::invalid_argument,
                 fmt::format("codec 'lossless': {}; accepted: {}", what, accepted)};
}

}  // namespace

Checked<std::unique_ptr<Codec>> make(const OptionValues& options) {
  LosslessSettings settings;
  settings.mode = static_cast<Mode>(options.choice(0));
  settings.sum = static_cast<Sum>(options.choice(1));
  settings.index = static_cast<IndexKind>(options.choice(2));
  settings.leg_bytes = options.integer(3);
  settings.room = options.real(4);
  if (settings.mode == Mode::sketch && settings.sum == Sum::floats) {
    return refused("mode=sketch with sum=float", "sum=exact: floats do not come out of a sketch");
  }
  const bool at_once = settings.index <= IndexKind::bitmap || settings.index == IndexKind::bloom;
  if (settings.mode == Mode::sketch && !at_once) {
    return refused(fmt::format("mode=sketch with index={}", kIndexes[options.choice(2)]),
                   "index=auto, bitmap or bloom, which take one step");
  }
  return std::unique_ptr<Codec>(std::make_unique<LosslessCodec>(settings));
}

}  // namespace sluice::lossless
