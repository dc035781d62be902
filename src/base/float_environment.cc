#include "base/float_environment.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace sluice {

#if defined(__x86_64__)
namespace {
// All exceptions masked, round to nearest, no flush-to-zero, no denormals-are-zero.
constexpr unsigned kDefaultControl = 0x1f80;
}  // namespace

FloatEnvironment::FloatEnvironment() : saved_(_mm_getcsr()) { _mm_setcsr(kDefaultControl); }
FloatEnvironment::~FloatEnvironment() { _mm_setcsr(static_cast<unsigned>(saved_)); }
#elif defined(__aarch64__)
FloatEnvironment::FloatEnvironment() {
  asm volatile("mrs %0, fpcr" : "=r"(saved_));
  asm volatile("msr fpcr, %0" : : "r"(std::uint64_t{0}));
}
FloatEnvironment::~FloatEnvironment() { asm volatile("msr fpcr, %0" : : "r"(saved_)); }
#else
#error "say here how this processor is switched to round-to-nearest with subnormals"
#endif

}  // namespace sluice
