// A thin C++ face of sluice.h: objects that free themselves, spans, and exceptions.
//
// C++20, header only, over the C functions alone, so it is as stable as they are.
#pragma once

#include <sluice/sluice.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace sluice_api {

// What a C function that failed said.
class Failure : public std::runtime_error {
 public:
  Failure(sluice_code code, const std::string& message)
      : std::runtime_error(message), code_(code) {}
  [[nodiscard]] sluice_code code() const noexcept { return code_; }

 private:
  sluice_code code_;
};

inline void check(sluice_code code) {
  if (code != SLUICE_OK) throw Failure(code, sluice_last_error());
}

// The mean of all workers' gradients, which are arrays of this process.
inline std::vector<float> reduce(const std::string& codec,
                                 std::span<const std::span<const float>> gradients,
                                 std::uint64_t seed = 0, std::uint64_t step = 0) {
  std::vector<const float*> pointers;
  const std::size_t count = gradients.empty() ? 0 : gradients.front().size();
  for (const auto gradient : gradients) {
    if (gradient.size() != count) {
      throw Failure(SLUICE_INVALID_ARGUMENT, "gradients of different sizes; accepted: one size");
    }
    pointers.push_back(gradient.data());
  }
  std::vector<float> mean(count);
  check(sluice_reduce_local(codec.c_str(), static_cast<std::uint32_t>(pointers.size()), count,
                            pointers.data(), seed, step, mean.data()));
  return mean;
}

class Codec {
 public:
  explicit Codec(const std::string& spec) {
    sluice_codec* made = nullptr;
    check(sluice_codec_make(spec.c_str(), &made));
    handle_.reset(made);
  }
  [[nodiscard]] std::string spec() const { return sluice_codec_spec(handle_.get()); }
  [[nodiscard]] sluice_traits traits(std::uint32_t workers) const {
    sluice_traits traits = SLUICE_TRAITS_INIT;
    check(sluice_codec_traits(handle_.get(), workers, &traits));
    return traits;
  }
  [[nodiscard]] const sluice_codec* get() const { return handle_.get(); }

 private:
  struct Free {
    void operator()(sluice_codec* codec) const { sluice_codec_free(codec); }
  };
  std::unique_ptr<sluice_codec, Free> handle_;
};

// The workers of a job that live in this process.
class World {
 public:
  // 0 workers: as many as the launcher started.
  explicit World(const std::string& carrier, std::uint32_t workers = 0, std::uint32_t window = 0) {
    sluice_world* made = nullptr;
    check(sluice_world_make(carrier.c_str(), workers, window, &made));
    handle_.reset(made);
  }
  [[nodiscard]] std::uint32_t workers() const { return sluice_world_workers(handle_.get()); }
  [[nodiscard]] std::span<const std::uint32_t> here() const {
    const std::uint32_t* ranks = nullptr;
    const std::size_t count = sluice_world_here(handle_.get(), &ranks);
    return {ranks, count};
  }
  [[nodiscard]] sluice_world* get() const { return handle_.get(); }

 private:
  struct Free {
    void operator()(sluice_world* world) const { sluice_world_free(world); }
  };
  std::unique_ptr<sluice_world, Free> handle_;
};

// One worker's group on one of our carriers. Codec and world may go before it.
class Group {
 public:
  Group(World& world, const Codec& codec, sluice_options options,
        std::span<const sluice_tensor> tensors) {
    options.size = sizeof(options);
    if (options.workers == 0) options.workers = world.workers();
    sluice_group* made = nullptr;
    check(sluice_group_make(world.get(), codec.get(), &options, tensors.data(), tensors.size(),
                            &made));
    handle_.reset(made);
  }
  // Blocks until every worker has the means.
  void reduce(std::uint64_t step, std::span<const sluice_entry> entries) {
    check(sluice_group_reduce(handle_.get(), step, entries.data(), entries.size()));
  }
  [[nodiscard]] sluice_stats stats() const {
    sluice_stats stats = SLUICE_STATS_INIT;
    check(sluice_group_stats(handle_.get(), &stats));
    return stats;
  }
  [[nodiscard]] std::vector<std::byte> save() const {
    std::size_t size = 0;
    check(sluice_group_save(handle_.get(), nullptr, 0, &size));
    std::vector<std::byte> bytes(size);
    check(sluice_group_save(handle_.get(), bytes.data(), bytes.size(), &size));
    return bytes;
  }
  void load(std::span<const std::byte> bytes) {
    check(sluice_group_load(handle_.get(), bytes.data(), bytes.size()));
  }
  [[nodiscard]] sluice_group* get() const { return handle_.get(); }

 private:
  struct Free {
    void operator()(sluice_group* group) const { sluice_group_free(group); }
  };
  std::unique_ptr<sluice_group, Free> handle_;
};

}  // namespace sluice_api
