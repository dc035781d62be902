// The answers of a fused leg: this rank's own, and what came from all of them.
#include <algorithm>

#include "carrier/fused_bytes.h"
#include "carrier/fusion.h"

namespace sluice {

using fused::cut_off;
using fused::invalid;
using fused::kAnswerHeader;
using fused::malformed;

std::span<const std::byte> Fusion::answer() const {
  const std::span<const std::byte> room = answer_into_.empty() ? answer_.bytes() : answer_into_;
  return room.first(answer_size_);
}

Status Fusion::spread(std::span<const std::byte> gathered, std::uint64_t stride,
                      std::span<const std::uint64_t> sizes, Gathered memory) {
  SLUICE_TRY(expect(Phase::combined));
  if (sizes.size() != workers_) return fail(invalid("fusion: a size per rank expected"));
  for (std::uint32_t rank = 0; rank < workers_; ++rank) {
    if (sizes[rank] > stride || sizes[rank] > gathered.size()) {
      return fail(malformed(rank, "fusion: an answer is cut off"));
    }
    rests_[rank] = gathered.first(sizes[rank]);
    gathered = gathered.subspan(std::min<std::uint64_t>(stride, gathered.size()));
  }
  return spread(std::span<const std::span<const std::byte>>(rests_), memory);
}

Status Fusion::spread(std::span<const std::span<const std::byte>> answers, Gathered memory) {
  SLUICE_TRY(expect(Phase::combined));
  if (whole_) return fail(invalid("fusion: this leg is not cut: spread_own"));
  if (answers.size() != workers_) return fail(invalid("fusion: an answer per rank expected"));
  least_ready_.reset();
  for (std::uint32_t rank = 0; rank < workers_; ++rank) {
    std::span<const std::byte> rest = answers[rank];
    if (const Status read = read_answer_header(rank, rest); !read) return fail(read.error());
    if (const Status read = spread_shard(rank, rest, memory); !read) return fail(read.error());
  }
  finish_answers();
  return ok();
}

Status Fusion::spread_own() {
  SLUICE_TRY(expect(Phase::combined));
  if (!whole_) return fail(invalid("fusion: this leg is cut: spread"));
  const Status read = spread_shard(rank_, answer().subspan(kAnswerHeader), Gathered::stays);
  if (!read) return fail(read.error());
  finish_answers();
  return ok();
}

Status Fusion::read_answer_header(std::uint32_t rank, std::span<const std::byte>& answer) {
  if (answer.size() < kAnswerHeader) return malformed(rank, "fusion: an answer has a wrong size");
  const auto ready = load_le<std::uint64_t>(answer);
  least_ready_ = std::min(ready, least_ready_.value_or(ready));
  answer = answer.subspan(kAnswerHeader);
  return ok();
}

// An answer of one extent, whose codec reads it wherever it is.
bool Fusion::is_left_there(const Segment& segment, Gathered memory) const {
  const Round& round = rounds_[segment.round];
  return memory == Gathered::stays && round.anywhere && segment.what.count == round.what.count;
}

// Segments of a round come in order of lanes, and together have room: no more than each one's most.
Status Fusion::spread_shard(std::uint32_t rank, std::span<const std::byte> answer,
                            Gathered memory) {
  for (const Segment& segment : shards_.of(rank)) {
    std::span<const std::byte> bytes;
    if (!cut_off(segment.down_size, is_down_size_fixed(segment.what), answer, bytes)) {
      return malformed(rank, "fusion: an answer has a wrong size");
    }
    if (is_left_there(segment, memory)) {
      there_[segment.round] = bytes;
      continue;
    }
    std::size_t& filled = filled_[segment.round];
    auto into = rounds_[segment.round].down.subspan(filled);
    filled += bytes.size();
    fused::append(bytes, into);
  }
  return answer.empty() ? ok() : Status(malformed(rank, "fusion: an answer is too long"));
}

void Fusion::finish_answers() {
  for (std::size_t i = 0; i < rounds_.size(); ++i) {
    const bool copied = there_[i].data() == nullptr;
    answers_.push_back(
        {copied ? rounds_[i].down.first(filled_[i]) : there_[i], std::span(parts_).subspan(i, 1)});
  }
  phase_ = Phase::answered;
}

}  // namespace sluice
