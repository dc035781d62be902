// Any bytes as a saved memory: loaded, and saved as what loads again, or refused and nothing
// changed.
#include <fuzzer/FuzzedDataProvider.h>

#include <memory>
#include <vector>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/random.h"
#include "catalog/codecs.h"
#include "group/memory.h"

namespace {

using namespace sluice;
using Bytes = std::vector<std::byte>;

std::unique_ptr<Memory> make_memory() {
  auto memory = std::move(*Memory::make({.feedback = "ef"}));
  const auto offer = [&](const char* spec) {
    NamedCodec made = std::move(*make_codec(spec));
    return *memory->offer(made.spec, std::move(made.codec));
  };
  const std::vector<Tensor> tensors{{1, 2, 3}, {2, 0, 9}, {3, 1, 1}, {4, 1, 70}};
  const std::span all(tensors);
  SLUICE_ASSERT(memory->add(all.first(1), offer("f32")).has_value());
  SLUICE_ASSERT(memory->add(all.subspan(1, 2), offer("fixed")).has_value());
  SLUICE_ASSERT(memory->add(all.last(1), offer("tide:scales=previous")).has_value());
  const Tensor rows{5, 100, 2};
  SLUICE_ASSERT(memory->add_rows({&rows, 1}, offer("lossless")).has_value());
  return memory;
}

struct Subject {
  std::unique_ptr<Memory> memory = make_memory();
  Bytes fresh = memory->save();
};

// As saved_state.cc has it: words of eight bytes, then single ones, over a seed of the size.
void sign(Bytes& saved) {
  if (saved.size() < 8) return;
  const auto body = std::span<const std::byte>(saved).first(saved.size() - 8);
  std::uint64_t sum = mix(body.size(), 0x73756d);
  std::size_t at = 0;
  for (; at + 8 <= body.size(); at += 8) sum = mix(sum, load_le<std::uint64_t>(body, at));
  for (; at < body.size(); ++at) sum = mix(sum, std::to_integer<std::uint64_t>(body[at]));
  store_le(std::span(saved), body.size(), sum);
}

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
  return 0;
}
