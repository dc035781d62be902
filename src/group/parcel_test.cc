// Parcels of several workers in one process; the test moves the bytes.
#include "group/parcel.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <thread>

#include "base/random.h"
#include "carrier/local/local.h"
#include "catalog/codecs.h"
#include "group/crew.h"
#include "group/parcel_test.h"

namespace sluice {
namespace {

using Parcels = std::vector<std::unique_ptr<Parcel>>;

Status all_reduce(const Parcels& parcels) {
  const bool sums = parcels[0]->fusion().native() == Fusion::Native::sum;
  std::vector<std::int32_t> total(parcels[0]->fusion().native_count(),
                                  sums ? 0 : std::numeric_limits<std::int32_t>::min());
  std::vector<std::int32_t> lanes(total.size());
  for (const auto& parcel : parcels) {
    parcel->fusion().pack_native(lanes);
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      const auto sum = static_cast<std::uint32_t>(total[i]) + static_cast<std::uint32_t>(lanes[i]);
      total[i] = sums ? static_cast<std::int32_t>(sum) : std::max(total[i], lanes[i]);
    }
  }
  for (const auto& parcel : parcels) SLUICE_TRY(parcel->fusion().spread_native(total));
  return ok();
}

// One step's collectives between the fusions of all workers.
Status exchange(const Parcels& parcels, bool tamper = false) {
  const std::size_t n = parcels.size();
  std::vector<std::vector<std::byte>> sent(n);
  for (std::size_t r = 0; r < n; ++r) {
    Fusion& fusion = parcels[r]->fusion();
    SLUICE_TRY(fusion.seal());
    const auto sizes = fusion.send_sizes();
    sent[r].resize(std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0}));
    if (fusion.native() == Fusion::Native::none) fusion.pack(sent[r]);
  }
  if (parcels[0]->fusion().native() != Fusion::Native::none) return all_reduce(parcels);
  if (tamper) sent[0][0] ^= std::byte{1};
  for (std::size_t r = 0; r < n; ++r) {
    std::vector<std::byte> received;
    std::vector<std::uint64_t> sizes;
    for (std::size_t s = 0; s < n; ++s) {
      const auto of_sender = parcels[s]->fusion().send_sizes();
      const auto at = std::accumulate(of_sender.begin(), of_sender.begin() + std::ptrdiff_t(r),
                                      std::uint64_t{0});
      const auto* from = sent[s].data() + at;
      received.insert(received.end(), from, from + of_sender[r]);
      sizes.push_back(of_sender[r]);
    }
    SLUICE_TRY(parcels[r]->fusion().combine(received, sizes));
  }
  if (parcels[0]->fusion().whole()) {
    for (const auto& parcel : parcels) SLUICE_TRY(parcel->fusion().spread_own());
    return ok();
  }
  std::vector<std::uint64_t> sizes;
  for (const auto& parcel : parcels) sizes.push_back(parcel->fusion().answer().size());
  const std::uint64_t stride = *std::max_element(sizes.begin(), sizes.end());
  std::vector<std::byte> gathered(stride * n);
  for (std::size_t r = 0; r < n; ++r) {
    const auto answer = parcels[r]->fusion().answer();
    std::copy(answer.begin(), answer.end(), gathered.begin() + std::ptrdiff_t(r * stride));
  }
  for (const auto& parcel : parcels) SLUICE_TRY(parcel->fusion().spread(gathered, stride, sizes));
  return ok();
}

Parcels make_parcels(Workers4& job, const Codec* sparse = nullptr) {
  Parcels parcels;
  for (const auto& memory : job.memories) {
    parcels.push_back(std::make_unique<Parcel>(*memory, *job.exact.codec, sparse));
  }
  return parcels;
}

