// Whatever comes: options, shapes, gradients, losses and steps at random, and the mean is that of
// the workers that were counted.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <initializer_list>

#include "base/random.h"
#include "tests/support/paper_sum.h"
#include "tests/support/sparse_job.h"
#include "tests/support/subject.h"

namespace sluice::lossless {
namespace {

using support::Contents;
using support::Gradients;
using support::Overlap;
using support::Pattern;
using support::SparseCase;
using support::SparseJob;

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : seed_(seed) {}
  std::uint64_t roll() { return mix(seed_, next_++); }
  std::uint32_t below(std::uint32_t end) { return static_cast<std::uint32_t>(roll() % end); }
  template <class T>
  T pick(std::initializer_list<T> of) {
    return of.begin()[below(static_cast<std::uint32_t>(of.size()))];
  }

 private:
  std::uint64_t seed_;
  std::uint64_t next_ = 0;
};

class Play {
 public:
  explicit Play(std::uint64_t seed) : dice_(seed), seed_(seed) {
    workers_ = dice_.pick({1u, 2u, 3u, 8u, 16u, 65u});
    const auto count = dice_.pick({1u, 65u, 1023u, 1025u, 3000u, workers_ > 16 ? 500u : 9000u});
    const auto cols = dice_.pick({1u, 7u, 8u, 64u, 100u});
    tensor_ = cols > count ? Tensor{9, 1, count} : Tensor{9, count / cols, cols};
    is_float_ = dice_.below(3) == 0;
    has_loss_ = dice_.below(2) == 0;
    auto mode = dice_.pick({"auto", "auto", "packed", "sketch", "dense"});
    if (is_float_ && std::string_view(mode) == "sketch") mode = "auto";
    auto index = dice_.pick({"levels", "rows", "gather", "auto", "auto", "bitmap", "bloom"});
    if (std::string_view(mode) == "sketch") index = dice_.pick({"auto", "bitmap", "bloom"});
    spec_ = fmt::format("lossless:mode={},sum={},index={},step_bytes={},room={}", mode,
                        is_float_ ? "float" : "exact", index, dice_.pick({0, 128, 3000, 1 << 24}),
                        dice_.pick({0.5, 0.7, 1.0, 4.0}));
    chunk_count_ = dice_.pick({1024u, 4096u, 1u << 20});
    chunks_ = (tensor_.count() + chunk_count_ - 1) / chunk_count_;
  }

  // Empty, or what went wrong.
  std::string run() {
    support::SparseJobOptions options{.workers = workers_,
                                      .chunk_count = chunk_count_,
                                      .feedback = "ef",
                                      .in_place = dice_.below(2) == 0};
    if (has_loss_)
      options.lost = [this](const local::Arrival& arrival) { return is_lost(arrival); };
    SparseJob job(spec_, tensor_, options);
    residuals_.assign(workers_, std::vector<float>(tensor_.count()));
    for (std::uint64_t step = 0; step < 4; ++step) {
      const std::string wrong = run_step(job, step);
      if (wrong.empty()) continue;
      return fmt::format("seed {}: {} on {} × {}, {} workers, chunks of {}{}, step {}: {}", seed_,
                         spec_, tensor_.rows, tensor_.cols, workers_, chunk_count_,
                         has_loss_ ? ", losses" : "", step, wrong);
    }
    return "";
  }

 private:
  // Anybody anywhere, but in every round and grain somebody arrives.
  [[nodiscard]] bool is_lost(const local::Arrival& arrival) const {
    const std::uint64_t where =
        mix(mix(seed_, arrival.sequence), mix(arrival.leg, mix(arrival.round, arrival.grain)));
    if (where % workers_ == arrival.rank || (where >> 20) % 3 == 0) return false;
    return mix(where, arrival.rank) % 4 == 0;
  }

