// A C++ user of the installed library: every codec of the catalogue by name.
#include <sluice/sluice.h>

#include <cmath>
#include <cstdio>
#include <vector>

int main() {
  const std::vector<float> a(1000, 0.5f);
  const std::vector<float> b(1000, 1.5f);
  const float* gradients[] = {a.data(), b.data()};
  for (size_t i = 0; i < sluice_codec_count(); ++i) {
    std::vector<float> mean(a.size());
    const char* const codec = sluice_codec_name(i);
    if (sluice_reduce_local(codec, 2, a.size(), gradients, 1, 1, mean.data()) != SLUICE_OK) {
      std::printf("%s: %s\n", codec, sluice_last_error());
      return 1;
    }
    std::printf("C++: %s gives %g\n", codec, static_cast<double>(mean[999]));
  }
  return sluice_codec_name(sluice_codec_count()) == nullptr ? 0 : 1;
}
