#include "feedback/dgc.h"

#include <cmath>

#include "base/float_environment.h"
#include "kernels/floats/floats.h"

namespace sluice::dgc {
namespace {

class MomentumFeedback final : public Feedback {
 public:
  explicit MomentumFeedback(float momentum) : momentum_(momentum) {}

  void before(std::span<const float> gradient, const Memories& memories,
              std::span<float> input) const override {
    const auto [residual, velocity] = memories;
    for (std::size_t i = 0; i < input.size(); ++i) input[i] = next(velocity[i], gradient[i]);
    floats::add(residual, input, input);
  }

  // The new velocity is made once more: until now nothing may be written, and scratch for it would
  // cost more than the product.
  void after(std::span<const float> gradient, std::span<const float> input,
             std::span<const double> sent, const Memories& memories) const override {
    const auto [residual, velocity] = memories;
    for (std::size_t i = 0; i < residual.size(); ++i) {
      const double gone = sent.empty() ? 0.0 : sent[i];
      const auto rest = static_cast<float>(static_cast<double>(input[i]) - gone);
      if (!std::isfinite(rest)) continue;  // a velocity that is not is in the input, too
      residual[i] = rest;
      velocity[i] = gone != 0 ? 0.0f : next(velocity[i], gradient[i]);
    }
  }

 private:
  [[nodiscard]] float next(float velocity, float gradient) const {
    return momentum_ * velocity + gradient;
  }

  float momentum_;
};

}  // namespace

std::unique_ptr<Feedback> make(const OptionValues& options) {
  const FloatEnvironment environment;  // the host's rounding is not ours
  return std::make_unique<MomentumFeedback>(static_cast<float>(options.real(0)));
}

}  // namespace sluice::dgc
