#include "feedback/ef.h"

#include <cmath>

#include "kernels/floats/floats.h"

namespace sluice::ef {
namespace {

class ErrorFeedback final : public Feedback {
 public:
  void before(std::span<const float> gradient, const Memories& memories,
              std::span<float> input) const override {
    floats::add(gradient, memories[0], input);
  }

  void after(std::span<const float> gradient, std::span<const float> input,
             std::span<const double> sent, const Memories& memories) const override {
    static_cast<void>(gradient);
    const auto residual = memories[0];
    if (!sent.empty()) return floats::residual(input, sent, residual);
    for (std::size_t i = 0; i < residual.size(); ++i) {
      if (std::isfinite(input[i])) residual[i] = input[i];
    }
  }
};

}  // namespace

std::unique_ptr<Feedback> make(const OptionValues&) { return std::make_unique<ErrorFeedback>(); }

}  // namespace sluice::ef
