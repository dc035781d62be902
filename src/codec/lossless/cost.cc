#include "codec/lossless/cost.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/assert.h"

namespace sluice::lossless {
namespace {

constexpr double kLn2 = 0.6931471805599453;
constexpr std::uint32_t kGranuleMax = 4096;

// base^power by squaring: multiplications only.
double power_of(double base, std::uint32_t power) {
  double result = 1;
  for (; power != 0; power >>= 1) {
    if ((power & 1) != 0) result *= base;
    base *= base;
  }
  return result;
}

double density_of(const Outlook& outlook) {
  return std::clamp(outlook.keys / outlook.count, 1e-9, 1.0);
}

// Granules that are expected to have keys, were they scattered.
double expected_marked(const Outlook& outlook, std::uint32_t granule) {
  const double empty = power_of(1 - density_of(outlook), granule);
  return (1 - empty) * outlook.count / granule;
}

}  // namespace

double log2_of(double value) {
  int exponent = 0;
  double fraction = std::frexp(value, &exponent);  // in [1/2, 1)
  double result = exponent;
  // A bit of the logarithm per squaring.
  for (double bit = 0.5; bit > 0x1p-11; bit /= 2) {
    fraction *= fraction;
    if (fraction < 0.5) {
      fraction *= 2;
      result -= bit;
    }
  }
  return result;
}

std::uint8_t size_code(std::uint32_t size) {
  if (size < 8) return static_cast<std::uint8_t>(size);
  const auto shift = static_cast<unsigned>(std::bit_width(size)) - 4;
  return static_cast<std::uint8_t>(8 * shift + (size >> shift));
}

std::uint32_t size_floor(std::uint8_t code) {
  if (code < 16) return code;
  const unsigned shift = std::min(code / 8u - 1, 28u);
  return (8 + code % 8u) << shift;
}

std::uint32_t size_ceiling(std::uint8_t code) {
  return code >= 239 ? 0xffffffffu : size_floor(static_cast<std::uint8_t>(code + 1)) - 1;
}

double keys_of_granules(const Outlook& outlook, std::uint32_t granule, double marked) {
  // By bisection: the density at which as many granules would be marked.
  Outlook guess = outlook;
  double low = outlook.keys_min;
  double high = outlook.keys_max;
  for (int i = 0; i < 24; ++i) {
    guess.keys = (low + high) / 2;
    (expected_marked(guess, granule) < marked ? low : high) = guess.keys;
  }
  return (low + high) / 2;
}

double tiers_cost(const Outlook& outlook, std::uint32_t granule, double marked,
                  std::uint32_t leg_bytes) {
  if (marked < 0) {
    const double asked = static_cast<double>(outlook.count) / granule;
    const double here = asked / 8 + leg_bytes;
    if (granule == 1) return here;
    return here + tiers_cost(outlook, granule, expected_marked(outlook, granule), leg_bytes);
  }
  if (granule == 1) return 0;
  const std::uint32_t next = next_granule(outlook, granule, marked, leg_bytes);
  const double asked = marked * granule / next;
  const double after =
      next == 1
          ? 0
          : tiers_cost(outlook, next, std::min(asked, expected_marked(outlook, next)), leg_bytes);
  return asked / 8 + leg_bytes + after;
}

std::uint32_t next_granule(const Outlook& outlook, std::uint32_t granule, double marked,
                           std::uint32_t leg_bytes) {
  SLUICE_ASSERT(granule >= 4);
  // Four ways, as long as a step is worth it: that is within a tenth of the best for scattered
  // keys, and needs the fewest steps of those that are.
  std::uint32_t best = 1;
  double cost = marked * granule / 8;
  for (std::uint32_t next = granule / 4; next > 1; next /= 4) {
    const double asked = marked * granule / next;
    const double kept = std::min(asked, expected_marked(outlook, next));
    double total = asked / 8;
    double left = kept;
    for (std::uint32_t then = next; then > 1; then /= 4) {
      total += left * 4 / 8 + leg_bytes;
      left = std::min(left * 4, expected_marked(outlook, then / 4));
    }
    if (total < cost) {
      cost = total;
      best = next;
    }
  }
  return best;
}

std::uint32_t first_granule(const Outlook& outlook, std::uint32_t leg_bytes) {
  std::uint32_t best = 1;
  double cost = tiers_cost(outlook, 1, -1, leg_bytes);
  for (std::uint32_t granule = 4; granule <= kGranuleMax && granule < outlook.count; granule *= 4) {
    const double other = tiers_cost(outlook, granule, -1, leg_bytes);
    if (other >= cost) continue;
    cost = other;
    best = granule;
  }
  return best;
}

double gather_cost(const Outlook& outlook, double places) {
  const double total = std::max(outlook.total, 1.0);
  const double each = std::max(log2_of(std::max(places * outlook.workers / total, 1.0)), 0.0) + 2;
  const double bytes = total * each / 8 + 12.0 * outlook.workers;
  return (bytes / outlook.workers + bytes) / 2;
}

BloomShape bloom_shape(std::uint32_t count, double keys, unsigned value_bits) {
  const double density = std::clamp(keys / count, 1e-9, 0.5);
  const double rate = std::clamp(density / (kLn2 * kLn2 * value_bits * (1 - density)), 1e-9, 0.5);
  const double doublings = -log2_of(rate);
  const double bits = std::max(keys, 1.0) * doublings / kLn2;
  return {static_cast<std::uint32_t>(
              std::clamp(bits, 64.0, std::max(64.0, static_cast<double>(count)))),
          static_cast<std::uint32_t>(std::max(1.0, std::floor(doublings + 0.5)))};
}

}  // namespace sluice::lossless
