#include "kernels/warp/tide_numbers.h"

#include <gtest/gtest.h>

#include "codec/tide/faint.h"
#include "codec/tide/summed_dithers.h"
#include "codec/tide/tide_layout.h"
#include "codec/tide/tide_scales.h"
#include "kernels/warp/warp_host.h"

namespace sluice::warp {
namespace {

using U = HostWarp::U;

TEST(TideNumbers, ConstantsAreTheCodecs) {
  EXPECT_EQ(kCodeZero, tide::kCodeZero);
  EXPECT_EQ(kCodeNotFinite, tide::kCodeNotFinite);
  EXPECT_EQ(kCodeLeast, tide::kCodeLeast);
  EXPECT_EQ(kCodeAboveFaint, tide::kCodeAboveFaint);
  EXPECT_EQ(kGainCode, tide::amplified(0));
  EXPECT_EQ(kCodeOfOne, tide::kCodeOfOne);
  for (std::uint32_t code = 0; code < 4096; ++code) {
    EXPECT_EQ(is_faint(code), tide::is_faint(static_cast<tide::Code12>(code)));
  }
}

TEST(TideNumbers, CodesOfEnergiesAreTheCodecsAtEveryBorder) {
  std::vector<std::uint32_t> mantissas{0, 1, 0x7fffff, 0x400000};
  for (const std::uint32_t border : {0x0b95c2u, 0x25fed7u, 0x45672bu, 0x6ac0c7u}) {
    for (const std::uint32_t off : {0u, 1u, 2u}) mantissas.push_back(border + off - 1);
  }
  for (std::uint32_t exponent = 0; exponent < 256; ++exponent) {
    for (const std::uint32_t mantissa : mantissas) {
      const auto energy = std::bit_cast<float>(exponent << 23 | mantissa);
      for (unsigned log2 = 4; log2 <= 10; ++log2) {
        ASSERT_EQ(code_of(energy, log2), tide::code_of(energy, log2)) << energy;
      }
    }
  }
}

TEST(TideNumbers, FactorsAreTheCodecsForAllCodesAndSizes) {
  const TideTables<HostWarp> tables{HostWarp()};
  for (std::uint32_t code = tide::kCodeLeast; code <= tide::kCodeMost; ++code) {
    for (unsigned log2 = 4; log2 <= 10; ++log2) {
      ASSERT_EQ(HostWarp::broadcast(tables.factors(U(code), U(log2)), 0),
                tide::encode_factor(static_cast<tide::Code12>(code), log2))
          << code;
    }
  }
  for (unsigned width = 1; width <= 8; ++width) {
    EXPECT_EQ(HostWarp::broadcast(tables.multipliers(U(width - 1)), 0), dither::kMultiplier[width]);
  }
}

TideAffines affines_with(std::uint32_t contributors, double constant_of(unsigned, std::uint32_t)) {
  TideAffines affines;
  for (unsigned width = 1; width <= 8; ++width) {
    for (std::size_t j = 0; j < 8; ++j) {
      const double step = tide::detail::kEighths[j] * tide::unit_step(width, contributors);
      affines.factor[width - 1][j] = static_cast<float>(step);
      affines.centre[width - 1][j] = static_cast<float>(step * constant_of(width, contributors));
    }
  }
  return affines;
}

// Of all workers, or with the shifts left out, as of one of them alone.
double constant_of_all(unsigned width, std::uint32_t workers) {
  const WorkerSet all = WorkerSet::all(workers);
  tide::SummedDithers dithers;
  dithers.set(all.view(), workers);
  return dithers.constant(width);
}
double constant_of_some(unsigned width, std::uint32_t workers) {
  return 0.5 * (255 - 256 * ((1 << width) - 1)) * workers;
}

void expect_affines(std::uint32_t contributors, double constant(unsigned, std::uint32_t)) {
  const TideAffines affines = affines_with(contributors, constant);
  for (unsigned width = 1; width <= 8; ++width) {
    const double step = tide::unit_step(width, contributors);
    const double centre = constant(width, contributors);
    for (std::uint32_t code = tide::kCodeLeast; code <= tide::kCodeMost; ++code) {
      // A size in each lane.
      const U log2s = U(4u) + HostWarp::select(HostWarp::lane() < U(7u), HostWarp::lane(), U(0u));
      const TideAffine<HostWarp> mine =
          affine_of<HostWarp>(affines, U(width - 1), U(code), log2s, HostWarp::M(true));
      for (unsigned log2 = 4; log2 <= 10; ++log2) {
        const auto wanted =
            tide::decode_affine(static_cast<tide::Code12>(code), log2, step, centre);
        ASSERT_EQ(HostWarp::broadcast(mine.factor, log2 - 4), wanted.factor)
            << contributors << ' ' << width << ' ' << code;
        ASSERT_EQ(HostWarp::broadcast(mine.centre, log2 - 4), wanted.centre)
            << contributors << ' ' << width << ' ' << code;
      }
    }
  }
}

TEST(TideNumbers, AffinesAreTheCodecsForAllCodesWidthsAndNumbersOfWorkers) {
  for (std::uint32_t m = 1; m <= 64; ++m) expect_affines(m, constant_of_all);
  for (const std::uint32_t m : {1u, 3u, 63u, 4095u}) expect_affines(m, constant_of_some);
  expect_affines(4096, constant_of_all);
}

TEST(TideNumbers, BlocksLieWhereTheLayoutSays) {
  for (const std::uint32_t block : {16u, 64u, 128u, 256u, 512u, 1024u}) {
    const unsigned log2 = tide::log2_of(block);
    for (std::uint32_t count = 0; count < 3 * block + 40; ++count) {
      const tide::TideLayout layout(count, block);
      ASSERT_EQ(block_count(count, block, log2), layout.blocks()) << count;
      for (std::uint32_t b = 0; b < layout.blocks(); ++b) {
        const TidePlace place = place_of(count, block, log2, b);
        ASSERT_EQ(place.first, layout[b].first) << count;
        ASSERT_EQ(place.count, layout[b].count) << count;
        ASSERT_EQ(1u << place.log2_size, layout[b].size) << count;
      }
    }
  }
}

}  // namespace
}  // namespace sluice::warp
