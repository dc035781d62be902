// Every codec of the catalogue against answers made of any bytes: done or malformed, with nothing
// of the caller's written before done and no infinity or NaN in a memory of feedback.
#include <fuzzer/FuzzedDataProvider.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/assert.h"
#include "base/limits.h"
#include "catalog/codecs.h"
#include "catalog/feedbacks.h"
#include "feedback/keeping.h"

namespace {

using namespace sluice;
using Floats = std::vector<float>;

constexpr int kStepsMax = 64;  // no codec may go on asking for ever

struct Answers {
  std::vector<Answer> all;
  std::vector<std::vector<Part>> parts;
  std::vector<std::vector<std::uint64_t>> sets;
};

// Mostly well-formed around arbitrary bytes, or no answer would get past the first check.
void answer_from(FuzzedDataProvider& data, const Round& round, std::uint32_t workers,
                 Answers& answers) {
  const std::size_t most = down_size_max(round.what, workers);
  std::size_t size = round.what.count == 0 ? 0 : most;
  if (!is_down_size_fixed(round.what)) size = data.ConsumeIntegralInRange<std::size_t>(0, most);
  if (data.ConsumeIntegralInRange<int>(0, 60) == 60) size = most / 2;
  const auto bytes = data.ConsumeBytes<std::uint8_t>(size);
  std::fill(round.down.begin(), round.down.end(), std::byte{0});
  std::copy_n(std::as_bytes(std::span(bytes)).begin(), bytes.size(), round.down.begin());
  auto& parts = answers.parts.emplace_back();
  const std::uint32_t grain = std::max(1u, grain_of(round.what));
  for (std::uint32_t at = 0; at < round.what.count;) {
    std::uint32_t count = round.what.count - at;
    if (count > grain && parts.size() < 4 && data.ConsumeBool()) count = grain;
    auto& words = answers.sets.emplace_back(worker_words(workers), 0);
    for (std::uint64_t& word : words) word = data.ConsumeIntegral<std::uint64_t>();
    if (data.ConsumeIntegralInRange<int>(0, 60) != 60) {
      if (workers % 64 != 0) words.back() &= (std::uint64_t{1} << (workers % 64)) - 1;
      words[0] |= data.ConsumeBool() ? 1 : 0;
    }
    const bool obeys = !round.only.unrestricted() && data.ConsumeIntegralInRange(0, 60) != 60;
    parts.push_back({at, count, obeys ? round.only : Workers{words}});
    at += count;
  }
  answers.all.push_back({round.down.first(size), parts});
}

Floats floats_from(FuzzedDataProvider& data, std::uint32_t count, bool finite) {
  Floats values(count);
  for (float& value : values) {
    value = std::bit_cast<float>(data.ConsumeIntegral<std::uint32_t>());
    if (finite && !std::isfinite(value)) value = 0;
  }
  return values;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  FuzzedDataProvider data(bytes, size);
  const auto row = data.ConsumeIntegralInRange<std::size_t>(0, kCodecs.size() - 1);
  const auto made = make_codec(kCodecs[row].name);
  const auto workers = data.ConsumeIntegralInRange<std::uint32_t>(1, 130);
  const Tensor tensor{7, 1, data.ConsumeIntegralInRange<std::uint32_t>(0, 300)};
  const auto count = static_cast<std::uint32_t>(tensor.count());
  const Traits traits = made->codec->traits(workers);
  Chunk chunk;
  chunk.extent = {tensor, 0, count, data.ConsumeIntegralInRange(0u, workers - 1), workers};
  const Floats gradient = floats_from(data, count, false);
  Floats mean(count, -7.0f);
  const auto kind = data.ConsumeIntegralInRange<std::size_t>(0, kFeedbacks.size() - 1);
  const auto feedback = make_feedback(kFeedbacks[kind].name);
  std::array<Floats, kMemoriesMax> memories;
  Kept kept{feedback->kind.get(), feedback->info->plain, {}};
  for (std::size_t i = 0; i < feedback->info->memories.size(); ++i) {
    memories[i] = floats_from(data, count, true);
    kept.memories[i] = memories[i];
  }
  const auto before = memories;
  std::vector<std::byte> state(made->codec->plan(tensor, workers).state_size);
  const std::vector<std::byte> model(traits.model_size);
  std::vector<std::uint64_t> tally(traits.tally_count);
  Arena measuring;
  made->codec->begin(with_feedback(chunk, kept, traits.fuses_feedback, measuring), measuring);
  AlignedBuffer host(measuring.host_used());
  AlignedBuffer place(measuring.place_used());
  Arena arena(host.bytes(), place.bytes());
  chunk.gradient = gradient;
  chunk.mean = mean;
  chunk.state = state;
  chunk.model = model;
  chunk.tally = tally;
  Exchange* const exchange =
      made->codec->begin(with_feedback(chunk, kept, traits.fuses_feedback, arena), arena);

  Answers answers;
  for (int turn = 0; turn < kStepsMax; ++turn) {
    const Result<Leg> step = exchange->next(answers.all);
    if (!step) {
      SLUICE_ASSERT(step.error().code == Code::malformed && memories == before);
      SLUICE_ASSERT(std::all_of(mean.begin(), mean.end(), [](float x) { return x == -7.0f; }));
      return 0;
    }
    if (step->kind == Leg::Kind::done) {
      for (const Floats& memory : memories) {
        for (const float value : memory) SLUICE_ASSERT(std::isfinite(value));
      }
      return 0;
    }
    SLUICE_ASSERT(step->kind == Leg::Kind::ask && step->rounds.size() <= kLegRoundsMax);
    answers = {};
    answers.parts.reserve(step->rounds.size());
    for (const Round& round : step->rounds) {
      SLUICE_ASSERT(check(round.what, workers).has_value());
      answer_from(data, round, workers, answers);
    }
  }
  SLUICE_ASSERT(false && "the exchange never ends");
  return 0;
}
