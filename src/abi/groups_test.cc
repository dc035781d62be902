// Worlds and groups through the C functions, and their C++ face.
#include <gtest/gtest.h>
#include <sluice/sluice.hpp>

#include <cstring>
#include <thread>

namespace {

using sluice_api::Codec;
using sluice_api::Failure;
using sluice_api::Group;
using sluice_api::World;

constexpr std::size_t kCount = 1000;

std::vector<float> gradient(std::uint32_t rank) {
  std::vector<float> values(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    values[i] = static_cast<float>((i * 37 + rank * 11) % 101) / 50.0f - 1.0f;
  }
  return values;
}

sluice_options options_of(std::uint32_t rank, const char* feedback = nullptr) {
  sluice_options options{};
  options.rank = rank;
  options.feedback = feedback;
  options.timeout = 20;
  return options;
}

std::string message_of(const std::function<void()>& call, sluice_code code) {
  try {
    call();
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.code(), code) << failure.what();
    return failure.what();
  }
  ADD_FAILURE() << "nothing was refused";
  return "";
}

TEST(Groups, WorkersOfALocalWorldAverage) {
  World world("local", 2);
  EXPECT_EQ(world.workers(), 2u);
  ASSERT_EQ(world.here().size(), 2u);
  const Codec codec("fixed");
  const sluice_tensor tensor{5, 1, kCount};
  std::vector<std::vector<float>> means(2, std::vector<float>(kCount));
  std::vector<std::thread> threads;
  for (const std::uint32_t rank : world.here()) {
    threads.emplace_back([&, rank] {
      Group group(world, codec, options_of(rank), std::span(&tensor, 1));
      const std::vector<float> mine = gradient(rank);
      const sluice_entry entry{0, kCount, mine.data(), means[rank].data()};
      group.reduce(1, std::span(&entry, 1));
      EXPECT_EQ(group.stats().chunks, 1u);
      EXPECT_GT(group.stats().bytes_up, kCount);
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::vector<float> a = gradient(0);
  const std::vector<float> b = gradient(1);
  const std::vector<std::span<const float>> both{a, b};
  EXPECT_EQ(means[0], sluice_api::reduce("fixed", both));
  EXPECT_EQ(means[1], means[0]);
}

TEST(Groups, OneThreadCanStepAllWorkers) {
  World world("local", 2);
  const Codec codec("f32");
  const sluice_tensor tensor{5, 1, kCount};
  Group first(world, codec, options_of(0), std::span(&tensor, 1));
  Group second(world, codec, options_of(1), std::span(&tensor, 1));
  std::vector<float> a = gradient(0);
  std::vector<float> b = gradient(1);
  const sluice_entry entries[] = {{0, kCount, a.data(), a.data()}, {0, kCount, b.data(), b.data()}};
  ASSERT_EQ(sluice_group_start(first.get(), 1, &entries[0], 1), SLUICE_OK);
  ASSERT_EQ(sluice_group_start(second.get(), 1, &entries[1], 1), SLUICE_OK);
  uint32_t finished[2] = {0, 0};
  for (int turn = 0; turn < 10 && finished[0] + finished[1] < 2; ++turn) {
    ASSERT_EQ(sluice_group_advance(first.get(), &finished[0]), SLUICE_OK);
    ASSERT_EQ(sluice_group_advance(second.get(), &finished[1]), SLUICE_OK);
  }
  EXPECT_EQ(finished[0] + finished[1], 2u);
  EXPECT_EQ(a, b);
}

TEST(Groups, OfARankThatHasAStepInFlightInAnotherGroupFail) {
  World world("local", 2);
  const Codec codec("f32");
  const sluice_tensor tensor{5, 1, kCount};
  Group first(world, codec, options_of(0), std::span(&tensor, 1));
  Group second(world, codec, options_of(0), std::span(&tensor, 1));
  std::vector<float> values = gradient(0);
  const sluice_entry entry{0, kCount, values.data(), values.data()};
  uint32_t finished = 0;
  ASSERT_EQ(sluice_group_start(first.get(), 1, &entry, 1), SLUICE_OK);
  ASSERT_EQ(sluice_group_advance(first.get(), &finished), SLUICE_OK);
  EXPECT_EQ(finished, 0u);
  ASSERT_EQ(sluice_group_start(second.get(), 1, &entry, 1), SLUICE_OK);
  EXPECT_EQ(sluice_group_advance(second.get(), &finished), SLUICE_FAILED);
  EXPECT_NE(std::string(sluice_last_error()).find("more exchanges in flight"), std::string::npos)
      << sluice_last_error();
  // Which ends the rank's end of the carrier.
  EXPECT_EQ(sluice_group_advance(first.get(), &finished), SLUICE_FAILED);
  EXPECT_EQ(sluice_group_advance(first.get(), &finished), SLUICE_UNAVAILABLE) << "dead";
}

TEST(Groups, SaveAndLoad) {
  World world("local", 1);
  const Codec codec("tide:bits=2");
  const sluice_tensor tensor{5, 1, kCount};
  const auto run = [&](bool saves) {
    auto group = std::make_unique<Group>(world, codec, options_of(0, "ef"), std::span(&tensor, 1));
    std::vector<float> mean(kCount);
    const std::vector<float> mine = gradient(0);
    const sluice_entry entry{0, kCount, mine.data(), mean.data()};
    for (std::uint64_t step = 0; step < 4; ++step) {
      if (saves && step == 2) {
        const auto bytes = group->save();
        group = std::make_unique<Group>(world, codec, options_of(0, "ef"), std::span(&tensor, 1));
        group->load(bytes);
      }
      group->reduce(step, std::span(&entry, 1));
    }
    return mean;
  };
  EXPECT_EQ(run(true), run(false));

  Group group(world, codec, options_of(0, "ef"), std::span(&tensor, 1));
  auto bytes = group.save();
  bytes[40] ^= std::byte{1};
  message_of([&] { group.load(bytes); }, SLUICE_MALFORMED);
  std::size_t size = 0;
  char small[3];
  EXPECT_EQ(sluice_group_save(group.get(), small, sizeof small, &size), SLUICE_INVALID_ARGUMENT);
}

TEST(Groups, MistakesAreNamed) {
  const Codec codec("f32");
  const sluice_tensor tensor{5, 1, kCount};
  const auto says = [&](const std::function<void()>& call, const char* text) {
    EXPECT_NE(message_of(call, SLUICE_INVALID_ARGUMENT).find(text), std::string::npos) << text;
  };
  says([] { World("pigeon", 2); }, "pigeon");
  says([] { World("local", 0); }, "workers is 0");
  says([] { World("local", 5000); }, "5000");
  says([] { Codec("zip"); }, "zip");
  says([&] { static_cast<void>(codec.traits(0)); }, "workers is 0");
  World world("local", 2);
  says([&] { Group(world, codec, options_of(2), std::span(&tensor, 1)); }, "rank 2");
  says([&] { Group(world, codec, options_of(0, "magic"), std::span(&tensor, 1)); }, "magic");
  sluice_options options = options_of(0);
  options.workers = 3;
  says([&] { Group(world, codec, options, std::span(&tensor, 1)); }, "workers is 3");
  options = options_of(0);
  options.timeout = -1;
  says([&] { Group(world, codec, options, std::span(&tensor, 1)); }, "timeout");
  Group group(world, codec, options_of(0), std::span(&tensor, 1));
  const sluice_entry entry{0, 3, nullptr, nullptr};
  says([&] { group.reduce(0, std::span(&entry, 1)); }, "NULL");
  const std::vector<float> three(3);
  const std::vector<float> four(4);
  const std::vector<std::span<const float>> uneven{three, four};
  says([&] { sluice_api::reduce("f32", uneven); }, "different sizes");
}

TEST(Groups, AMissingWorkerIsNamedWhenTimeIsOver) {
  World world("local", 2);
  const Codec codec("f32");
  const sluice_tensor tensor{5, 1, kCount};
  sluice_options options = options_of(0);
  options.timeout = 0.05;
  Group group(world, codec, options, std::span(&tensor, 1));
  std::vector<float> mine = gradient(0);
  const sluice_entry entry{0, kCount, mine.data(), mine.data()};
  const std::string message =
      message_of([&] { group.reduce(9, std::span(&entry, 1)); }, SLUICE_TIMEOUT);
  EXPECT_NE(message.find("step 9"), std::string::npos) << message;
  EXPECT_NE(message.find("1"), std::string::npos) << message;
}

TEST(Groups, CatalogueAndTraits) {
  ASSERT_GE(sluice_carrier_count(), 1u);
  EXPECT_STREQ(sluice_carrier_name(0), "local");
  EXPECT_EQ(sluice_carrier_name(sluice_carrier_count()), nullptr);
  EXPECT_EQ(Codec("fixed:block=256").spec(), "fixed");
  EXPECT_EQ(Codec("tide").traits(4).homomorphic, 1u);
  EXPECT_NE(std::strlen(sluice_kernel_level()), 0u);
}

}  // namespace
