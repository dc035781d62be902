#include "sim/workload.h"

#include <algorithm>
#include <array>

#include "base/assert.h"
#include "base/bytes.h"
#include "round/block_sum.h"
#include "round/combine.h"
#include "sim/dice.h"

namespace sluice::sim {
namespace {

constexpr std::array<std::uint16_t, 16> kTable{0,  1,  2,  4,  7,  11, 16, 22,
                                               29, 37, 46, 56, 67, 79, 92, 106};

Reduction draw_sum(Dice& dice, std::uint32_t lanes, std::uint32_t workers) {
  Reduction what{.op = Op::lane_sum,
                 .bits = static_cast<std::uint8_t>(dice.between(1, 8)),
                 .down = static_cast<Down>(dice.between(0, 2)),
                 .count = lanes};
  // Also grains that no frame holds.
  what.grain = static_cast<std::uint32_t>(8 * dice.between(1, dice.happens(0.2) ? 600 : 32));
  if (dice.happens(0.2)) {
    what.bits = 4;
    what.table = kTable;
  }
  if (what.down == Down::round) what.extra = static_cast<std::uint8_t>(dice.between(0, 2));
  if (!check(what, workers)) what.down = Down::narrow;
  if (!check(what, workers)) what = {.op = Op::lane_sum, .bits = 4, .count = lanes};
  return what;
}

// Small blocks, of which a frame holds many, and blocks that no frame holds.
Reduction draw_block_sum(Dice& dice, std::uint32_t lanes) {
  constexpr std::array<std::uint32_t, 5> kGrains{8, 16, 40, 256, 1600};
  const std::uint32_t grain = kGrains[dice.between(0, 4)];
  return {.op = Op::block_sum,
          .bits = static_cast<std::uint8_t>(8u << dice.between(0, 3)),
          .count = std::max(lanes, grain),
          .grain = grain};
}

Reduction draw_reduction(Dice& dice, const Scenario& scenario) {
  const auto lanes = static_cast<std::uint32_t>(dice.between(1, scenario.lanes_max));
  if (scenario.sparse) {
    return {.op = Op::block_sum,
            .bits = 32,
            .count = 256 * static_cast<std::uint32_t>(dice.between(1, scenario.sparse_blocks_max)),
            .grain = 256};
  }
  switch (dice.between(0, scenario.floats ? 7 : 2)) {
    case 0:
      return {.op = Op::wrap_sum,
              .bits = static_cast<std::uint8_t>(8u << dice.between(0, 3)),
              .count = lanes};
    case 1:
      return {
          .op = Op::max, .bits = static_cast<std::uint8_t>(dice.between(1, 32)), .count = lanes};
    case 2:
    case 3: return draw_sum(dice, lanes, scenario.workers);
    case 4: return {.op = Op::gather, .bits = 8, .count = lanes};
    case 5: return draw_block_sum(dice, lanes);
    case 6: return {.op = Op::f32_sum, .bits = 32, .count = lanes};
    default: return {.op = Op::bf16_sum, .bits = 16, .count = lanes};
  }
}

std::vector<std::byte> draw_bytes(Dice& dice, std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(dice.word());
  return bytes;
}

// Who has which blocks.
enum class Support : std::uint8_t { independent, few, same, disjoint, one_worker, none, bulk };

bool has_block(Dice& dice, const Scenario& scenario, Support support, std::uint32_t rank,
               std::uint32_t number) {
  switch (support) {
    case Support::independent: return dice.happens(0.3);
    case Support::few: return dice.happens(0.03);
    case Support::same: return mix(scenario.seed, number) % 4 == 0;
    case Support::disjoint: return number % (2 * scenario.workers) == rank;
    case Support::one_worker: return rank == scenario.workers - 1;
    case Support::none: return false;
    case Support::bulk:
      return number % scenario.bulk_zeros == 0 &&
             (scenario.bulk_is_shared || number / scenario.bulk_zeros % scenario.workers == rank);
  }
  SLUICE_ASSERT(false);
}

// Of integers that are mostly zeros or mostly not, so that blocks come in all their forms.
std::vector<std::byte> draw_integers(Dice& dice, const Reduction& what, bool is_full) {
  const std::size_t size = what.bits / 8u;
  std::vector<std::byte> integers = draw_bytes(dice, what.grain * size);
  const std::uint64_t zeros = is_full ? 0 : dice.between(0, 20);
  for (std::size_t at = 0; at < integers.size(); at += size) {
    if (dice.between(1, 20) > zeros) continue;
    std::fill_n(integers.begin() + static_cast<std::ptrdiff_t>(at), size, std::byte{0});
  }
  return integers;
}

std::vector<std::byte> draw_blocks(Dice& dice, const Scenario& scenario, const Reduction& what,
                                   Support support, std::uint32_t rank) {
  std::vector<std::byte> bytes(up_size(what));
  std::size_t used = kBlockListHeader;
  std::uint32_t blocks = 0;
  for (std::uint32_t number = 0; number < block_count(what); ++number) {
    if (!has_block(dice, scenario, support, rank, number)) continue;
    const auto integers = draw_integers(dice, what, support == Support::bulk);
    used += write_block(what, number, integers, std::span(bytes).subspan(used));
    ++blocks;
  }
  store_le(std::span(bytes), 0, blocks);
  bytes.resize(used);
  return bytes;
}

// Unused bits of the last byte are zero, as codecs leave them.
std::vector<std::byte> draw_up(Dice& dice, const Reduction& what) {
  if (what.op == Op::gather) return draw_bytes(dice, dice.between(0, what.count));
  std::vector<std::byte> bytes = draw_bytes(dice, up_size(what));
  const auto used = static_cast<unsigned>(std::uint64_t{what.count} * what.bits % 8);
  if (used != 0) bytes.back() &= static_cast<std::byte>((1u << used) - 1);
  return bytes;
}

PlannedRound plan_round(Dice& dice, const Scenario& scenario, const Reduction& what,
                        std::uint64_t only) {
  PlannedRound round{.what = what, .only = only, .ups = {}, .down = {}};
  SLUICE_ASSERT(check(round.what, scenario.workers));
  std::vector<Contribution> contributions;
  const bool is_sparse = what.op == Op::block_sum;
  const auto drawn = static_cast<Support>(is_sparse ? dice.between(0, 5) : 0);
  const Support support = scenario.bulk_zeros != 0 ? Support::bulk : drawn;
  for (std::uint32_t rank = 0; rank < scenario.workers; ++rank) {
    round.ups.push_back(is_sparse ? draw_blocks(dice, scenario, what, support, rank)
                                  : draw_up(dice, round.what));
  }
  for (std::uint32_t rank = 0; rank < scenario.workers; ++rank) {
    if (round.only == 0 || (round.only >> rank & 1) != 0) {
      contributions.push_back({rank, round.ups[rank]});
    }
  }
  AlignedBuffer scratch(scratch_size(round.what));
  round.down.resize(down_size_max(round.what, scenario.workers));
  round.down.resize(combine(round.what, scenario.workers, 0, round.what.count, contributions,
                            scratch.bytes(), round.down));
  return round;
}

PlannedRound draw_round(Dice& dice, const Scenario& scenario) {
  const Reduction what = draw_reduction(dice, scenario);
  const std::uint64_t everyone = ~std::uint64_t{0} >> (64 - scenario.workers);
  return plan_round(dice, scenario, what, dice.happens(0.1) ? (dice.word() & everyone) | 1 : 0);
}

PlannedExchange plan_bulk(Dice& dice, const Scenario& scenario) {
  constexpr std::uint32_t kBlock = 256;
  if (scenario.bulk_zeros != 0) {
    const Reduction blocks{
        .op = Op::block_sum, .bits = 32, .count = scenario.bulk_lanes, .grain = kBlock};
    return {{plan_round(dice, scenario, blocks, 0)}};
  }
  const Reduction exponents{
      .op = Op::max, .bits = 8, .count = (scenario.bulk_lanes + kBlock - 1) / kBlock};
  const Reduction sums{.op = Op::wrap_sum, .bits = 32, .count = scenario.bulk_lanes};
  return {{plan_round(dice, scenario, exponents, 0)}, {plan_round(dice, scenario, sums, 0)}};
}

}  // namespace

std::vector<PlannedExchange> plan_exchanges(const Scenario& scenario, std::uint32_t job) {
  Dice dice(mix(scenario.seed, 1000 + job));
  if (scenario.bulk_lanes != 0) return {scenario.exchanges, plan_bulk(dice, scenario)};
  std::vector<PlannedExchange> exchanges(scenario.exchanges);
  for (PlannedExchange& exchange : exchanges) {
    if (scenario.habits.small > 0 && dice.happens(scenario.habits.small)) {
      const Reduction what{.op = Op::wrap_sum,
                           .bits = 32,
                           .count = static_cast<std::uint32_t>(dice.between(1, 200))};
      exchange = {{plan_round(dice, scenario, what, 0)}};
      continue;
    }
    exchange.resize(dice.between(1, 3));
    for (PlannedStep& step : exchange) {
      const std::uint64_t rounds = dice.between(1, 3);
      for (std::uint64_t i = 0; i < rounds; ++i) step.push_back(draw_round(dice, scenario));
    }
  }
  return exchanges;
}

std::uint32_t meetings_of(const Scenario& scenario) {
  const std::uint32_t every = scenario.habits.meets_every;
  return every == 0 ? 0 : (scenario.exchanges + every - 1) / every;
}

std::vector<PlannedExchange> plan_meetings(const Scenario& scenario, std::uint32_t job) {
  Dice dice(mix(scenario.seed, 2000 + job));
  std::vector<PlannedExchange> meetings(meetings_of(scenario));
  for (PlannedExchange& meeting : meetings) {
    const Reduction what{.op = Op::gather, .bits = 8, .count = 8};
    meeting = {{plan_round(dice, scenario, what, 0)}};
  }
  return meetings;
}

}  // namespace sluice::sim
