// The C functions, called as a C program would.
#include <gtest/gtest.h>
#include <sluice/sluice.h>

#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace {

TEST(Abi, VersionsAreThoseOfTheHeader) {
  EXPECT_EQ(sluice_abi_version(), static_cast<uint32_t>(SLUICE_ABI_VERSION));
  EXPECT_NE(std::string(sluice_version()).find('.'), std::string::npos);
}

TEST(Abi, CatalogueEndsWithNull) {
  ASSERT_GE(sluice_codec_count(), 4u);
  EXPECT_STREQ(sluice_codec_name(0), "f32");
  EXPECT_EQ(sluice_codec_name(sluice_codec_count()), nullptr);
}

// A codec's SPEC with one option set, as the option's own page says.
std::string spec_with(const char* codec, const sluice_codec_option& option, double value) {
  std::string text = std::string(codec) + ":" + option.key + "=";
  if (option.kind == 2) return text + option.choices[static_cast<size_t>(value)];
  if (option.kind == 0) return text + std::to_string(static_cast<long long>(value));
  return text + std::to_string(value);
}

TEST(Abi, OptionsSayWhatIsAccepted) {
  size_t found = 0;
  for (size_t i = 0; i < sluice_codec_count(); ++i) {
    EXPECT_STRNE(sluice_codec_summary(i), "");
    size_t count = 99;
    const sluice_codec_option* const options = sluice_codec_options(i, &count);
    ASSERT_EQ(options == nullptr, count == 0);
    for (size_t j = 0; j < count; ++j, ++found) {
      const sluice_codec_option& option = options[j];
      SCOPED_TRACE(option.text);
      EXPECT_EQ(std::string(option.text).rfind(std::string(option.key) + "=", 0), 0u);
      EXPECT_STRNE(option.help, "");
      ASSERT_LE(option.kind, 2u);
      EXPECT_EQ(option.choice_count > 1, option.kind == 2);
      EXPECT_EQ(option.minimum < option.maximum, option.kind != 2);
      // The default is accepted and changes nothing.
      sluice_codec* codec = nullptr;
      ASSERT_EQ(
          sluice_codec_make(spec_with(sluice_codec_name(i), option, option.preset).c_str(), &codec),
          SLUICE_OK)
          << sluice_last_error();
      EXPECT_STREQ(sluice_codec_spec(codec), sluice_codec_name(i));
      sluice_codec_free(codec);
      if (option.kind == 2) continue;
      EXPECT_EQ(sluice_codec_make(
                    spec_with(sluice_codec_name(i), option, option.maximum + 1).c_str(), &codec),
                SLUICE_INVALID_ARGUMENT);
    }
  }
  EXPECT_GT(found, 10u);
  size_t count = 99;
  EXPECT_EQ(sluice_codec_options(sluice_codec_count(), &count), nullptr);
  EXPECT_EQ(count, 0u);
  EXPECT_EQ(sluice_codec_summary(sluice_codec_count()), nullptr);
}

TEST(Abi, EveryCodecAveragesEqualGradientsToThemselves) {
  const std::vector<float> gradient(1000, 0.75f);
  const std::vector<const float*> gradients(3, gradient.data());
  for (size_t i = 0; i < sluice_codec_count(); ++i) {
    std::vector<float> mean(gradient.size());
    ASSERT_EQ(sluice_reduce_local(sluice_codec_name(i), 3, gradient.size(), gradients.data(), 1, 2,
                                  mean.data()),
              SLUICE_OK)
        << sluice_last_error();
    EXPECT_STREQ(sluice_last_error(), "");
    // Nothing is promised of what is not sparse.
    if (std::string_view(sluice_codec_name(i)) == "lhc") continue;
    // Lossy codecs err by a hundredth of the energy or so at their default options.
    double error = 0;
    for (const float value : mean) error += (value - 0.75) * (value - 0.75);
    EXPECT_LT(error, 0.03 * 0.75 * 0.75 * static_cast<double>(mean.size())) << sluice_codec_name(i);
  }
}