void run(std::span<const std::vector<Job>> jobs, const Parcels& parcels, const ParcelOrder& order) {
  for (std::size_t r = 0; r < parcels.size(); ++r) {
    const Verdict begun = parcels[r]->begin(order, jobs[r]);
    ASSERT_TRUE(begun) << begun.error().message;
  }
  while (!parcels[0]->finished()) {
    ASSERT_TRUE(exchange(parcels));
    for (const auto& parcel : parcels) ASSERT_TRUE(parcel->advance());
  }
  for (const auto& parcel : parcels) ASSERT_TRUE(parcel->finished());
}

void run(Workers4& job, const Parcels& parcels, const ParcelOrder& order) {
  std::vector<std::vector<Job>> jobs;
  for (std::size_t r = 0; r < parcels.size(); ++r) jobs.push_back(job.jobs(r));
  run(jobs, parcels, order);
}

// What groups on the local carrier make of the same gradients.
std::vector<std::vector<float>> local_means(Workers4& job, std::uint32_t steps = 1) {
  WorldOptions world_options;
  world_options.workers = static_cast<std::uint32_t>(job.memories.size());
  const auto world = std::move(*local::make_world(world_options));
  std::vector<std::unique_ptr<Group>> groups;
  for (std::uint32_t r = 0; r < world_options.workers; ++r) {
    groups.push_back(std::move(*Group::make(job.memories[r]->options(), job.codec.spec,
                                            *job.codec.codec, world->port(r), job.tensors)));
  }
  std::vector<std::vector<std::vector<float>>> means = job.gradients;
  for (std::uint32_t step = 0; step < steps; ++step) {
    const Verdict ran = run_step(Crew::threads, groups, kStep + step, [&](std::uint32_t rank) {
      std::vector<Job> jobs;
      for (std::uint32_t i = 0; i < job.tensors.size(); ++i) {
        jobs.push_back({i, job.gradients[rank][i], means[rank][i]});
      }
      return jobs;
    });
    EXPECT_TRUE(ran);
  }
  return means[0];
}

const std::vector<Tensor> kShapes{{11, 30, 300}, {22, 1, 5}, {33, 100, 200}, {44, 1, 4096}};

class ParcelOfCodec : public ::testing::TestWithParam<std::string_view> {};

TEST_P(ParcelOfCodec, GivesTheBitsOfTheLocalCarrierHoweverItIsCut) {
  for (const std::uint32_t parts : {1u, 3u, 50u}) {
    Workers4 job(GetParam(), kShapes);
    const Parcels parcels = make_parcels(job);
    for (std::uint32_t part = 0; part < parts; ++part) {
      run(job, parcels, {.step = kStep, .sequence = part, .part = part, .parts = parts});
    }
    const auto expected = local_means(job);
    for (std::size_t r = 0; r < job.memories.size(); ++r) {
      for (std::size_t i = 0; i < kShapes.size(); ++i) {
        ASSERT_EQ(std::memcmp(job.means[r][i].data(), expected[i].data(), 4 * expected[i].size()),
                  0)
            << "rank " << r << " tensor " << i << " in " << parts;
      }
    }
  }
}

TEST_P(ParcelOfCodec, KeepsResidualsAndModelStateAsAGroupDoes) {
  GroupOptions options;
  const bool fed = make_codec(GetParam())->codec->traits(4).takes_feedback();
  options.feedback = fed ? FeedbackKind::ef : FeedbackKind::none;
  Workers4 job(GetParam(), kShapes, options);
  const Parcels parcels = make_parcels(job);
  for (std::uint32_t step = 0; step < 3; ++step) {
    run(job, parcels, {.step = kStep + step, .sequence = step});
    for (const auto& memory : job.memories) memory->end_step();
  }
  EXPECT_EQ(job.means[0], local_means(job, 3));
}

INSTANTIATE_TEST_SUITE_P(Catalog, ParcelOfCodec,
                         ::testing::Values("f32", "bf16", "fixed", "thc", "tide",
                                           "tide:scales=previous", "tide:down=narrow"),
                         [](const auto& row) {
                           std::string name(row.param);
                           std::replace_if(
                               name.begin(), name.end(), [](char c) { return !std::isalnum(c); },
                               '_');
                           return name;
                         });

