// Feedback around one exchange: the chunk as its codec sees it.
#pragma once

#include "codec/arena.h"
#include "codec/chunk.h"
#include "feedback/feedback.h"

namespace sluice {

// What a worker keeps of a chunk, and how. Without a kind: nothing. A value; the kind and the
// memories are the caller's.
struct Kept {
  const Feedback* kind = nullptr;
  bool plain = false;  // FeedbackInfo::plain
  Memories memories = {};
  // Of a chunk on a device instead: its residual there. Only plain feedback can be there.
  float* there = nullptr;
  // Where the residual is to be copied before the exchange begins; null: nowhere.
  float* there_before = nullptr;
};

// The chunk with its input made, for the codec's begin() with the same arena. It points to scratch
// and a keeper in the arena, or to neither where the codec fuses plain feedback. It lives until the
// arena is reused. Kind and memories outlive it, and nobody else touches the memories meanwhile.
// Gradient and memories are read now, and stay as they are until the codec tells what it sent. With
// a measuring arena only chunk.extent is looked at. `fuses` is Traits::fuses_feedback. One thread,
// inside a FloatEnvironment. Never fails; an arena that is too small asserts.
Chunk with_feedback(const Chunk& chunk, const Kept& kept, bool fuses, Arena& arena);

}  // namespace sluice
