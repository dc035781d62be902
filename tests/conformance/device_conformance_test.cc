// Chunks on a device, of every codec that has kernels, give the bits of the host: the emulated
// device always, a GPU where there is one.
#include <gtest/gtest.h>

#include <array>
#include <string>

#include "catalog/codecs.h"
#include "device/cuda_library.h"
#include "device/device_table.h"
#include "tests/support/device_job.h"
#include "tests/support/every_spec.h"
#include "tests/support/pairwise.h"

namespace sluice::support {
namespace {

constexpr std::array<std::uint32_t, 9> kCounts{257, 256, 7, 1, 0, 1024 + 131, 4099, 17, 70001};
constexpr std::array<std::uint32_t, 5> kWorkers{3, 2, 1, 8, 17};
constexpr std::array<std::uint32_t, 3> kChunks{1u << 16, 4096, 1024};
constexpr std::array kFormats{floats::Format::f32, floats::Format::bf16, floats::Format::f16};
constexpr std::array<Missing, 4> kMissing{Missing::none, Missing::first, Missing::third,
                                          Missing::some_grains};

enum Factor : std::size_t { count, workers, data, chunk, feedback, in_place, missing, format };

enum class Which : std::uint8_t { emulated, gpu };
struct Param {
  std::string spec;
  Which which = Which::emulated;
};

std::vector<Param> params() {
  std::vector<Param> all;
  for (const Which which : {Which::emulated, Which::gpu}) {
    for (const char* const spec :
         {"f32", "bf16", "fp16", "tide", "tide:bits=1", "tide:bits=8,down=full",
          "tide:bits=2,block=64", "tide:bits=3,block=1024,down=narrow", "tide:bits=6,block=512",
          "tide:bits=5,block=128,extra=0", "tide:bits=2,floor=0",
          "tide:bits=4,scales=previous,down=full", "tide:bits=2,scales=previous,block=128"}) {
      all.push_back({spec, which});
    }
  }
  return all;
}

std::string name_of_device_param(const ::testing::TestParamInfo<Param>& info) {
  std::string name = info.param.which == Which::gpu ? "gpu_" : "emulated_";
  for (const char c : info.param.spec) {
    name += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  }
  return name;
}

class Device : public ::testing::TestWithParam<Param> {
 protected:
  void SetUp() override {
    on_ = {&device::emulated(), 0};
    if (GetParam().which == Which::gpu) {
      const auto found = device::cuda();
      if (!found) GTEST_SKIP() << found.error().message;
      on_.table = *found;
      ASSERT_EQ(on_.table->open(0), 0);
    }
    auto made = make_codec(GetParam().spec);
    ASSERT_TRUE(made.has_value()) << made.error().message;
    codec_ = std::move(made->codec);
  }

  void check(const Scenario& scenario, const Way& way, Wire wire,
             floats::Format in = floats::Format::f32) {
    const std::string wrong = compare_with_host(on_, *codec_, scenario, way, wire, in);
    EXPECT_EQ(wrong, "") << describe(scenario) << ", format " << static_cast<int>(in)
                         << (wire == Wire::carried ? ", carried" : "");
  }

  device::Accelerator on_;
  std::unique_ptr<Codec> codec_;
};

void PrintTo(const Param& param, std::ostream* out) { *out << param.spec; }

TEST_P(Device, GivesTheBytesOfTheHost) {
  const bool keeps = codec_->traits(3).takes_feedback();
  const std::vector<std::size_t> sizes{kCounts.size(),  kWorkers.size(), kData.size(),
                                       kChunks.size(),  keeps ? 2u : 1u, 2,
                                       kMissing.size(), kFormats.size()};
  for (const Row& row : covering_rows(sizes, forbid_nothing)) {
    // Of few workers somebody must be left.
    const bool enough = kWorkers[row[workers]] >= 3;
    const Scenario scenario{.count = kCounts[row[count]],
                            .workers = kWorkers[row[workers]],
                            .data = kData[row[data]].kind,
                            .chunk_count = kChunks[row[chunk]],
                            .missing = enough ? kMissing[row[missing]] : Missing::none,
                            .feedback = row[feedback] == 0 ? "none" : "ef",
                            .steps = 3};
    check(scenario, {.in_place = row[in_place] != 0}, Wire::shared, kFormats[row[format]]);
    if (HasFailure()) return;
  }
}

TEST_P(Device, GivesTheBytesOfTheHostFromDeviceToDevice) {
  const bool keeps = codec_->traits(3).takes_feedback();
  const std::vector<std::size_t> sizes{
      kCounts.size(), kWorkers.size(), kData.size(), kChunks.size(), keeps ? 2u : 1u, 2, 1,
      kFormats.size()};
  for (const Row& row : covering_rows(sizes, forbid_nothing)) {
    const Scenario scenario{.count = kCounts[row[count]],
                            .workers = kWorkers[row[workers]],
                            .data = kData[row[data]].kind,
                            .chunk_count = kChunks[row[chunk]],
                            .feedback = row[feedback] == 0 ? "none" : "ef",
                            .steps = 2};
    check(scenario, {.in_place = row[in_place] != 0}, Wire::carried, kFormats[row[format]]);
    if (HasFailure()) return;
  }
}

TEST_P(Device, GivesTheBytesOfTheHostToManyWorkers) {
  check({.count = 700, .workers = 64, .steps = 2}, {}, Wire::shared);
  check({.count = 300, .workers = 130, .missing = Missing::third}, {}, Wire::shared);
  check({.count = 700, .workers = 64}, {}, Wire::carried);
}

TEST_P(Device, CostsFewLaunchesHoweverManyChunksThereAre) {
  const Inputs inputs(Scenario{.count = 70001, .workers = 2, .chunk_count = 1024});
  DeviceJob job(on_, *codec_, inputs, {}, Wire::carried, floats::Format::f32);
  ASSERT_EQ(job.run(0), "");
  EXPECT_LE(job.bench(0).counters().launches_most, 12u);
}

// Of every codec of the catalogue that says it has kernels, with all its options.
TEST(DeviceCatalogue, EverySpecGivesTheBytesOfTheHost) {
  const device::Accelerator on{&device::emulated(), 0};
  std::size_t codecs = 0;
  for (const Info& info : kCodecs) {
    for (const std::string& spec : specs_of(info)) {
      const auto made = make_codec(spec);
      if (!made || !made->codec->traits(3).on_device) continue;
      codecs += spec == info.name ? 1 : 0;
      const bool keeps = made->codec->traits(3).takes_feedback();
      const Scenario scenario{.count = 1024 + 131, .feedback = keeps ? "ef" : "none", .steps = 2};
      for (const Wire wire : {Wire::shared, Wire::carried}) {
        EXPECT_EQ(compare_with_host(on, *made->codec, scenario, {}, wire), "") << spec;
      }
    }
  }
  EXPECT_GE(codecs, 4u);
}

INSTANTIATE_TEST_SUITE_P(Kernels, Device, ::testing::ValuesIn(params()), name_of_device_param);

}  // namespace
}  // namespace sluice::support
