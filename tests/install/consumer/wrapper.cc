// A C++20 user of the installed wrapper: one call, two workers with a thread each, an error.
#include <sluice/sluice.hpp>

#include <array>
#include <cstdio>
#include <exception>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr std::size_t kCount = 1000;

// Worker r's gradient is r + 1 everywhere, so the mean of two is 1.5, exactly.
bool two_workers() {
  const sluice_api::Codec codec("f32");
  sluice_api::World world("local", 2);
  const std::array<sluice_tensor, 1> tensors{{{7, 1, kCount}}};
  std::array<std::vector<float>, 2> values;
  std::array<std::string, 2> problems;
  std::vector<std::thread> threads;
  std::vector<sluice_api::Group> groups;
  for (const std::uint32_t rank : world.here()) {
    sluice_options options{};
    options.rank = rank;
    groups.emplace_back(world, codec, options, tensors);
    values[rank].assign(kCount, static_cast<float>(rank + 1));
  }
  for (std::size_t rank = 0; rank < groups.size(); ++rank) {
    threads.emplace_back([&, rank] {
      try {
        const std::array<sluice_entry, 1> jobs{
            {{0, kCount, values[rank].data(), values[rank].data()}}};
        groups[rank].reduce(0, jobs);
      } catch (const std::exception& error) {
        problems[rank] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::vector<float> wanted(kCount, 1.5f);
  for (const std::string& problem : problems) {
    if (!problem.empty()) std::printf("C++20: %s\n", problem.c_str());
  }
  return values[0] == wanted && values[1] == wanted && groups[0].stats().bytes_up >= 4 * kCount;
}

bool failure_has_code_and_message() {
  try {
    const sluice_api::Codec codec("nope");
  } catch (const sluice_api::Failure& failure) {
    return failure.code() == SLUICE_INVALID_ARGUMENT &&
           std::string(failure.what()).find("nope") != std::string::npos;
  }
  return false;
}

}  // namespace

int main() {
  const std::vector<float> a(kCount, 1.0f);
  const std::vector<float> b(kCount, 3.0f);
  const std::array<std::span<const float>, 2> gradients{a, b};
  if (sluice_api::reduce("f32", gradients) != std::vector<float>(kCount, 2.0f)) return 1;
  if (!two_workers()) return 2;
  if (!failure_has_code_and_message()) return 3;
  std::printf("C++20: sluice %s averaged through the wrapper\n", sluice_version());
  return 0;
}
