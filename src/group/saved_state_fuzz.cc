// Any bytes as a saved memory: loaded, and saved as what loads again, or refused and nothing
// changed.
#include <fuzzer/FuzzedDataProvider.h>

#include <memory>
#include <vector>

#include "base/assert.h"
#include "catalog/codecs.h"
#include "group/memory.h"
#include "group/saved_signature_test.h"

namespace {

using namespace sluice;
using Bytes = std::vector<std::byte>;

std::unique_ptr<Memory> make_memory(std::uint32_t workers = 1, std::size_t count = 4) {
  auto memory = std::move(*Memory::make({.workers = workers, .feedback = "ef"}));
  const auto offer = [&](const char* spec) {
    NamedCodec made = std::move(*make_codec(spec));
    return *memory->offer(made.spec, std::move(made.codec));
  };
  const std::vector<Tensor> tensors{{1, 2, 3}, {2, 0, 9}, {3, 1, 1}, {4, 1, 70}};
  const std::span all(tensors);
  SLUICE_ASSERT(memory->add(all.first(1), offer("f32")).has_value());
  SLUICE_ASSERT(memory->add(all.subspan(1, 2), offer("fixed")).has_value());
  if (count < all.size()) return memory;
  SLUICE_ASSERT(memory->add(all.last(1), offer("tide:scales=previous")).has_value());
  const Tensor rows{5, 100, 2};
  SLUICE_ASSERT(memory->add_rows({&rows, 1}, offer("lossless")).has_value());
  return memory;
}

struct Subject {
  std::unique_ptr<Memory> memory = make_memory();
  Bytes fresh = memory->save();
};

void load(Subject& subject, const Bytes& saved) {
  const Bytes before = subject.memory->save();
  const Verdict verdict = subject.memory->load(saved);
  const Bytes after = subject.memory->save();
  if (verdict) {
    // What was taken over is all there is: another one takes over the same.
    const auto other = make_memory();
    SLUICE_ASSERT(other->load(after).has_value());
    SLUICE_ASSERT(other->save() == after);
    return;
  }
  SLUICE_ASSERT(verdict.error().code == Code::malformed || verdict.error().code == Code::mismatch);
  SLUICE_ASSERT(after == before);
}

// Beside the state of another worker, by a memory of a job of one more, and by one that has only
// some of the tensors: taken over or refused, and what was taken over can be saved and loaded.
void load_others(Subject& subject, const Bytes& saved) {
  const std::vector<std::span<const std::byte>> both{saved, subject.fresh};
  for (const std::uint32_t workers : {1u, 2u}) {
    for (const bool grows : {false, true}) {
      const auto memory = make_memory(workers, grows ? 3 : 4);
      const Bytes before = memory->save();
      const Verdict verdict = memory->load(both, {.first = grows ? 1u : 0u, .grows = grows});
      if (!verdict) SLUICE_ASSERT(memory->save() == before);
      SLUICE_ASSERT(memory->load(memory->save()).has_value());
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  static Subject subject;
  const auto raw = std::as_bytes(std::span(bytes, size));
  Bytes saved(raw.begin(), raw.end());
  load(subject, saved);
  sign(saved);
  load(subject, saved);

  // A right one with a piece replaced, so that parsing goes as deep as it can.
  FuzzedDataProvider data(bytes, size);
  Bytes edited = subject.fresh;
  const auto at = data.ConsumeIntegralInRange<std::size_t>(0, edited.size());
  const auto gone = data.ConsumeIntegralInRange<std::size_t>(0, edited.size() - at);
  const auto piece = data.ConsumeRemainingBytes<std::uint8_t>();
  const auto place = edited.begin() + static_cast<std::ptrdiff_t>(at);
  edited.erase(place, place + static_cast<std::ptrdiff_t>(gone));
  const auto inserted = std::as_bytes(std::span(piece));
  edited.insert(edited.begin() + static_cast<std::ptrdiff_t>(at), inserted.begin(), inserted.end());
  sign(edited);
  load(subject, edited);
  load_others(subject, edited);
  return 0;
}
