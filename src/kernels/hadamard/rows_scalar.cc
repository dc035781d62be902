// The specification of rotated rows: one step after the other.
#include <algorithm>
#include <array>

#include "kernels/energy/energy.h"
#include "kernels/hadamard/hadamard.h"
#include "kernels/hadamard/rows.h"
#include "kernels/quantiser/quantiser.h"

namespace sluice::hadamard::scalar {

void rotate_rows(std::span<const float> from, std::span<const float> more,
                 std::span<const std::uint32_t> sign_words, std::size_t row, std::span<float> into,
                 std::span<float> energies) {
  energy::scalar::blocks(from, more, kMeasured, energies);
  for (std::size_t i = 0; i < from.size(); ++i) {
    into[i] = more.empty() ? from[i] : from[i] + more[i];
  }
  for (std::size_t at = 0; at < from.size(); at += row) {
    const auto one = into.subspan(at, row);
    rotate(one, sign_words.subspan(at / 32), 0, 1.0f, one);
  }
}

void unrotate_sums(std::int32_t centre, const SumRow& row) {
  std::array<float, kRowMax> values;
  const auto some = std::span(values).first(row.twice.size());
  quantiser::scalar::means(row.twice, centre, row.unit, some);
  unrotate(some, row.sign_words, 0, row.into);
}

}  // namespace sluice::hadamard::scalar
