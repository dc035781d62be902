// The C functions over exchanges, rounds and the reference reductions.
#include <fmt/format.h>

#include <algorithm>

#include "abi/edge.h"
#include "base/aligned_buffer.h"
#include "base/float_environment.h"
#include "base/limits.h"
#include "group/flight.h"
#include "round/combine.h"

using sluice::Answer;
using sluice::Nothing;
using sluice::Part;
using sluice::Problem;
using sluice::Reduction;
using sluice::Round;
using sluice::Verdict;
using sluice::abi::call;
using sluice::abi::check_pointers;
using sluice::abi::invalid;

struct sluice_exchange {
  sluice_exchange(std::shared_ptr<sluice::abi::WorkerHandle> of, const sluice::FlightSize& size)
      : worker(std::move(of)),
        host(size.host),
        place(size.place),
        all(sluice::WorkerSet::all(worker->memory->options().workers)) {
    tally.reset(*worker->memory);
    // Here, because a leg that was made cannot be made again.
    rounds.reserve(sluice::kLegRoundsMax);
    shown.reserve(sluice::kLegRoundsMax);
  }

  void end() {
    exchange = nullptr;
    in_flight = {};
  }

  std::shared_ptr<sluice::abi::WorkerHandle> worker;  // shared with the memory's handle
  sluice::abi::InFlight in_flight;
  sluice::AlignedBuffer host;
  sluice::AlignedBuffer place;
  sluice::Tally tally;
  sluice::WorkerSet all;
  sluice::Exchange* exchange = nullptr;
  std::vector<Round> rounds;
  std::vector<sluice_round> shown;
};

