#include "feedback/keeping.h"

namespace sluice {
namespace {

class ChunkKeeper final : public Keeper {
 public:
  ChunkKeeper(const Kept& kept, std::span<const float> gradient, std::span<const float> input)
      : kept_(kept), gradient_(gradient), input_(input) {}

  void sent(std::uint32_t first, std::span<const double> values) override {
    if (!values.empty()) after(first, values.size(), values);
  }
  void held(std::uint32_t first, std::uint32_t count) override { after(first, count, {}); }

 private:
  void after(std::uint32_t first, std::size_t count, std::span<const double> sent) {
    kept_.kind->after(gradient_.subspan(first, count), input_.subspan(first, count), sent,
                      part_of(kept_.memories, first, count));
  }

  Kept kept_;
  std::span<const float> gradient_;
  std::span<const float> input_;
};

}  // namespace

Chunk with_feedback(const Chunk& chunk, const Kept& kept, bool fuses, Arena& arena) {
  Chunk seen = chunk;
  if (kept.kind == nullptr) return seen;
  if (chunk.place.on_device()) {
    seen.there.residual = kept.there;
    return seen;
  }
  if (fuses && kept.plain) {
    seen.residual = kept.memories[0];
    return seen;
  }
  const auto input = arena.place<float>(chunk.extent.count);
  auto* const keeper = arena.make<ChunkKeeper>(kept, chunk.gradient, input);
  if (keeper == nullptr) return seen;
  kept.kind->before(chunk.gradient, kept.memories, input);
  seen.gradient = input;
  seen.original = chunk.gradient;
  seen.keeper = keeper;
  return seen;
}

}  // namespace sluice