TEST(Parcel, ExactJobsAreTheRankOrderedFloatMean) {
  Workers4 job("tide", {{1, 10, 100}});
  run(job, make_parcels(job), {.step = kStep});
  for (std::size_t i = 0; i < job.loose[0].size(); ++i) {
    float sum = job.loose[0][i];
    for (std::size_t r = 1; r < 4; ++r) sum += job.loose[r][i];
    ASSERT_EQ(job.loose_means[2][i], sum / 4.0f) << i;
  }
}

// Of sizes that differ from step to step: what a tensor of that size would be.
TEST(Parcel, SparseJobsTravelThroughTheirOwnCodecAndKeepNothing) {
  for (const std::string_view spec : {"bf16", "tide:bits=4", "lossless"}) {
    const NamedCodec sparse = std::move(*make_codec(spec));
    Workers4 job("f32", kShapes);
    const Parcels parcels = make_parcels(job, sparse.codec.get());
    for (const std::uint64_t count : {5000u, 3u, 12345u, 0u, 5000u}) {
      Workers4 alike(spec, {{kSparseTensor, 1, count}});
      auto means = alike.gradients;
      std::vector<std::vector<Job>> jobs;
      for (std::size_t r = 0; r < 4; ++r) {
        jobs.push_back(job.jobs(r));
        jobs[r].push_back({kSparseTensor, alike.gradients[r][0], means[r][0]});
      }
      const std::uint32_t parts = count > 10'000 ? 3 : 1;
      for (std::uint32_t part = 0; part < parts; ++part) {
        run(jobs, parcels, {.step = kStep, .part = part, .parts = parts});
      }
      EXPECT_EQ(means[2][0], local_means(alike)[0]) << spec << " " << count;
      EXPECT_EQ(job.means[1], local_means(job)) << spec << " " << count;
    }
  }
}