  SparseCase draw() {
    return {.tensor = tensor_,
            .workers = workers_,
            .density = dice_.pick({0.0, 0.001, 0.01, 0.05, 0.2, 0.5, 0.97, 1.0}),
            .pattern = static_cast<Pattern>(dice_.below(support::kPatterns.size())),
            .overlap = static_cast<Overlap>(dice_.below(support::kOverlaps.size())),
            .contents = static_cast<Contents>(dice_.below(support::kContents.size())),
            .seed = dice_.roll()};
  }
  Gradients gradients() {
    Gradients all = support::sparse_gradients(draw());
    if (dice_.below(3) != 0) return all;
    for (auto& one : all) {  // each in its own way
      SparseCase alone = draw();
      alone.workers = 1;
      one = support::sparse_gradients(alone)[0];
    }
    return all;
  }

  std::string run_step(SparseJob& job, std::uint64_t step) {
    const Gradients given = gradients();
    if (std::string wrong = job.step(given); !wrong.empty()) return wrong;
    Gradients inputs = given;
    for (std::uint32_t rank = 0; rank < workers_; ++rank) {
      for (std::size_t i = 0; i < inputs[rank].size(); ++i) inputs[rank][i] += residuals_[rank][i];
    }
    for (std::uint64_t chunk = 0; chunk < chunks_; ++chunk) {
      std::string wrong = judge_chunk(job, step * chunks_ + chunk, chunk, inputs);
      if (!wrong.empty()) return wrong;
    }
    for (std::uint32_t rank = 0; rank < workers_; ++rank) {
      const auto residual = job.group(rank).residual(0);
      residuals_[rank].assign(residual.begin(), residual.end());
    }
    return "";
  }

  // The contributors of a chunk are those of its first round.
  std::string judge_chunk(SparseJob& job, std::uint64_t sequence, std::uint64_t chunk,
                          const Gradients& inputs) {
    std::vector<bool> is_counted;
    for (std::uint32_t rank = 0; rank < workers_; ++rank) {
      is_counted.push_back(!has_loss_ || !is_lost({rank, sequence, 0, 0, 0}));
    }
    const std::size_t first = chunk * chunk_count_;
    const std::size_t last = std::min<std::size_t>(first + chunk_count_, tensor_.count());
    for (std::size_t i = first; i < last; ++i) {
      const float mean = mean_of(inputs, is_counted, i);
      if (std::bit_cast<std::uint32_t>(job.mean()[i]) != std::bit_cast<std::uint32_t>(mean)) {
        return fmt::format("coordinate {}: {:a}, not {:a}", i, job.mean()[i], mean);
      }
      for (std::uint32_t rank = 0; rank < workers_; ++rank) {
        const float residual = job.group(rank).residual(0)[i];
        float kept = is_counted[rank] ? 0.0f : inputs[rank][i];
        if (!std::isfinite(inputs[rank][i])) kept = residuals_[rank][i];
        if (residual == kept) continue;
        return fmt::format("coordinate {}: {} keeps {:a}, not {:a}", i, rank, residual, kept);
      }
    }
    return "";
  }

  [[nodiscard]] float mean_of(const Gradients& inputs, const std::vector<bool>& is_counted,
                              std::size_t i) const {
    support::PaperSum exact;
    float sum = -0.0f;
    std::uint32_t counted = 0;
    for (std::uint32_t rank = 0; rank < workers_; ++rank) {
      if (!is_counted[rank]) continue;
      exact.add(inputs[rank][i]);
      sum += inputs[rank][i];
      ++counted;
    }
    if (!is_float_) return exact.mean(counted);
    return std::isnan(sum) ? std::bit_cast<float>(0x7fc00000u) : sum / static_cast<float>(counted);
  }

  Dice dice_;
  std::uint64_t seed_;
  std::uint32_t workers_;
  Tensor tensor_;
  bool is_float_;
  bool has_loss_;
  std::string spec_;
  std::uint32_t chunk_count_;
  std::uint64_t chunks_;
  std::vector<std::vector<float>> residuals_;
};

TEST(LosslessRandom, TheMeanIsThatOfTheCountedWorkersAndTheOthersKeepTheirs) {
  const std::uint64_t seeds = support::is_full() ? 10'000 : 80;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) EXPECT_EQ(Play(seed).run(), "");
}

}  // namespace
}  // namespace sluice::lossless
