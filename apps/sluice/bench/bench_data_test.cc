#include "apps/sluice/bench/bench_data.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace sluice::cli {
namespace {

using Gradients = std::vector<std::vector<float>>;

Gradients gradients_of(const Sparsity& sparsity, std::uint32_t workers, std::uint64_t count,
                       std::uint64_t seed = 0, std::uint64_t step = 0) {
  const BenchData data{BenchData::Kind::sparse, sparsity};
  Gradients gradients(workers, std::vector<float>(count));
  for (std::uint32_t rank = 0; rank < workers; ++rank) {
    make_gradient(data, {rank, workers, seed, step, count}, gradients[rank]);
  }
  return gradients;
}

std::set<std::size_t> support_of(const std::vector<float>& gradient) {
  std::set<std::size_t> support;
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    if (gradient[i] != 0) support.insert(i);
  }
  return support;
}

std::set<std::size_t> union_of(const Gradients& gradients) {
  std::vector<float> any(gradients.front().size());
  for (const auto& gradient : gradients) {
    for (std::size_t i = 0; i < any.size(); ++i) any[i] = gradient[i] != 0 ? 1 : any[i];
  }
  return support_of(any);
}

TEST(BenchData, TheUnionHasTheDensityThatIsAskedFor) {
  constexpr std::uint64_t kCount = 6000;
  for (const std::uint32_t workers : {1u, 2u, 8u, 64u}) {
    for (const double density : {0.001, 0.05, 0.5}) {
      for (const Overlap overlap : {Overlap::identical, Overlap::disjoint}) {
        const auto all = union_of(gradients_of({density, overlap}, workers, kCount));
        EXPECT_EQ(all.size(), std::lround(density * kCount)) << name_of(overlap) << density;
      }
      const auto all = union_of(gradients_of({density, Overlap::independent}, workers, kCount));
      // Six standard deviations of as many draws.
      const double off = std::fabs(static_cast<double>(all.size()) - density * kCount);
      EXPECT_LE(off, 1 + 6 * std::sqrt(density * (1 - density) * kCount)) << workers << density;
    }
  }
}

TEST(BenchData, SupportsOverlapAsTheirNamesSay) {
  const auto identical = gradients_of({0.2, Overlap::identical}, 3, 5000);
  EXPECT_EQ(support_of(identical[0]), support_of(identical[1]));
  EXPECT_EQ(support_of(identical[0]), support_of(identical[2]));
  EXPECT_NE(identical[0], identical[1]);

  const auto disjoint = gradients_of({0.2, Overlap::disjoint}, 3, 5000);
  std::size_t sum = 0;
  for (const auto& gradient : disjoint) {
    const std::size_t size = support_of(gradient).size();
    EXPECT_GT(size, 200u);
    sum += size;
  }
  EXPECT_EQ(sum, union_of(disjoint).size());

  // 1 - 0.8^(1/3) is 7.17 % each.
  const auto independent = gradients_of({0.2, Overlap::independent}, 3, 5000);
  for (const auto& gradient : independent) {
    EXPECT_NEAR(static_cast<double>(support_of(gradient).size()), 5000 * 0.0717, 1.5);
  }
  EXPECT_NE(support_of(independent[0]), support_of(independent[1]));
}

TEST(BenchData, FewUnitsOfIndependentWorkersAreNotAllLost) {
  // One column in 1024 on one of eight workers.
  const Sparsity sparsity{0.001, Overlap::independent, Pattern::columns};
  EXPECT_EQ(union_of(gradients_of(sparsity, 8, 10240)).size(), 10u);
}

TEST(BenchData, PatternsAreZeroOrNotAsAWhole) {
  constexpr std::uint64_t kCount = 64 * 1024;
  const auto units = [&](Pattern pattern, auto unit_of) {
    const auto support = support_of(gradients_of({0.1, Overlap::identical, pattern}, 2, kCount)[1]);
    std::set<std::size_t> found;
    for (const std::size_t i : support) found.insert(unit_of(i));
    EXPECT_EQ(support.size() % found.size(), 0u);
    return std::pair(found.size(), support.size() / found.size());
  };
  using Pair = std::pair<std::size_t, std::size_t>;
  EXPECT_EQ(units(Pattern::blocks, [](std::size_t i) { return i / 256; }), Pair(26, 256));
  EXPECT_EQ(units(Pattern::columns, [](std::size_t i) { return i % 1024; }), Pair(102, 64));
  EXPECT_EQ(units(Pattern::rows, [](std::size_t i) { return i / 64; }), Pair(102, 64));
  EXPECT_EQ(unit_count(Pattern::random, 1000), 1000u);
  EXPECT_EQ(unit_count(Pattern::blocks, 1000), 4u);
  EXPECT_EQ(unit_count(Pattern::columns, 1000), 1000u);
  EXPECT_EQ(unit_count(Pattern::rows, 1000), 16u);
}

TEST(BenchData, ShapesAreThoseOfThePatternsWhereTheyFit) {
  const auto shape = [](Pattern pattern, std::uint64_t count) {
    const BenchData data{BenchData::Kind::sparse, {0.1, Overlap::identical, pattern}};
    const Tensor tensor = tensor_of(data, count);
    EXPECT_EQ(tensor.count(), count);
    return tensor.cols;
  };
  EXPECT_EQ(shape(Pattern::rows, 640), 64u);
  EXPECT_EQ(shape(Pattern::rows, 641), 641u);
  EXPECT_EQ(shape(Pattern::columns, 4096), 1024u);
  EXPECT_EQ(shape(Pattern::columns, 512), 512u);
  EXPECT_EQ(shape(Pattern::random, 4096), 4096u);
  EXPECT_EQ(tensor_of({}, 7), (Tensor{0, 1, 7}));
}