namespace {

sluice_reduction shown_from(const Reduction& what) {
  return {static_cast<std::uint32_t>(what.op),
          what.bits,
          static_cast<std::uint32_t>(what.down),
          what.extra,
          what.count,
          what.grain,
          what.table.empty() ? nullptr : what.table.data(),
          what.table.size()};
}

sluice::Checked<Reduction> reduction_from(const sluice_reduction* shown, std::uint32_t workers) {
  SLUICE_TRY(check_pointers({{shown, "what"}}));
  if (shown->op > static_cast<std::uint32_t>(sluice::Op::f16_sum)) {
    return invalid(fmt::format("op {}; accepted: 0 to 7", shown->op));
  }
  if (shown->down > 2 || shown->bits > 64 || shown->extra > 64 ||
      shown->table_count > sluice::kTableEntriesMax) {
    return invalid(fmt::format(
        "a reduction of {} bits, down {}, extra {}, {} table entries; "
        "accepted: at most 64, 2, 64 and {}",
        shown->bits, shown->down, shown->extra, shown->table_count, sluice::kTableEntriesMax));
  }
  if (shown->table == nullptr && shown->table_count != 0) {
    return invalid(fmt::format("what.table is NULL; accepted: {} entries", shown->table_count));
  }
  if (workers < 1 || workers > sluice::kWorkersMax) {
    return invalid(fmt::format("{} workers; accepted: 1 to {}", workers, sluice::kWorkersMax));
  }
  Reduction what;
  what.op = static_cast<sluice::Op>(shown->op);
  what.bits = static_cast<std::uint8_t>(shown->bits);
  what.down = static_cast<sluice::Down>(shown->down);
  what.extra = static_cast<std::uint8_t>(shown->extra);
  what.count = shown->count;
  what.grain = shown->grain;
  if (shown->table != nullptr) what.table = {shown->table, shown->table_count};
  const sluice::Status possible = check(what, workers);
  if (!possible) return Problem{sluice::Code::invalid_argument, possible.error().what};
  return what;
}

Verdict check_chunk(const sluice::abi::WorkerHandle& worker, const sluice_entry& entry,
                    std::uint64_t offset) {
  SLUICE_TRY(sluice::abi::check_tensor(worker, entry.tensor));
  const sluice::Memory& memory = *worker.memory;
  const sluice::Tensor& tensor = memory.tensors()[entry.tensor];
  if (memory.brings_rows(entry.tensor)) {
    return invalid(
        fmt::format("tensor {} brings rows; accepted: one of sluice_memory_add", entry.tensor));
  }
  if (memory.accelerator() != nullptr) {
    return invalid(
        "an exchange of a memory on a device; accepted: a memory without options.device");
  }
  const std::uint64_t whole = memory.chunk_count(entry.tensor);
  if (offset % whole != 0 || offset >= tensor.count() ||
      entry.count != std::min(whole, tensor.count() - offset)) {
    return invalid(
        fmt::format("{} coordinates at {} of a tensor of {}; accepted: chunks of {}, "
                    "the last one shorter",
                    entry.count, offset, tensor.count(), whole));
  }
  return check_pointers({{entry.gradient, "gradient"}, {entry.mean, "mean"}});
}

// What the caller filled in, as answers that count every worker.
sluice::Checked<std::vector<Answer>> answers_of(const sluice_exchange& exchange,
                                                std::vector<Part>& parts) {
  std::vector<Answer> answers;
  parts.reserve(exchange.rounds.size());
  for (std::size_t i = 0; i < exchange.rounds.size(); ++i) {
    const Round& round = exchange.rounds[i];
    if (exchange.shown[i].down_size > round.down.size()) {
      return invalid(fmt::format("rounds[{}].down_size is {}; accepted: at most {}", i,
                                 exchange.shown[i].down_size, round.down.size()));
    }
    const bool only = !round.only.unrestricted();
    parts.push_back({0, round.what.count, only ? round.only : exchange.all.view()});
    answers.push_back({round.down.first(exchange.shown[i].down_size),
                       round.what.count == 0 ? std::span<const Part>{}
                                             : std::span<const Part>(&parts.back(), 1)});
  }
  return answers;
}

// What each worker sent, which must fit the reduction.
sluice::Checked<std::vector<sluice::Contribution>> contributions_of(const Reduction& what,
                                                                    std::uint32_t workers,
                                                                    const void* const* ups,
                                                                    const std::size_t* up_sizes) {
  std::vector<sluice::Contribution> contributions;
  for (std::uint32_t rank = 0; rank < workers; ++rank) {
    if (ups[rank] == nullptr && up_sizes[rank] != 0) {
      return invalid(fmt::format("ups[{}] is NULL; accepted: {} bytes", rank, up_sizes[rank]));
    }
    contributions.push_back({rank, {static_cast<const std::byte*>(ups[rank]), up_sizes[rank]}});
    if (const sluice::Status fits = check_up(what, contributions.back().up); !fits) {
      return invalid(fmt::format("worker {} sent {} bytes: {}; accepted: {}", rank, up_sizes[rank],
                                 fits.error().what, up_size(what)));
    }
  }
  return contributions;
}

// The exchange's next leg, or its end.
Verdict advance(sluice_exchange& exchange) {
  std::vector<Part> parts;
  SLUICE_TRY_ASSIGN(const auto answers, answers_of(exchange, parts));
  const sluice::FloatEnvironment environment;
  const auto leg = exchange.exchange->next(answers);
  if (!leg) {
    exchange.end();
    return sluice::abi::fatal({leg.error().code, leg.error().what});
  }
  if (leg->kind == sluice::Leg::Kind::done) {
    exchange.worker->memory->count(exchange.tally);
    exchange.end();
  }
  exchange.rounds.assign(leg->rounds.begin(), leg->rounds.end());
  exchange.shown.clear();
  for (const Round& round : exchange.rounds) {
    exchange.shown.push_back({shown_from(round.what), round.up.data(), round.up.size(),
                              round.down.data(), round.down.size(), 0});
  }
  return Nothing{};
}

}  // namespace

