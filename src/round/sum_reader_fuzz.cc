// Any reduction and any answer: the reader gives sums that the contributors can reach, or
// malformed.
#include "round/sum_reader.h"

#include <fuzzer/FuzzedDataProvider.h>

#include <vector>

#include "base/assert.h"

namespace {

using namespace sluice;

Reduction reduction_from(FuzzedDataProvider& data, std::vector<std::uint16_t>& table) {
  Reduction what{.op = Op::lane_sum};
  what.bits = data.ConsumeIntegralInRange<std::uint8_t>(0, 9);
  what.down = static_cast<Down>(data.ConsumeIntegralInRange<std::uint8_t>(0, 3));
  what.extra = data.ConsumeIntegralInRange<std::uint8_t>(0, 24);
  what.count = data.ConsumeIntegralInRange<std::uint32_t>(0, 2000);
  what.grain = data.ConsumeIntegralInRange<std::uint32_t>(0, 300);
  if (data.ConsumeBool()) what.grain *= 8;
  if (data.ConsumeBool()) {
    table.resize(std::size_t{1} << what.bits);
    for (std::uint16_t& entry : table) entry = data.ConsumeIntegral<std::uint16_t>();
    what.table = table;
  }
  return what;
}

// Parts that are often right: a set per run of grains.
std::vector<Part> parts_from(FuzzedDataProvider& data, const Reduction& what, std::uint32_t workers,
                             std::vector<std::vector<std::uint64_t>>& sets) {
  std::vector<Part> parts;
  const std::uint32_t grain = grain_of(what);
  for (std::uint32_t at = 0; at < what.count && parts.size() < 8;) {
    std::uint32_t count = what.count - at;
    if (parts.size() < 7 && data.ConsumeBool()) {
      count = data.ConsumeIntegralInRange<std::uint32_t>(0, 4) * grain;
    }
    if (data.ConsumeIntegralInRange<int>(0, 50) == 50) ++count;
    auto& words = sets.emplace_back(worker_words(workers));
    for (std::uint64_t& word : words) word = data.ConsumeIntegral<std::uint64_t>();
    if (workers % 64 != 0 && data.ConsumeBool()) {
      words.back() &= (std::uint64_t{1} << (workers % 64)) - 1;
    }
    parts.push_back({at, count, {words}});
    at += count;
  }
  return parts;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  FuzzedDataProvider data(bytes, size);
  std::vector<std::uint16_t> table;
  const Reduction what = reduction_from(data, table);
  const auto workers = data.ConsumeIntegralInRange<std::uint32_t>(1, 200);
  if (!check(what, workers)) return 0;
  std::vector<std::vector<std::uint64_t>> sets;
  sets.reserve(8);
  const std::vector<Part> parts = parts_from(data, what, workers, sets);
  auto rest = data.ConsumeRemainingBytes<std::uint8_t>();
  if (is_down_size_fixed(what)) rest.resize(down_size_max(what, workers));
  const Answer answer{std::as_bytes(std::span(rest)), parts};
  Round round;
  round.what = what;
  if (!check_answer(round, answer, workers)) return 0;

  SumReader reader(what, workers, answer);
  std::vector<std::int32_t> twice(grain_of(what));
  std::uint32_t seen = 0;
  while (!reader.done()) {
    const auto grain = reader.next(twice);
    if (!grain) {
      SLUICE_ASSERT(grain.error().code == Code::malformed);
      return 0;
    }
    SLUICE_ASSERT(grain->first == seen && grain->count > 0 && grain->count <= twice.size());
    seen += grain->count;
    if (is_rounded(what, workers)) continue;
    const std::int64_t top = std::int64_t{2} * value_max(what) * grain->from.count();
    for (const std::int32_t sum : std::span(twice).first(grain->count)) {
      SLUICE_ASSERT(sum >= 0 && sum <= top);
    }
  }
  SLUICE_ASSERT(seen == what.count);
  return 0;
}
