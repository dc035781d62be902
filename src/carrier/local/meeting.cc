#include "carrier/local/meeting.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <thread>

#include "base/assert.h"
#include "carrier/ranks.h"

namespace sluice::local {
namespace {

std::string describe(const Round& round, std::uint32_t workers) {
  const Reduction& what = round.what;
  std::string counting = "whoever arrives";
  if (!round.only.unrestricted()) {
    const auto [ranks, count] =
        list_ranks(workers, [&](std::uint32_t rank) { return round.only.has(rank); });
    counting = fmt::format("{} workers ({})", count, ranks);
  }
  return fmt::format("{}{{{}}} of {} lanes, grain {}, down {}+{}, digest {:016x}, counting {}",
                     name_of(what.op), what.bits, what.count, what.grain, name_of(what.down),
                     what.extra, digest_of(what), counting);
}

void sort_by_rank(std::span<Contribution> contributions) {
  std::sort(contributions.begin(), contributions.end(),
            [](const Contribution& a, const Contribution& b) { return a.rank < b.rank; });
}

}  // namespace

Meeting::Meeting(std::uint32_t workers)
    : workers_(workers),
      posted_(workers),
      arrived_(std::make_unique<std::atomic<std::uint64_t>[]>(workers)) {
  contributions_.reserve(workers);
}

bool Meeting::post(std::uint32_t rank, std::uint64_t generation, const Ticket& ticket,
                   std::span<const Round> rounds) {
  SLUICE_ASSERT(rank < workers_);
  posted_[rank] = {ticket, rounds};
  arrived_[rank].store(generation, std::memory_order_relaxed);
  if (posted_count_.fetch_add(1, std::memory_order_acq_rel) + 1 != workers_) return false;
  generation_ = generation;
  return true;
}

void Meeting::close(const Arrangement& arrangement, std::uint32_t leg) {
  error_ = {};
  complaint_.clear();
  // No exception may pass: the others would wait for the end of this for ever.
  try {
    const Status status = combine_all(arrangement, leg);
    if (!status) error_ = status.error();
  } catch (const std::exception&) {
    error_ = {Code::out_of_memory, 0, "local: no memory to combine in"};
  }
  // In this order, so that withdraw() never finds an open meeting that forgot its posts. Nobody
  // posts here again before this worker has posted to the slot's other meeting.
  closed_.store(generation_, std::memory_order_release);
  posted_count_.store(0, std::memory_order_relaxed);
}

void Meeting::withdraw(std::uint32_t rank, std::uint64_t generation) {
  std::uint32_t count = posted_count_.load(std::memory_order_relaxed);
  while (!is_closed(generation)) {
    if (count == workers_) {  // somebody combines
      std::this_thread::yield();
      count = posted_count_.load(std::memory_order_relaxed);
      continue;
    }
    if (count != 0 && posted_count_.compare_exchange_weak(count, count - 1)) {
      arrived_[rank].store(generation - 1, std::memory_order_relaxed);
      return;
    }
  }
}

Status Meeting::combine_all(const Arrangement& arrangement, std::uint32_t leg) {
  SLUICE_TRY(agree());
  const std::size_t rounds = posted_[0].rounds.size();
  if (outcomes_.size() < rounds) outcomes_.resize(rounds);
  for (std::size_t i = 0; i < rounds; ++i) {
    const Reduction& what = posted_[0].rounds[i].what;
    grow(outcomes_[i].memory, down_size_max(what, workers_));
    grow(scratch_, scratch_size(what));
    outcomes_[i].size = 0;
    split(i, arrangement, leg);
    for (const Part& part : outcomes_[i].parts) SLUICE_TRY(combine_part(i, part, arrangement));
  }
  return ok();
}

// Stands for the digest that every frame of a network carrier carries.
Status Meeting::agree() {
  const Posted& first = posted_[0];
  for (std::uint32_t rank = 0; rank < workers_; ++rank) {
    const Posted& other = posted_[rank];
    if (other.ticket.sequence != first.ticket.sequence ||
        other.ticket.digest != first.ticket.digest || other.rounds.size() != first.rounds.size()) {
      const std::string what = difference(first.ticket.topic, "worker 0", other.ticket.topic,
                                          fmt::format("worker {}", rank));
      complaint_ = fmt::format(
          "worker 0 is at exchange {} ({:016x}, {} rounds) and worker {} at exchange {} ({:016x}, "
          "{} rounds): they do not reduce the same {}",
          first.ticket.sequence, first.ticket.digest, first.rounds.size(), rank,
          other.ticket.sequence, other.ticket.digest, other.rounds.size(),
          what.empty() ? "tensor, chunk, step or codec" : what);
      return Error{Code::mismatch, 0, "workers disagree on the exchange"};
    }
    for (std::size_t i = 0; i < first.rounds.size(); ++i) {
      const Round& round = other.rounds[i];
      if (!(round.what == first.rounds[i].what) || !(round.only == first.rounds[i].only)) {
        complaint_ =
            fmt::format("round {}: worker 0 asks for {}, worker {} for {}", i,
                        describe(first.rounds[i], workers_), rank, describe(round, workers_));
        return Error{Code::mismatch, 0, "workers disagree on the reduction"};
      }
      SLUICE_TRY(check(round.what, workers_));
      SLUICE_TRY(check_up(round.what, round.up));
      SLUICE_ASSERT(round.what.count > 0);
      SLUICE_ASSERT(round.down.size() >= down_size_max(round.what, workers_));
    }
  }
  return ok();
}

// Grains with the same contributors in a row are one part.
void Meeting::split(std::size_t index, const Arrangement& arrangement, std::uint32_t leg) {
  const Round& round = posted_[0].rounds[index];
  Outcome& outcome = outcomes_[index];
  const std::size_t width = worker_words(workers_);
  const bool asks = arrangement.lost != nullptr && round.only.unrestricted();
  const std::uint32_t grain = asks ? grain_of(round.what) : round.what.count;
  outcome.parts.clear();
  outcome.words.clear();
  for (std::uint32_t at = 0; at < round.what.count; at += grain) {
    WorkerSet set = WorkerSet::all(workers_);
    for (std::uint32_t rank = 0; rank < workers_; ++rank) {
      const bool counted =
          round.only.unrestricted()
              ? !asks || !arrangement.lost({rank, posted_[0].ticket.sequence, leg,
                                            static_cast<std::uint32_t>(index), at / grain})
              : round.only.has(rank);
      if (!counted) set.erase(rank);
    }
    const std::uint32_t count = std::min(grain, round.what.count - at);
    const Workers view = set.view();
    if (!outcome.parts.empty() &&
        std::equal(view.words.begin(), view.words.end(),
                   outcome.words.end() - static_cast<std::ptrdiff_t>(width))) {
      outcome.parts.back().count += count;
      continue;
    }
    outcome.words.insert(outcome.words.end(), view.words.begin(), view.words.end());
    outcome.parts.push_back({at, count, {}});
  }
  for (std::size_t i = 0; i < outcome.parts.size(); ++i) {
    outcome.parts[i].from = {
        std::span<const std::uint64_t>(outcome.words).subspan(i * width, width)};
  }
}

Status Meeting::combine_part(std::size_t index, const Part& part, const Arrangement& arrangement) {
  const Reduction& what = posted_[0].rounds[index].what;
  Outcome& outcome = outcomes_[index];
  contributions_.clear();
  for (std::uint32_t i = 0; i < workers_; ++i) {
    const std::uint32_t rank = arrangement.order.empty() ? i : arrangement.order[i];
    if (part.from.has(rank)) contributions_.push_back({rank, posted_[rank].rounds[index].up});
  }
  if (contributions_.empty()) return Error{Code::lost, 0, "no worker's contribution was counted"};
  const auto into = outcome.memory.bytes().subspan(outcome.size);
  if (arrangement.fan_in != 0) {
    SLUICE_TRY_ASSIGN(const std::size_t used, combine_tree(what, part, arrangement.fan_in, into));
    outcome.size += used;
    return ok();
  }
  if (is_float_sum(what.op) || what.op == Op::gather) {
    sort_by_rank(contributions_);
  }
  outcome.size +=
      combine(what, workers_, part.first, part.count, contributions_, scratch_.bytes(), into);
  return ok();
}

Result<std::size_t> Meeting::combine_tree(const Reduction& what, const Part& part,
                                          std::uint32_t fan_in, std::span<std::byte> into) {
  partials_.clear();
  const std::size_t leaf_count = (contributions_.size() + fan_in - 1) / fan_in;
  if (leaves_.size() < leaf_count) leaves_.resize(leaf_count);
  for (std::size_t leaf = 0; leaf < leaf_count; ++leaf) {
    const std::size_t from = leaf * fan_in;
    const auto members =
        std::span(contributions_)
            .subspan(from, std::min<std::size_t>(fan_in, contributions_.size() - from));
    sort_by_rank(members);
    grow(leaves_[leaf], partial_size_max(what, workers_, part.count));
    const std::size_t used = combine_leaf(what, workers_, part.first, part.count, members,
                                          scratch_.bytes(), leaves_[leaf].bytes());
    partials_.emplace_back(leaves_[leaf].bytes().first(used));
  }
  return combine_root(what, workers_, static_cast<std::uint32_t>(contributions_.size()), part.count,
                      partials_, scratch_.bytes(), into);
}

std::span<const std::byte> Meeting::down(std::size_t round) const {
  return outcomes_[round].memory.bytes().first(outcomes_[round].size);
}

std::span<const Part> Meeting::parts(std::size_t round) const { return outcomes_[round].parts; }

std::string Meeting::missing(std::uint64_t generation) const {
  return list_missing(workers_, [&](std::uint32_t rank) {
    return arrived_[rank].load(std::memory_order_relaxed) < generation;
  });
}

}  // namespace sluice::local
