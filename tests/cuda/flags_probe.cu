// What the compiler's flags do to a product and a sum. Never linked: tests/cuda/run reads its PTX.
//
// A compiler that may fuse makes one instruction, and other bits, of each of these expressions.

__global__ void fuses_unless_told(float* values, const float* sums) {
  const unsigned i = threadIdx.x;
  values[i] = values[i] * values[i] + sums[i];
}

__global__ void fuses_doubles_unless_told(double* values, const double* sums) {
  const unsigned i = threadIdx.x;
  values[i] = values[i] * values[i] - sums[i];
}

__global__ void fuses_because_told(float* values, const float* sums) {
  const unsigned i = threadIdx.x;
  values[i] = __fmaf_rn(values[i], values[i], sums[i]);
}

__global__ void divides(float* values, const float* by) {
  const unsigned i = threadIdx.x;
  values[i] = values[i] / by[i] + sqrtf(by[i]);
}

float fuses_on_the_host_unless_told(float value, float sum) { return value * value + sum; }