extern "C" {

size_t sluice_answer_size_max(const sluice_reduction* what, uint32_t workers) {
  return sluice::abi::value(std::size_t{0}, [&] {
    const auto parsed = reduction_from(what, workers);
    return parsed ? down_size_max(*parsed, workers) : 0;
  });
}

sluice_code sluice_combine(const sluice_reduction* what, uint32_t workers, const void* const* ups,
                           const size_t* up_sizes, void* down, size_t down_capacity,
                           size_t* down_size) {
  return call({__func__}, [&]() -> Verdict {
    SLUICE_TRY_ASSIGN(const Reduction parsed, reduction_from(what, workers));
    SLUICE_TRY(check_pointers(
        {{ups, "ups"}, {up_sizes, "up_sizes"}, {down, "down"}, {down_size, "down_size"}}));
    const std::size_t most = down_size_max(parsed, workers);
    if (down_capacity < most) {
      return invalid(fmt::format("down has {} bytes; accepted: at least {}", down_capacity, most));
    }
    SLUICE_TRY_ASSIGN(const auto contributions, contributions_of(parsed, workers, ups, up_sizes));
    const sluice::FloatEnvironment environment;
    sluice::AlignedBuffer scratch(scratch_size(parsed));
    *down_size = combine(parsed, workers, 0, parsed.count, contributions, scratch.bytes(),
                         {static_cast<std::byte*>(down), down_capacity});
    return Nothing{};
  });
}

uint64_t sluice_memory_chunk(const sluice_memory* memory, uint32_t tensor) {
  return sluice::abi::value(std::uint64_t{0}, [&]() -> std::uint64_t {
    if (memory == nullptr) return 0;
    const sluice::Memory& of = *memory->worker->memory;
    return tensor < of.tensors().size() ? of.chunk_count(tensor) : 0;
  });
}

sluice_code sluice_exchange_begin(sluice_memory* memory, uint64_t step, uint32_t tensor,
                                  uint64_t offset, uint64_t count, const float* gradient,
                                  float* mean, sluice_exchange** exchange) {
  return call({__func__}, [&]() -> Verdict {
    SLUICE_TRY(check_pointers({{memory, "memory"}, {exchange, "exchange"}}));
    sluice::Memory& worker = *memory->worker->memory;
    const sluice_entry entry{tensor, count, gradient, mean};
    SLUICE_TRY(check_chunk(*memory->worker, entry, offset));
    const sluice::Codec& codec = worker.codec(worker.choice(tensor));
    sluice::FlightSize size;
    const auto whole = static_cast<std::uint32_t>(count);
    size.cover(
        codec,
        {worker.tensors()[tensor], offset, whole, worker.options().rank, worker.options().workers},
        worker.kind(tensor));
    auto made = std::make_unique<sluice_exchange>(memory->worker, size);
    const auto floats = static_cast<std::size_t>(count);
    const sluice::Chunk chunk =
        worker.chunk(step, tensor, offset, {gradient, floats}, {mean, floats}, made->tally);
    sluice::Arena arena(made->host.bytes(), made->place.bytes());
    const sluice::FloatEnvironment environment;
    const bool fuses = codec.traits(worker.options().workers).fuses_feedback;
    made->exchange =
        codec.begin(with_feedback(chunk, worker.kept(tensor, offset, whole), fuses, arena), arena);
    made->in_flight = sluice::abi::InFlight(*memory->worker);
    *exchange = made.release();
    return Nothing{};
  });
}

void sluice_exchange_free(sluice_exchange* exchange) { std::unique_ptr<sluice_exchange>{exchange}; }

sluice_code sluice_exchange_next(sluice_exchange* exchange, sluice_round** rounds,
                                 size_t* round_count) {
  return call({__func__}, [&]() -> Verdict {
    SLUICE_TRY(
        check_pointers({{exchange, "exchange"}, {rounds, "rounds"}, {round_count, "round_count"}}));
    if (exchange->exchange == nullptr) {
      return invalid("the exchange is over; accepted: one that is not done");
    }
    SLUICE_TRY(advance(*exchange));
    *rounds = exchange->shown.data();
    *round_count = exchange->shown.size();
    return Nothing{};
  });
}

}  // extern "C"
