#include "tests/support/courier.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/aligned_buffer.h"
#include "round/combine.h"

namespace sluice::support {
namespace {

std::size_t combine_part(const Reduction& what, const std::vector<Bytes>& ups, const Part& part,
                         std::span<std::byte> down) {
  const auto n = static_cast<std::uint32_t>(ups.size());
  std::vector<Contribution> contributions;
  for (std::uint32_t rank = 0; rank < n; ++rank) {
    if (part.from.has(rank)) contributions.push_back({rank, ups[rank]});
  }
  AlignedBuffer scratch(scratch_size(what));
  return combine(what, n, part.first, part.count, contributions, scratch.bytes(), down);
}

WorkerSet named(std::uint32_t n, Workers only) {
  WorkerSet set(n);
  for (std::uint32_t rank = 0; rank < n; ++rank) {
    if (only.has(rank)) set.insert(rank);
  }
  return set;
}

}  // namespace

WorkerSet set_of(std::uint32_t n, const std::vector<std::uint32_t>& ranks) {
  WorkerSet set(n);
  for (const std::uint32_t rank : ranks) set.insert(rank);
  return set;
}

WorkerSet set_without(std::uint32_t n, const std::vector<std::uint32_t>& missing) {
  WorkerSet set = WorkerSet::all(n);
  for (const std::uint32_t rank : missing) set.erase(rank);
  return set;
}

WhoCounts all_but(std::uint32_t n, const std::vector<std::uint32_t>& missing) {
  return [set = set_without(n, missing)](std::size_t, std::size_t, std::uint32_t) { return set; };
}

Bytes combined(const Reduction& what, const std::vector<Bytes>& ups, Workers from) {
  Bytes down(down_size_max(what, static_cast<std::uint32_t>(ups.size())));
  down.resize(combine_part(what, ups, {0, what.count, from}, down));
  return down;
}

Answer laid_down(const Round& round, const Bytes& down, std::span<const Part> parts) {
  if (down.size() > round.down.size()) return {down, parts};
  std::ranges::copy(down, round.down.begin());
  return {round.down.first(down.size()), parts};
}

std::vector<std::vector<Answer>> Courier::carry(const std::vector<std::vector<Round>>& asked,
                                                std::vector<Went>& log) {
  sets_.clear();
  parts_.clear();
  std::vector<std::vector<Answer>> answers(n_);
  for (std::size_t i = 0; i < asked[0].size(); ++i) {
    log.push_back(collect(asked, i));
    reduce(log.back(), asked[0][i], i);
    for (std::uint32_t rank = 0; rank < n_; ++rank) {
      // A carrier may leave anything behind the answer.
      std::ranges::fill(asked[rank][i].down, std::byte{0xff});
      answers[rank].push_back(laid_down(asked[rank][i], log.back().down, *parts_.back()));
    }
  }
  ++leg_;
  return answers;
}

Went Courier::collect(const std::vector<std::vector<Round>>& asked, std::size_t index) {
  const Round& first = asked[0][index];
  Went went{first.what, !first.only.unrestricted(), {}, {}, {}};
  EXPECT_TRUE(check(first.what, n_).has_value());
  for (const auto& mine : asked) {
    const Round& round = mine[index];
    EXPECT_TRUE(round.what == first.what && round.only == first.only);
    const std::size_t size = up_size(first.what);
    EXPECT_TRUE(is_list(first.what.op) ? round.up.size() <= size : round.up.size() == size);
    EXPECT_GE(round.down.size(), down_size_max(first.what, n_));
    went.ups.emplace_back(round.up.begin(), round.up.end());
  }
  return went;
}

void Courier::reduce(Went& went, const Round& round, std::size_t index) {
  const auto counted = [&](std::uint32_t grain) {
    return went.restricted ? named(n_, round.only) : counted_(leg_, index, grain);
  };
  const WorkerSet first = counted(0);
  for (std::uint32_t rank = 0; rank < n_; ++rank) went.from.push_back(first.view().has(rank));
  parts_.push_back(std::make_unique<std::vector<Part>>());
  std::vector<Part>& parts = *parts_.back();
  const std::uint32_t grain = grain_of(went.what);
  for (std::uint32_t at = 0; at < went.what.count; at += grain) {
    const std::uint32_t count = std::min(grain, went.what.count - at);
    const WorkerSet from = counted(at / grain);
    if (!parts.empty() && parts.back().from == from.view()) {
      parts.back().count += count;
      continue;
    }
    sets_.push_back(std::make_unique<WorkerSet>(from));
    parts.push_back({at, count, sets_.back()->view()});
  }
  went.down.resize(down_size_max(went.what, n_));
  std::size_t used = 0;
  for (const Part& part : parts) {
    used += combine_part(went.what, went.ups, part, std::span(went.down).subspan(used));
  }
  went.down.resize(used);
}

}  // namespace sluice::support
