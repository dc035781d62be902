/* A C99 user of the installed library: averages two gradients exactly and reads an error. */
#include <sluice/sluice.h>
#include <stdio.h>
#include <string.h>

int main(void) {
  const float a[3] = {1.0f, 2.0f, -4.0f};
  const float b[3] = {3.0f, 2.0f, 8.0f};
  const float* gradients[2] = {a, b};
  float mean[3] = {0.0f, 0.0f, 0.0f};
  if (sluice_abi_version() != SLUICE_ABI_VERSION || sluice_codec_count() == 0) return 1;
  if (sluice_reduce_local("f32", 2, 3, gradients, 0, 0, mean) != SLUICE_OK) return 2;
  if (mean[0] != 2.0f || mean[1] != 2.0f || mean[2] != 2.0f) return 3;
  if (sluice_reduce_local("nope", 2, 3, gradients, 0, 0, mean) != SLUICE_INVALID_ARGUMENT) return 4;
  if (strstr(sluice_last_error(), "nope") == NULL) return 5;
  printf("C: sluice %s averaged with f32\n", sluice_version());
  return 0;
}
