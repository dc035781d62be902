// The standard normal law, by additions, multiplications, divisions and square roots alone. So
// tables and scales that come from it have the same bits on every machine, which libraries do not
// promise.
//
// Pure functions for any thread, without allocation. The caller rounds to nearest, or the bits are
// others. An argument outside of its range asserts.
#pragma once

namespace sluice::thc {

inline constexpr double kDeviationsMax = 8;  // the functions below are for |z| up to this

double density(double z);     // φ(z), within 1e-14 of itself
double upper_tail(double t);  // P(Z > t) for t ≥ 0, within 1e-13 of itself

// The t with P(|Z| > t) = p: both tails together hold p. p from kMassMin to kMassMax.
double clamp_point(double p);
// E[(|Z| − t)²; |Z| > t]: what clamping to [−t, t] costs a coordinate of variance 1. t from 0 to
// kDeviationsMax.
double clamp_cost(double t);

// Below a millionth the clamp point (4.89) is beyond what a chunk of 2^20 coordinates reaches once.
// From 0.9 on it is an eighth of a deviation, and the clamp is all there is. The best of one bit is
// near 0.6.
inline constexpr double kMassMin = 1e-6;
inline constexpr double kMassMax = 0.9;

}  // namespace sluice::thc
