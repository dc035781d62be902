#include "codec/thc/normal_law.h"

#include <cmath>

#include "base/assert.h"

namespace sluice::thc {
namespace {

constexpr double kInverseRootTwoPi = 0.39894228040143267794;

// e^x − 1 for 0 ≤ x ≤ 32: Taylor's series of x / 2^11, doubled back by (1 + e)² − 1 = e (2 + e).
// Nothing is subtracted, so the error stays at a few last places.
double grown_minus_one(double x) {
  constexpr int kDoublings = 11;
  const double y = x / (1 << kDoublings);
  double e = 0;
  for (int term = 9; term >= 1; --term) e = (e + 1) * y / term;
  for (int i = 0; i < kDoublings; ++i) e = e * (2 + e);
  return e;
}

}  // namespace

double density(double z) {
  SLUICE_ASSERT(std::fabs(z) <= kDeviationsMax);
  return kInverseRootTwoPi / (1 + grown_minus_one(z * z / 2));
}

double upper_tail(double t) {
  SLUICE_ASSERT(t >= 0 && t <= kDeviationsMax);
  if (t < 2) {
    // P(0 < Z < t) = φ(t) · (t + t³/3 + t⁵/(3·5) + …)
    double term = t;
    double sum = t;
    for (int k = 1; k <= 60; ++k) {
      term = term * t * t / (2 * k + 1);
      sum += term;
    }
    return 0.5 - density(t) * sum;
  }
  // Laplace's continued fraction φ(t) / (t + 1/(t + 2/(t + …))), from far inside; a depth of 200
  // leaves e^−80 at t = 2.
  double below = t;
  for (int k = 200; k >= 1; --k) below = t + k / below;
  return density(t) / below;
}

double clamp_point(double p) {
  SLUICE_ASSERT(p >= kMassMin && p <= kMassMax);
  double low = 0;
  double high = 6;
  for (int i = 0; i < 64; ++i) {
    const double middle = (low + high) / 2;
    (2 * upper_tail(middle) > p ? low : high) = middle;
  }
  return high;
}

double clamp_cost(double t) { return 2 * ((1 + t * t) * upper_tail(t) - t * density(t)); }

}  // namespace sluice::thc
