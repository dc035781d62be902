#include "protocol/assembly.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/assert.h"
#include "base/bytes.h"
#include "protocol/rank_bits.h"
#include "round/combine.h"
#include "round/lists.h"

namespace sluice::protocol {
namespace {

Error malformed(const char* what) { return Error{Code::malformed, 0, what}; }

// The most lanes of a round, in whole units, whose bytes up and down fit into a frame; 0: not one.
std::uint32_t lanes_that_fit(Reduction what, std::uint32_t unit, std::uint32_t workers,
                             std::size_t payload_max) {
  const std::uint32_t units = divide_up(what.count, unit);
  std::uint32_t low = 0;
  std::uint32_t high = units;
  while (low < high) {
    const std::uint32_t middle = low + (high - low + 1) / 2;
    what.count = middle * unit;
    const bool fits = up_size(what) <= payload_max && down_size_max(what, workers) <= payload_max;
    (fits ? low : high) = fits ? middle : middle - 1;
  }
  return low * unit;
}

}  // namespace

Assembly::Assembly(std::uint32_t workers, std::uint32_t rank) : workers_(workers), rank_(rank) {
  SLUICE_ASSERT(workers >= 1 && workers <= 64 && rank < workers);
}

std::uint64_t Assembly::everyone() const { return everyone_of(workers_); }

void Assembly::begin(std::span<const Round> rounds, std::size_t payload_max) {
  SLUICE_ASSERT(payload_max >= kPayloadMin);
  payload_max_ = payload_max;
  in_second_phase_ = false;
  rounds_.assign(rounds.begin(), rounds.end());
  if (collected_.size() < rounds.size()) collected_.resize(rounds.size());
  pieces_.clear();
  answers_.clear();
  for (std::uint32_t round = 0; round < rounds.size(); ++round) cut(round);
  left_ = pieces_.size();
}

void Assembly::cut(std::uint32_t round) {
  const Reduction& what = rounds_[round].what;
  Collected& collected = collected_[round];
  SLUICE_ASSERT(what.count > 0);
  SLUICE_ASSERT(rounds_[round].down.size() >= down_size_max(what, workers_));
  SLUICE_ASSERT(rounds_[round].only.unrestricted() || rounds_[round].only.fits(workers_));
  collected.only = rounds_[round].only.unrestricted() ? everyone() : rounds_[round].only.words[0];
  collected.first = pieces_.size();
  const std::span<const std::byte> up = rounds_[round].up;
  if (what.op == Op::gather) {
    collected.way = Way::list;
    ask_sizes(round);
  } else if (what.op == Op::block_sum) {
    collected.way = Way::blocks;
    collected.blocks.begin(what, up, (collected.only & bit_of(rank_)) != 0, payload_max_);
    cut_lanes(round, collected.blocks.presence(), collected.blocks.present());
  } else if (lanes_that_fit(what, segment_unit(what, workers_), workers_, payload_max_) > 0) {
    collected.way = Way::lanes;
    cut_lanes(round, what, up);
  } else {
    SLUICE_ASSERT(what.op == Op::lane_sum);
    collected.way = Way::full;
    Reduction full = what;
    full.down = Down::full;
    full.extra = 0;
    grow(collected.memory, down_size_max(full, workers_));
    cut_lanes(round, full, up);
  }
  collected.count = pieces_.size() - collected.first;
}

void Assembly::cut_lanes(std::uint32_t round, const Reduction& what,
                         std::span<const std::byte> up) {
  const std::uint32_t lanes =
      lanes_that_fit(what, segment_unit(what, workers_), workers_, payload_max_);
  SLUICE_ASSERT(lanes > 0);
  std::size_t at = 0;
  for (std::uint32_t first = 0; first < what.count;) {
    const std::uint32_t end = first + std::min(lanes, what.count - first);
    const Segment segment = segment_of(what, round, first, end, workers_);
    add({.what = segment.what,
         .round = round,
         .up = up.subspan(segment.up_first, segment.up_size),
         .at = at,
         .size_max = segment.down_size});
    at += segment.down_size;
    first = end;
  }
}

void Assembly::add(Piece piece) {
  SLUICE_ASSERT(piece.up.size() <= payload_max_ && piece.size_max <= payload_max_);
  piece.only = collected_[piece.round].only;
  pieces_.push_back(piece);
}

// --- lists ---

void Assembly::ask_sizes(std::uint32_t round) {
  Collected& collected = collected_[round];
  store_le(std::span<std::byte>(collected.own_size), 0,
           static_cast<std::uint32_t>(rounds_[round].up.size()));
  Reduction what{.op = Op::gather, .bits = 8, .count = sizeof(std::uint32_t)};
  add({.what = what,
       .round = round,
       .up = collected.own_size,
       .size_max = down_size_max(what, workers_)});
}

void Assembly::ask_bytes(std::uint32_t round) {
  Collected& collected = collected_[round];
  SLUICE_ASSERT(in_second_phase_ && collected.sizes.size() == workers_);
  collected.first = pieces_.size();
  const std::uint32_t longest = *std::max_element(collected.sizes.begin(), collected.sizes.end());
  const auto slice = static_cast<std::uint32_t>(payload_max_ / workers_ - kMessageHeader);
  collected.stride = longest;
  grow(collected.memory, std::size_t{longest} * workers_);
  const std::span<const std::byte> up = rounds_[round].up;
  for (std::uint32_t at = 0; at < longest; at += slice) {
    Reduction what{.op = Op::gather, .bits = 8, .count = std::min(slice, longest - at)};
    const std::size_t first = std::min<std::size_t>(at, up.size());
    add({.what = what,
         .round = round,
         .up = up.subspan(first, std::min<std::size_t>(what.count, up.size() - first)),
         .at = at,
         .size_max = down_size_max(what, workers_)});
  }
  collected.count = pieces_.size() - collected.first;
}

// --- blocks ---

void Assembly::ask_blocks(std::uint32_t round) {
  Collected& collected = collected_[round];
  collected.first = pieces_.size();
  for (std::uint32_t i = 0; i < collected.blocks.pieces(); ++i) {
    const Reduction what = collected.blocks.what_of(i);
    add({.what = what,
         .round = round,
         .up = collected.blocks.up_of(i),
         .size_max = down_size_max(what, workers_),
         .is_sparse = true});
  }
  collected.count = pieces_.size() - collected.first;
}

// --- answers ---

bool Assembly::has_second_phase(std::uint32_t round) const {
  const Way way = collected_[round].way;
  return way == Way::list || way == Way::blocks;
}

std::span<std::byte> Assembly::room_for(const Piece& piece) {
  Collected& collected = collected_[piece.round];
  const std::span<std::byte> all = collected.way == Way::full     ? collected.memory.bytes()
                                   : collected.way == Way::blocks ? collected.blocks.united()
                                                                  : rounds_[piece.round].down;
  SLUICE_ASSERT(piece.at <= all.size() && piece.size_max <= all.size() - piece.at);
  return all.subspan(piece.at, piece.size_max);
}

Status Assembly::accept(std::size_t index, std::span<const std::byte> payload,
                        std::uint64_t counted) {
  SLUICE_ASSERT(index < pieces_.size() && !pieces_[index].accepted);
  Piece& piece = pieces_[index];
  if (counted != piece.only) return malformed("result: not the workers that were asked for");
  if (is_down_size_fixed(piece.what) ? payload.size() != piece.size_max
                                     : payload.size() > piece.size_max) {
    return malformed("result: wrong size");
  }
  Collected& collected = collected_[piece.round];
  if (piece.is_sparse) {
    SLUICE_TRY(collected.blocks.accept(static_cast<std::uint32_t>(index - collected.first), payload,
                                       rounds_[piece.round].down));
  } else if (collected.way != Way::list) {
    std::copy(payload.begin(), payload.end(), room_for(piece).begin());
  } else if (!in_second_phase_) {
    SLUICE_TRY(accept_sizes(piece, payload));
  } else {
    SLUICE_TRY(accept_bytes(piece, payload));
  }
  piece.size = payload.size();
  piece.accepted = true;
  SLUICE_ASSERT(left_ > 0);
  --left_;
  return ok();
}

Status Assembly::accept_sizes(const Piece& piece, std::span<const std::byte> payload) {
  Collected& collected = collected_[piece.round];
  const std::size_t size_max = up_size(rounds_[piece.round].what);
  std::vector<std::uint32_t> sizes(workers_, 0);
  SLUICE_TRY(each_message(piece, payload, [&](const Message& message) -> Status {
    if (message.bytes.size() != 4) return malformed("result: a size that is none");
    sizes[message.rank] = load_le<std::uint32_t>(message.bytes);
    if (sizes[message.rank] > size_max) return malformed("result: a message beyond its limit");
    return ok();
  }));
  collected.sizes = std::move(sizes);
  return ok();
}

Status Assembly::accept_bytes(const Piece& piece, std::span<const std::byte> payload) {
  Collected& collected = collected_[piece.round];
  return each_message(piece, payload, [&](const Message& message) -> Status {
    const std::size_t size = collected.sizes[message.rank];
    const std::size_t first = std::min(size, piece.at);
    if (message.bytes.size() != std::min<std::size_t>(piece.what.count, size - first)) {
      return malformed("result: a message of another size than it said");
    }
    const auto into = collected.memory.bytes().subspan(message.rank * collected.stride + first);
    std::copy(message.bytes.begin(), message.bytes.end(), into.begin());
    return ok();
  });
}

// Exactly those that were asked for, by rank.
Status Assembly::each_message(const Piece& piece, std::span<const std::byte> payload,
                              const std::function<Status(const Message&)>& visit) const {
  const std::array<std::uint64_t, 1> words{piece.only};
  const Part part{0, piece.what.count, {words}};
  MessageReader messages(piece.what, {payload, std::span(&part, 1)});
  while (true) {
    SLUICE_TRY_ASSIGN(const auto message, messages.next());
    if (!message) return ok();
    SLUICE_ASSERT(message->rank < workers_);
    SLUICE_TRY(visit(*message));
  }
}

Result<bool> Assembly::advance() {
  SLUICE_ASSERT(is_phase_done());
  if (!in_second_phase_) {
    SLUICE_TRY_ASSIGN(const bool is_over, begin_second_phase());
    if (!is_over) return false;
  }
  for (std::uint32_t round = 0; round < rounds_.size(); ++round) {
    Collected& collected = collected_[round];
    if (has_second_phase(round)) {
      SLUICE_TRY_ASSIGN(collected.size, finish(round));
    }
    collected.words = {collected.only};
    collected.part = {0, rounds_[round].what.count, {collected.words}};
  }
  for (std::uint32_t round = 0; round < rounds_.size(); ++round) {
    answers_.push_back(
        {rounds_[round].down.first(collected_[round].size), std::span(&collected_[round].part, 1)});
  }
  return true;
}

// True where there is nothing more to ask for.
Result<bool> Assembly::begin_second_phase() {
  in_second_phase_ = true;
  for (std::uint32_t round = 0; round < rounds_.size(); ++round) {
    if (has_second_phase(round)) continue;
    SLUICE_TRY_ASSIGN(collected_[round].size, finish(round));
  }
  pieces_.clear();
  for (std::uint32_t round = 0; round < rounds_.size(); ++round) {
    Collected& collected = collected_[round];
    if (collected.way == Way::list) ask_bytes(round);
    if (collected.way != Way::blocks) continue;
    SLUICE_TRY(collected.blocks.plan());
    ask_blocks(round);
  }
  left_ = pieces_.size();
  return left_ == 0;
}

Result<std::size_t> Assembly::finish(std::uint32_t round) {
  switch (collected_[round].way) {
    case Way::lanes: return finish_lanes(round);
    case Way::full: return finish_full(round);
    case Way::list: return finish_list(round);
    case Way::blocks: return collected_[round].blocks.finish(rounds_[round].down);
  }
  SLUICE_ASSERT(false);
}

// Answers that need not fill their room are moved together.
std::size_t Assembly::finish_lanes(std::uint32_t round) {
  const Collected& collected = collected_[round];
  const std::span<std::byte> down = rounds_[round].down;
  std::size_t used = 0;
  for (std::size_t i = collected.first; i < collected.first + collected.count; ++i) {
    const Piece& piece = pieces_[i];
    SLUICE_DASSERT(piece.accepted && piece.size <= piece.size_max && used <= piece.at);
    if (used != piece.at) std::memmove(down.data() + used, down.data() + piece.at, piece.size);
    used += piece.size;
  }
  return used;
}

Result<std::size_t> Assembly::finish_full(std::uint32_t round) {
  const Reduction& what = rounds_[round].what;
  Collected& collected = collected_[round];
  const std::array<std::span<const std::byte>, 1> partials{
      std::as_const(collected.memory).bytes().first(partial_size_max(what, workers_, what.count))};
  grow(scratch_, scratch_size(what));
  return combine_root(what, workers_, static_cast<std::uint32_t>(std::popcount(collected.only)),
                      what.count, partials, scratch_.bytes(), rounds_[round].down);
}

Result<std::size_t> Assembly::finish_list(std::uint32_t round) {
  const Reduction& what = rounds_[round].what;
  const Collected& collected = collected_[round];
  contributions_.clear();
  for (std::uint32_t rank = 0; rank < workers_; ++rank) {
    if ((collected.only >> rank & 1) == 0) continue;
    const auto bytes =
        collected.memory.bytes().subspan(rank * collected.stride, collected.sizes[rank]);
    SLUICE_TRY(check_up(what, bytes));
    contributions_.push_back({rank, bytes});
  }
  grow(scratch_, scratch_size(what));
  return combine(what, workers_, 0, what.count, contributions_, scratch_.bytes(),
                 rounds_[round].down);
}

}  // namespace sluice::protocol
