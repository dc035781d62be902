// Buckets of several workers in one process, over collectives.
#include "group/bucket.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "group/fused_workers_test.h"

namespace sluice {
namespace {

const std::vector<Tensor> kShapes{{11, 30, 300}, {22, 1, 5}, {33, 100, 200}, {44, 1, 4096}};

void end_step(Workers4& job) {
  for (const auto& memory : job.memories) memory->end_step();
}

TEST(Bucket, SmallExactTensorsShareAnExchangeAndAreTheRankOrderedFloatMean) {
  Workers4 job("tide", {{1, 10, 100}});
  FusedWorkers workers(job);
  workers.run({.step = kStep});
  EXPECT_EQ(workers.ends[0].bucket.count(), 2u) << "one of tide, one of both exact tensors";
  for (std::size_t tensor = job.coded; tensor < job.tensors.size(); ++tensor) {
    for (std::size_t i = 0; i < job.gradients[0][tensor].size(); ++i) {
      float sum = job.gradients[0][tensor][i];
      for (std::size_t r = 1; r < 4; ++r) sum += job.gradients[r][tensor][i];
      ASSERT_EQ(job.means[2][tensor][i], sum / 4.0f) << tensor << " " << i;
    }
  }
}

TEST(Bucket, AnExactTensorAloneOrLargeTravelsByItself) {
  Workers4 job("f32", {{1, 1, 1u << 15}, {2, 1, (1u << 15) - 1}, {3, 1, 9}});
  Bucket bucket(*job.memories[0]);
  ASSERT_TRUE(bucket.load({}, job.entries(0, 0, 3)));
  // 8 chunks of the large one, 8 of the other two together, which are one more than it holds.
  EXPECT_EQ(bucket.count(), 8u + 9u);
  ASSERT_TRUE(bucket.load({}, job.entries(0, 2, 3)));
  EXPECT_EQ(bucket.count(), 1u);
  EXPECT_EQ(bucket.extent(0).tensor.id, 3u);
}

// Packs of many tensors, cut in the middle of some.
TEST(Bucket, PacksAreCutAnywhere) {
  std::vector<Tensor> shapes;
  for (std::uint64_t i = 0; i < 40; ++i) shapes.push_back({i + 1, 1, 1 + 97 * i % 1500});
  shapes.push_back({99, 1, 0});
  Workers4 job("f32", shapes);
  FusedWorkers(job).run({.step = kStep});
  Workers4 apart("f32", shapes);
  for (std::size_t tensor = 0; tensor < apart.tensors.size(); ++tensor) {
    FusedWorkers workers(apart);
    std::vector<std::vector<BucketEntry>> entries;
    for (std::size_t rank = 0; rank < 4; ++rank) {
      entries.push_back(apart.entries(rank, tensor, tensor + 1));
    }
    workers.run({.step = kStep}, entries);
  }
  EXPECT_EQ(job.means, apart.means);
}

// Of sizes that differ from step to step: what a tensor of that size would be.
TEST(Bucket, RowsTravelThroughTheirOwnCodecAndKeepNothing) {
  for (const std::string_view spec : {"bf16", "lossless"}) {
    Workers4 job("tide:bits=3", kShapes, {.feedback = "ef"});
    const Tensor table{77, 1000, 20};
    for (const auto& memory : job.memories) {
      ASSERT_TRUE(memory->add_rows({&table, 1}, offered(*memory, spec)));
    }
    const auto index = static_cast<std::uint32_t>(job.tensors.size());
    FusedWorkers workers(job);
    for (const std::uint64_t rows : {250u, 1u, 1000u, 0u, 250u}) {
      Workers4 alike(spec, {{table.id, rows, table.cols}});
      auto means = alike.gradients;
      std::vector<std::vector<BucketEntry>> entries;
      for (std::size_t r = 0; r < 4; ++r) {
        entries.push_back(job.entries(r));
        entries[r].push_back({index, alike.gradients[r][0], means[r][0]});
      }
      workers.run({.step = kStep}, entries, rows > 500 ? 3 : 1);
      EXPECT_EQ(means[2][0], local_means(alike)[0]) << spec << " " << rows;
      EXPECT_TRUE(job.memories[0]->residual(index).empty());
    }
    std::vector<float> odd(table.cols + 1);
    const BucketEntry bad{index, odd, odd};
    const Verdict refused = workers.ends[0].load({}, {&bad, 1});
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().message.find("21 coordinates"), std::string::npos)
        << refused.error().message;
  }
}

TEST(Bucket, DigestsAddUpOverPartsAndSeeOneBit) {
  const auto digest = [](std::size_t parts, bool change) {
    Workers4 job("f32", kShapes);
    if (change) job.gradients[0][2][5] += 1.0f;
    return FusedWorkers(job).run({.step = 1, .digest = true}, parts).digest;
  };
  EXPECT_EQ(digest(1, false), digest(3, false));
  EXPECT_NE(digest(1, false), digest(1, true));
}

// Means are digested four at a time: what is left of a chunk counts too.
TEST(Bucket, DigestsSeeTheLastCoordinateWhateverTheNumber) {
  const auto digest = [](std::uint64_t count, float more) {
    Workers4 job("f32", {{9, 1, count}});
    job.gradients[3][0].back() += more;
    return FusedWorkers(job).run({.step = 1, .digest = true}).digest;
  };
  for (const std::uint64_t count : {40u, 41u, 42u, 43u, 4096u + 1u}) {
    EXPECT_NE(digest(count, 0.0f), digest(count, 1.0f)) << count;
  }
}

// Squared errors and squares of the exact mean, block by block of all coded tensors.
struct Truth {
  explicit Truth(const Workers4& job) {
    for (std::size_t tensor = 0; tensor < job.coded; ++tensor) {
      const auto& mean = job.means[0][tensor];
      for (std::size_t i = 0; i < mean.size(); ++i) {
        if (i % kProbeBlock == 0) errors.push_back(0);
        float sum = job.gradients[0][tensor][i];
        for (std::size_t r = 1; r < 4; ++r) sum += job.gradients[r][tensor][i];
        const double exact = sum / 4.0f;
        errors.back() += (mean[i] - exact) * (mean[i] - exact);
        energy += exact * exact;
      }
    }
  }
  std::vector<double> errors;
  double energy = 0;
};

// Layers that differ by 10^4 in size and by 40 in length.
Workers4 uneven_layers(std::string_view spec) {
  Workers4 job(spec, {{5, 64, 64}, {6, 300, 600}, {7, 17, 260}, {8, 100, 100}});
  const float scales[] = {1.0f, 1e-2f, 100.0f, 1e-1f};
  for (auto& rank : job.gradients) {
    for (std::size_t tensor = 0; tensor < 4; ++tensor) {
      for (float& value : rank[tensor]) value *= scales[tensor];
    }
  }
  return job;
}

// A job whose gradients are this one's plus what its memories have left over.
Workers4 job_with_residuals(const Workers4& job) {
  Workers4 whole("f32", job.coded_tensors());
  for (std::size_t rank = 0; rank < 4; ++rank) {
    for (std::size_t tensor = 0; tensor < job.coded; ++tensor) {
      const auto residual = std::as_const(*job.memories[rank]).residual(tensor);
      for (std::size_t i = 0; i < residual.size(); ++i) {
        whole.gradients[rank][tensor][i] = job.gradients[rank][tensor][i] + residual[i];
      }
    }
  }
  return whole;
}

// Over all turns the probe's figure is the error of the whole gradient. It looks at a block in one
// step out of 32, so it may differ by how much a block's error differs between steps: the bound is
// four standard deviations of a sum of such choices.
TEST(Bucket, OverAllTurnsTheProbeMeasuresTheErrorOfTheWholeGradient) {
  for (const std::string_view spec : {"bf16", "tide:bits=2"}) {
    Workers4 job = uneven_layers(spec);
    FusedWorkers workers(job);
    double error = 0;
    double energy = 0;
    std::vector<std::vector<double>> errors;  // by step and block
    double truth_energy = 0;
    for (std::uint32_t step = 0; step < kProbeTurns; ++step) {
      workers.run({.step = step, .probe = step + 1}, 3);
      for (const TensorProbe& probe : workers.ends[0].bucket.probes()) {
        error += probe.error_energy / kProbeTurns;
        energy += probe.exact_energy / kProbeTurns;
      }
      end_step(job);
      const Truth truth(job);
      errors.push_back(truth.errors);
      truth_energy = truth.energy;
    }
    double mean = 0;
    double variance = 0;
    for (std::size_t block = 0; block < errors[0].size(); ++block) {
      double sum = 0;
      double squares = 0;
      for (const auto& step : errors) {
        sum += step[block] / kProbeTurns;
        squares += step[block] * step[block] / kProbeTurns;
      }
      mean += sum;
      variance += squares - sum * sum;
    }
    EXPECT_NEAR(energy, truth_energy, 1e-9 * truth_energy) << spec;
    EXPECT_GT(mean, 0) << spec;
    EXPECT_NEAR(error, mean, 4 * std::sqrt(std::max(variance, 0.0)) + 1e-9 * mean) << spec;
  }
}

// What the codec is given is the gradient and what the step before left over, so that is what its
// mean is compared with.
TEST(Bucket, AProbeOfALaterStepLooksAtGradientAndResidual) {
  Workers4 job("tide:bits=2", {{5, 4, 4096}, {6, 2, 4096}},
               {.feedback = "ef", .keep_before = true});
  FusedWorkers workers(job);
  workers.run({.step = 1});
  end_step(job);
  Workers4 whole = job_with_residuals(job);
  double error = 0;
  double energy = 0;
  for (std::uint32_t number = 1; number <= kProbeTurns; ++number) {
    workers.run({.step = 2, .probe = number});
    for (const TensorProbe& probe : workers.ends[2].bucket.probes()) {
      error += probe.error_energy / kProbeTurns;
      energy += probe.exact_energy / kProbeTurns;
    }
    for (const auto& memory : job.memories) EXPECT_TRUE(memory->undo_step());
  }
  whole.means = job.means;
  const Truth truth(whole);
  const double truth_error = std::accumulate(truth.errors.begin(), truth.errors.end(), 0.0);
  EXPECT_NEAR(energy, truth.energy, 1e-9 * truth.energy);
  EXPECT_NEAR(error, truth_error, 1e-9 * truth_error);
}

TEST(Bucket, AllRanksProbeTheSameBlocksAndEveryTensorInEveryProbe) {
  Workers4 job = uneven_layers("tide:bits=4");
  FusedWorkers workers(job);
  for (std::uint32_t number = 1; number <= 3; ++number) {
    workers.run({.step = number, .probe = number});
    const auto mine = workers.ends[0].bucket.probes();
    ASSERT_EQ(mine.size(), job.coded);
    for (const FusedWorker& other : workers.ends) {
      const auto probes = other.bucket.probes();
      for (std::size_t i = 0; i < mine.size(); ++i) {
        EXPECT_EQ(probes[i].blocks, mine[i].blocks);
        EXPECT_EQ(probes[i].exact_energy, mine[i].exact_energy);
        EXPECT_EQ(probes[i].error_energy, mine[i].error_energy);
      }
    }
  }
  workers.run({.step = 4});
  EXPECT_TRUE(workers.ends[0].bucket.probes().empty());
}

// What is below the least number of float16 comes back as zeros.
TEST(Bucket, AProbeTellsWhichTensorIsSilent) {
  Workers4 job = uneven_layers("fp16");
  for (auto& rank : job.gradients) {
    for (float& value : rank[1]) value *= 1e-10f;
  }
  FusedWorkers workers(job);
  workers.run({.step = 1, .probe = 1});
  for (const TensorProbe& probe : workers.ends[0].bucket.probes()) {
    EXPECT_GT(probe.live, 0u);
    EXPECT_EQ(probe.silent, probe.tensor == 1 ? probe.live : 0u) << probe.tensor;
  }
}

TEST(Bucket, CountsWhatIsNotFinite) {
  Workers4 job("tide", {{5, 64, 64}});
  job.gradients[2][0][17] = std::numeric_limits<float>::infinity();
  job.gradients[1][1][3] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(FusedWorkers(job).run({.step = 1, .probe = 1}).infinite, 2u);
}

TEST(Bucket, UndoneStepGivesResidualsBack) {
  Workers4 job("tide:bits=2", kShapes, {.feedback = "ef", .keep_before = true});
  FusedWorkers workers(job);
  workers.run({.step = 1});
  end_step(job);
  const auto span = job.memories[1]->residual(2);
  const std::vector<float> before(span.begin(), span.end());
  workers.run({.step = 2});
  EXPECT_FALSE(std::equal(before.begin(), before.end(), span.begin()));
  EXPECT_TRUE(job.memories[1]->undo_step());
  EXPECT_TRUE(std::equal(before.begin(), before.end(), span.begin()));
  EXPECT_TRUE(job.memories[1]->undo_step());  // Nothing is in this step: nothing changes.
  EXPECT_TRUE(std::equal(before.begin(), before.end(), span.begin()));
}

TEST(Bucket, BadJobsAreNamed) {
  Workers4 job("f32", {{5, 64, 64}});
  Bucket bucket(*job.memories[0]);
  std::vector<BucketEntry> entries = job.entries(0);
  const auto says = [&](std::span<const BucketEntry> what) {
    const Verdict loaded = bucket.load({}, what);
    return loaded ? std::string("accepted") : loaded.error().message;
  };
  EXPECT_EQ(says(entries), "accepted");
  entries[0].tensor = 9;
  EXPECT_NE(says(entries).find("tensor 9; accepted: below 3"), std::string::npos);
  entries[0] = {0, std::span(job.gradients[0][0]).first(5), std::span(job.means[0][0]).first(5)};
  EXPECT_NE(says(entries).find("5 coordinates"), std::string::npos);
  entries = job.entries(0);
  entries.push_back(entries[1]);
  EXPECT_NE(says(entries).find("tensor 1 is twice"), std::string::npos);
}

}  // namespace
}  // namespace sluice