// A first eighth with almost all the energy gets almost all the bits, though a call by a group
// would be cut into chunks with a budget each.
TEST(Abi, OneCallHasOneBudget) {
  constexpr std::size_t kCount = 1 << 19;
  std::vector<std::vector<float>> workers(2, std::vector<float>(kCount));
  std::vector<double> wanted(kCount);
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  for (std::size_t i = 0; i < kCount; ++i) {
    for (auto& worker : workers) {
      worker[i] = normal(random) * (i < kCount / 8 ? 1.0f : 1e-4f);
      wanted[i] += worker[i] / 2.0;
    }
  }
  const float* const gradients[] = {workers[0].data(), workers[1].data()};
  std::vector<float> mean(kCount);
  ASSERT_EQ(sluice_reduce_local("tide:bits=3", 2, kCount, gradients, 0, 0, mean.data()), SLUICE_OK);
  double error = 0;
  double energy = 0;
  for (std::size_t i = 0; i < kCount; ++i) {
    error += (mean[i] - wanted[i]) * (mean[i] - wanted[i]);
    energy += wanted[i] * wanted[i];
  }
  // Eight bits where the energy is; with three everywhere it would be a fiftieth.
  EXPECT_LT(error, 1e-3 * energy);
}

TEST(Abi, MeanMayBeOneOfTheGradients) {
  std::vector<float> a{1, 2, 3};
  const std::vector<float> b{3, 2, 1};
  const float* const gradients[] = {a.data(), b.data()};
  ASSERT_EQ(sluice_reduce_local("f32", 2, 3, gradients, 0, 0, a.data()), SLUICE_OK);
  EXPECT_EQ(a, (std::vector<float>{2, 2, 2}));
}

TEST(Abi, NothingToAverageIsFine) {
  const float* const gradients[] = {nullptr, nullptr};
  EXPECT_EQ(sluice_reduce_local("fixed", 2, 0, gradients, 0, 0, nullptr), SLUICE_OK);
}

TEST(Abi, BadArgumentsAreNamedAndLeaveTheMeanAlone) {
  const std::vector<float> a{1, 2, 3};
  std::vector<float> mean{7, 7, 7};
  const float* const gradients[] = {a.data(), a.data()};
  const float* const holes[] = {a.data(), nullptr};
  const auto refused = [&](const char* codec, uint32_t workers, uint64_t count,
                           const float* const* from, float* into, const std::string& says) {
    EXPECT_EQ(sluice_reduce_local(codec, workers, count, from, 0, 0, into),
              SLUICE_INVALID_ARGUMENT);
    EXPECT_NE(std::string(sluice_last_error()).find(says), std::string::npos)
        << sluice_last_error();
  };
  refused(nullptr, 2, 3, gradients, mean.data(), "codec is NULL");
  refused("zip", 2, 3, gradients, mean.data(), "'zip'");
  refused("fixed:block=7", 2, 3, gradients, mean.data(), "32 to 4096");
  refused("f32", 0, 3, gradients, mean.data(), "workers is 0");
  refused("f32", 4097, 3, gradients, mean.data(), "4097");
  refused("f32", 2, (uint64_t{1} << 40) + 1, gradients, mean.data(), "2^40");
  refused("f32", 2, 3, nullptr, mean.data(), "NULL");
  refused("f32", 2, 3, gradients, nullptr, "NULL");
  refused("f32", 2, 3, holes, mean.data(), "gradients[1]");
  EXPECT_EQ(mean, (std::vector<float>{7, 7, 7}));
}

TEST(Abi, LastErrorBelongsToTheThread) {
  const float value = 1;
  const float* const gradients[] = {&value};
  float mean = 0;
  ASSERT_NE(sluice_reduce_local("zip", 1, 1, gradients, 0, 0, &mean), SLUICE_OK);
  std::string other = "untouched";
  std::thread([&] { other = sluice_last_error(); }).join();
  EXPECT_EQ(other, "");
  EXPECT_NE(std::string(sluice_last_error()), "");
}

}  // namespace
