#include "carrier/mpi/slot.h"

#include <fmt/format.h>

#include <chrono>

namespace sluice::mpi {

Slot::Slot(const Library& library, Comm comm, std::uint32_t rank, std::uint32_t workers, int tag)
    : mpi_(library),
      rank_(rank),
      workers_(workers),
      tag_(tag),
      mail_(library, comm, rank, workers),
      fusion_(rank, workers) {}

Status Slot::post(const Ticket& ticket, const Place& place, std::span<const Round> leg) {
  if (busy_) return Error{Code::exhausted, 0, "mpi: more exchanges in flight than slots"};
  SLUICE_TRY(fusion_.post(ticket, place, leg));
  SLUICE_TRY(fusion_.seal());
  busy_ = true;
  settled_ = false;
  error_ = {};
  if (const Status begun = begin(Stage::gathering); !begun) {
    error_ = begun.error();
    stage_ = Stage::idle;
    return begun;
  }
  return ok();
}

Result<std::span<const Answer>> Slot::take(const Ticket& ticket) {
  if (!busy_) return Error{Code::invalid_argument, 0, "mpi: nothing posted under this ticket"};
  advance();
  if (stage_ != Stage::idle) return Error{Code::pending, 0, "not all have answered"};
  if (error_.code != Code::ok) {
    busy_ = false;
    return error_;
  }
  auto answers = fusion_.take(ticket);
  if (answers || answers.error().code != Code::invalid_argument) busy_ = false;
  return answers;
}

void Slot::advance() {
  if (const Status went = go_on(); !went) {
    // The fusion tells its own errors to whoever takes.
    if (went.error().code == Code::io) error_ = went.error();
    stage_ = Stage::idle;
  }
}

Status Slot::go_on() {
  if (stage_ == Stage::idle) return ok();
  SLUICE_TRY(receive());
  if (!mail_.all_here()) return ok();
  if (stage_ == Stage::gathering) {
    const auto start = std::chrono::steady_clock::now();
    const Status combined = fusion_.combine(mail_.messages());
    combine_seconds_ +=
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    SLUICE_TRY(combined);
    SLUICE_TRY(begin(Stage::spreading));
    SLUICE_TRY(receive());
    if (!mail_.all_here()) return ok();
  }
  // Others wait for what this rank sends, and it leaves only while this rank is here.
  SLUICE_TRY_ASSIGN(const bool done, mail_.sends_are_done());
  if (!done) return ok();
  settled_ = true;
  stage_ = Stage::idle;
  return fusion_.spread(mail_.messages());
}

Status Slot::begin(Stage stage) {
  stage_ = stage;
  mail_.open(tag_ + (stage == Stage::spreading ? 1 : 0));
  return stage == Stage::gathering ? send_shards() : send_answer();
}

// To the next rank first, so that not all begin with the same one.
Status Slot::send_shards() {
  const auto sizes = fusion_.send_sizes();
  std::size_t total = 0;
  for (const std::uint64_t size : sizes) total += size;
  grow(sent_, total);
  fusion_.pack(sent_.bytes());
  std::size_t at = 0;
  for (std::uint32_t target = 0; target < rank_; ++target) at += sizes[target];
  for (std::uint32_t i = 0; i < workers_; ++i) {
    const std::uint32_t target = (rank_ + i) % workers_;
    if (target == 0) at = 0;
    SLUICE_TRY(mail_.send(target, std::as_const(sent_).bytes().subspan(at, sizes[target])));
    at += sizes[target];
  }
  return ok();
}

Status Slot::send_answer() {
  for (std::uint32_t i = 0; i < workers_; ++i) {
    SLUICE_TRY(mail_.send((rank_ + i) % workers_, fusion_.answer()));
  }
  return ok();
}

// Nobody is a stage ahead by two, so what has this tag is of this leg.
Status Slot::receive() {
  return mail_.receive(stage_ == Stage::gathering ? fusion_.receive_sizes()
                                                  : fusion_.answer_sizes());
}

std::string Slot::explain(const Ticket& ticket) {
  if (error_.code != Code::ok) {
    return error_.detail == 0 ? error_.what : error_text(mpi_, error_.detail);
  }
  if (stage_ == Stage::idle) return fusion_.explain(ticket);
  if (mail_.all_here()) return mail_.missing();
  const char* const what = stage_ == Stage::gathering ? "its gradients" : "its shard's answer";
  return fmt::format("{} (each with {})", mail_.missing(), what);
}

void Slot::abandon(std::unique_ptr<Slot> slot) {
  slot->fusion_.abandon();
  slot->stage_ = Stage::idle;
  keep(std::move(slot));
}

}  // namespace sluice::mpi
