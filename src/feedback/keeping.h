// Feedback around one exchange: the chunk as its codec sees it.
#pragma once

#include "codec/arena.h"
#include "codec/chunk.h"
#include "feedback/feedback.h"

namespace sluice {

// What a worker keeps of a chunk, and how. Without a kind: nothing.
struct Kept {
  const Feedback* kind = nullptr;
  bool plain = false;  // FeedbackInfo::plain
  Memories memories = {};
};

// The chunk with its input made. Takes scratch and a keeper from the arena, or nothing where the
// codec fuses plain feedback. Reads gradient and memories, which stay as they are until the codec
// tells what it sent. With a measuring arena only chunk.extent is looked at.
Chunk with_feedback(const Chunk& chunk, const Kept& kept, bool fuses, Arena& arena);

}  // namespace sluice