TEST(Parcel, PartsOnSeveralThreadsGiveTheSameBits) {
  const std::uint32_t parts = 4;
  Workers4 job("tide:scales=previous", kShapes);
  std::vector<std::thread> threads;
  for (std::uint32_t part = 0; part < parts; ++part) {
    threads.emplace_back([&job, part] {
      const Parcels parcels = make_parcels(job);
      run(job, parcels, {.step = kStep, .sequence = part, .part = part, .parts = parts});
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(job.means[3], local_means(job));
}

TEST(Parcel, DigestsAddUpOverPartsAndSeeOneBit) {
  const auto digest = [](std::uint32_t parts, bool change) {
    Workers4 job("f32", kShapes);
    if (change) job.gradients[0][2][5] += 1.0f;
    const Parcels parcels = make_parcels(job);
    std::uint64_t sum = 0;
    for (std::uint32_t part = 0; part < parts; ++part) {
      run(job, parcels, {.step = 1, .part = part, .parts = parts, .digest = true});
      EXPECT_EQ(parcels[0]->report().digest, parcels[3]->report().digest);
      sum += parcels[0]->report().digest;
    }
    return sum;
  };
  EXPECT_EQ(digest(1, false), digest(3, false));
  EXPECT_NE(digest(1, false), digest(1, true));
}

// Means are digested four at a time: what is left of a chunk counts too.
TEST(Parcel, DigestsSeeTheLastCoordinateWhateverTheNumber) {
  const auto digest = [](std::uint64_t count, float more) {
    Workers4 job("f32", {{9, 1, count}});
    job.gradients[3][0].back() += more;
    const Parcels parcels = make_parcels(job);
    run(job, parcels, {.step = 1, .digest = true});
    for (const auto& parcel : parcels) {
      EXPECT_EQ(parcel->report().digest, parcels[0]->report().digest);
    }
    return parcels[0]->report().digest;
  };
  for (const std::uint64_t count : {40u, 41u, 42u, 43u, 4096u + 1u}) {
    EXPECT_NE(digest(count, 0.0f), digest(count, 1.0f)) << count;
  }
}

// Squared errors and squares of the exact mean, block by block of all tensors.
struct Truth {
  explicit Truth(const Workers4& job) {
    for (std::size_t tensor = 0; tensor < job.tensors.size(); ++tensor) {
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
  Workers4 whole("f32", job.tensors);
  for (std::size_t rank = 0; rank < 4; ++rank) {
    for (std::size_t tensor = 0; tensor < job.tensors.size(); ++tensor) {
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
TEST(Parcel, OverAllTurnsTheProbeMeasuresTheErrorOfTheWholeGradient) {
  for (const std::string_view spec : {"bf16", "tide:bits=2"}) {
    Workers4 job = uneven_layers(spec);
    const Parcels parcels = make_parcels(job);
    double error = 0;
    double energy = 0;
    std::vector<std::vector<double>> errors;  // by step and block
    double truth_energy = 0;
    for (std::uint32_t step = 0; step < kProbeTurns; ++step) {
      for (std::uint32_t part = 0; part < 3; ++part) {
        run(job, parcels, {.step = step, .part = part, .parts = 3, .probe = step + 1});
        for (const TensorProbe& probe : parcels[0]->report().probes) {
          error += probe.error_energy / kProbeTurns;
          energy += probe.exact_energy / kProbeTurns;
        }
      }
      for (const auto& memory : job.memories) memory->end_step();
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
TEST(Parcel, AProbeOfALaterStepLooksAtGradientAndResidual) {
  GroupOptions options;
  options.feedback = FeedbackKind::ef;
  options.keep_before = true;
  Workers4 job("tide:bits=2", {{5, 4, 4096}, {6, 2, 4096}}, options);
  const Parcels parcels = make_parcels(job);
  run(job, parcels, {.step = 1});
  for (const auto& memory : job.memories) memory->end_step();
  Workers4 whole = job_with_residuals(job);
  double error = 0;
  double energy = 0;
  for (std::uint32_t number = 1; number <= kProbeTurns; ++number) {
    run(job, parcels, {.step = 2, .probe = number});
    for (const TensorProbe& probe : parcels[2]->report().probes) {
      error += probe.error_energy / kProbeTurns;
      energy += probe.exact_energy / kProbeTurns;
    }
    for (const auto& memory : job.memories) memory->undo_step();
  }
  whole.means = job.means;
  const Truth truth(whole);
  const double truth_error = std::accumulate(truth.errors.begin(), truth.errors.end(), 0.0);
  EXPECT_NEAR(energy, truth.energy, 1e-9 * truth.energy);
  EXPECT_NEAR(error, truth_error, 1e-9 * truth_error);
}

TEST(Parcel, AllRanksProbeTheSameBlocksAndEveryTensorInEveryProbe) {
  Workers4 job = uneven_layers("tide:bits=4");
  const Parcels parcels = make_parcels(job);
  for (std::uint32_t number = 1; number <= 3; ++number) {
    run(job, parcels, {.step = number, .probe = number});
    const auto& mine = parcels[0]->report().probes;
    ASSERT_EQ(mine.size(), job.tensors.size());
    for (const auto& other : parcels) {
      for (std::size_t i = 0; i < mine.size(); ++i) {
        EXPECT_EQ(other->report().probes[i].blocks, mine[i].blocks);
        EXPECT_EQ(other->report().probes[i].exact_energy, mine[i].exact_energy);
        EXPECT_EQ(other->report().probes[i].error_energy, mine[i].error_energy);
      }
    }
  }
  run(job, parcels, {.step = 4});
  EXPECT_TRUE(parcels[0]->report().probes.empty());
}

// What is below the least number of float16 comes back as zeros.
TEST(Parcel, AProbeTellsWhichTensorIsSilent) {
  Workers4 job = uneven_layers("fp16");
  for (auto& rank : job.gradients) {
    for (float& value : rank[1]) value *= 1e-10f;
  }
  const Parcels parcels = make_parcels(job);
  run(job, parcels, {.step = 1, .probe = 1});
  for (const TensorProbe& probe : parcels[0]->report().probes) {
    EXPECT_GT(probe.live, 0u);
    EXPECT_EQ(probe.silent, probe.tensor == 1 ? probe.live : 0u) << probe.tensor;
  }
}

TEST(Parcel, CountsWhatIsNotFinite) {
  Workers4 job("tide", {{5, 64, 64}});
  job.gradients[2][0][17] = std::numeric_limits<float>::infinity();
  job.loose[1][3] = std::numeric_limits<float>::quiet_NaN();
  const Parcels parcels = make_parcels(job);
  run(job, parcels, {.step = 1});
  EXPECT_EQ(parcels[0]->report().infinite, 2u);
}

TEST(Parcel, UndoneStepGivesResidualsBack) {
  GroupOptions options;
  options.feedback = FeedbackKind::ef;
  options.keep_before = true;
  Workers4 job("tide:bits=2", kShapes, options);
  const Parcels parcels = make_parcels(job);
  run(job, parcels, {.step = 1});
  for (const auto& memory : job.memories) memory->end_step();
  const auto span = job.memories[1]->residual(2);
  const std::vector<float> before(span.begin(), span.end());
  run(job, parcels, {.step = 2});
  EXPECT_FALSE(std::equal(before.begin(), before.end(), span.begin()));
  job.memories[1]->undo_step();
  EXPECT_TRUE(std::equal(before.begin(), before.end(), span.begin()));
  job.memories[1]->undo_step();  // Nothing is in this step: nothing changes.
  EXPECT_TRUE(std::equal(before.begin(), before.end(), span.begin()));
}

TEST(Parcel, TensorsCanBeAddedBetweenSteps) {
  Workers4 job("tide", {{5, 64, 64}});
  for (const auto& memory : job.memories) ASSERT_TRUE(memory->add(std::vector<Tensor>{{6, 8, 8}}));
  EXPECT_EQ(job.memories[0]->tensors().size(), 2u);
  run(job, make_parcels(job), {.step = 1});
}

TEST(Parcel, BadJobsAndOrdersAreNamed) {
  Workers4 job("f32", {{5, 64, 64}});
  Parcel parcel(*job.memories[0], *job.exact.codec);
  std::vector<Job> jobs = job.jobs(0);
  const auto says = [&](const ParcelOrder& order, std::span<const Job> what) {
    const Verdict begun = parcel.begin(order, what);
    return begun ? std::string("accepted") : begun.error().message;
  };
  EXPECT_NE(says({.part = 3, .parts = 3}, jobs).find("part 3 of 3"), std::string::npos);
  jobs[0].tensor = 9;
  EXPECT_NE(says({}, jobs).find("tensor 9"), std::string::npos);
  jobs[0].tensor = kSparseTensor;
  EXPECT_NE(says({}, jobs).find("a sparse job"), std::string::npos);
  jobs[0] = {0, std::span(job.gradients[0][0]).first(5), std::span(job.means[0][0]).first(5)};
  EXPECT_NE(says({}, jobs).find("5 coordinates"), std::string::npos);
}

TEST(Parcel, ADisagreeingRankIsNamedAndNothingIsWritten) {
  Workers4 job("f32", {{5, 64, 64}});
  const auto untouched = job.means[1];
  const Parcels parcels = make_parcels(job);
  for (std::size_t r = 0; r < 4; ++r) ASSERT_TRUE(parcels[r]->begin({.step = 1}, job.jobs(r)));
  const Status moved = exchange(parcels, true);
  ASSERT_FALSE(moved);
  EXPECT_EQ(moved.error().code, Code::mismatch);
  EXPECT_EQ(moved.error().detail, 0);  // The rank.
  for (const auto& parcel : parcels) parcel->abandon();
  EXPECT_EQ(job.means[1], untouched);
}

}  // namespace
}  // namespace sluice