TEST(BenchData, SameSeedAndStepSameGradientOtherwiseAnother) {
  const Sparsity sparsity{0.1, Overlap::independent};
  EXPECT_EQ(gradients_of(sparsity, 2, 1000, 3, 1), gradients_of(sparsity, 2, 1000, 3, 1));
  const auto first = union_of(gradients_of(sparsity, 2, 1000, 3, 1));
  EXPECT_NE(first, union_of(gradients_of(sparsity, 2, 1000, 4, 1)));
  EXPECT_NE(first, union_of(gradients_of(sparsity, 2, 1000, 3, 2)));
}

TEST(BenchData, SupportsRepeatAfterThePeriodAndValuesDoNot) {
  const BenchData data{BenchData::Kind::sparse, {0.1, Overlap::identical, Pattern::random}};
  std::vector<float> gradient(3 * 4096 + 5);
  make_gradient(data, {1, 2, 0, 0, 4096}, gradient);
  for (std::size_t i = 4096; i < gradient.size(); ++i) {
    ASSERT_EQ(gradient[i] != 0, gradient[i - 4096] != 0) << i;
    if (gradient[i] != 0) {
      ASSERT_NE(gradient[i], gradient[i - 4096]) << i;
    }
  }
}

TEST(BenchData, ValuesAreNormalAndHalfOfTheirEnergyIsCommon) {
  const auto gradients = gradients_of({1.0}, 2, 50000);
  double energy = 0;
  double common = 0;
  for (std::size_t i = 0; i < gradients[0].size(); ++i) {
    energy += gradients[0][i] * gradients[0][i];
    common += gradients[0][i] * gradients[1][i];
  }
  EXPECT_NEAR(energy / 50000, 1, 0.04);  // six times sqrt(2 / 50000)
  EXPECT_NEAR(common / 50000, 0.5, 0.04);
}

TEST(BenchData, DenseKindsAreFilled) {
  std::vector<float> uniform(1000);
  make_gradient(*parse_data("--data", "uniform"), {0, 1, 0, 0, 1000}, uniform);
  EXPECT_LE(*std::max_element(uniform.begin(), uniform.end()), 1);
  EXPECT_GE(*std::min_element(uniform.begin(), uniform.end()), -1);
  std::vector<float> normal(5000);
  make_gradient(*parse_data("--data", "normal"), {0, 1, 0, 0, 5000}, normal);
  std::vector<float> layers(5000);
  make_gradient(*parse_data("--data", "layers"), {0, 1, 0, 0, 5000}, layers);
  // One scale for each 4096.
  EXPECT_FLOAT_EQ(layers[0] / normal[0], layers[4095] / normal[4095]);
  EXPECT_NE(layers[0] / normal[0], layers[4096] / normal[4096]);
}

TEST(BenchData, TextsGoThereAndBack) {
  for (const double density : {0.05, 0.1 + 0.2, 1.0, 1e-9}) {
    for (const char* more : {"", ",disjoint", ",independent,rows"}) {
      const auto data = parse_data("--data", "sparse:" + std::to_string(density) + more);
      if (density < 1e-6) {
        EXPECT_FALSE(data.has_value());  // std::to_string rounds it to zero
        continue;
      }
      ASSERT_TRUE(data.has_value()) << data.error().message;
      const auto again = parse_data("--data", to_text(data->sparsity));
      ASSERT_TRUE(again.has_value()) << again.error().message;
      EXPECT_EQ(again->kind, BenchData::Kind::sparse);
      EXPECT_EQ(again->sparsity.density, data->sparsity.density);
      EXPECT_EQ(again->sparsity.overlap, data->sparsity.overlap);
      EXPECT_EQ(again->sparsity.pattern, data->sparsity.pattern);
    }
  }
  EXPECT_EQ(to_text(Sparsity{0.05, Overlap::disjoint, Pattern::rows}), "sparse:0.05,disjoint,rows");
  EXPECT_EQ(*parse_density("--density", "5%"), 0.05);
  EXPECT_EQ(*parse_density("--density", "0.05"), 0.05);
  EXPECT_EQ(*parse_density("--density", "100%"), 1);
}

TEST(BenchData, RefusesNamingTheValueAndWhatIsAccepted) {
  const auto refused = [](const auto& parsed, const std::vector<std::string>& says) {
    ASSERT_FALSE(parsed.has_value()) << says.front();
    EXPECT_EQ(parsed.error().code, Code::invalid_argument);
    for (const std::string& word : says) {
      EXPECT_NE(parsed.error().message.find(word), std::string::npos) << parsed.error().message;
    }
  };
  for (const char* text :
       {"", "%", "0", "0%", "-1", "1.5", "101%", "nan", "inf", "5 %", "5%%", "x"}) {
    refused(parse_density("--density", text), {"--density '" + std::string(text) + "'", "100%"});
  }
  refused(parse_overlap("--overlap", "some"), {"--overlap 'some'", "identical, independent"});
  refused(parse_pattern("--pattern", "Rows"),
          {"--pattern 'Rows'", "random, blocks, columns, rows"});
  refused(parse_data("--data", "dense"), {"--data 'dense'", "uniform, normal, layers, sparse:"});
  refused(parse_data("--data", "sparse"), {"--data 'sparse'"});
  refused(parse_data("--data", "sparse:2"), {"--data '2'"});
  refused(parse_data("--data", "sparse:5%,all"), {"'all'", "disjoint"});
  refused(parse_data("--data", "sparse:5%,disjoint,rows,rows"), {"'rows,rows'"});
}

}  // namespace
}  // namespace sluice::cli
