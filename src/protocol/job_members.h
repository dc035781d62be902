// The members of one job at an aggregator: where each of them is, who has left, and what they are
// told.
//
// Slots and rings answer through this class. So it also knows why the job cannot go on, if it
// cannot: then that is the answer.
//
// Belongs to the aggregator's thread. A `worker` is below count(), and is here where it is told
// something: the job has checked it. Frames are in the Outbox when a function returns.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/assert.h"
#include "protocol/counters.h"
#include "protocol/outbox.h"
#include "protocol/rank_bits.h"
#include "protocol/use_content.h"
#include "wire/bodies.h"
#include "wire/frame.h"

namespace sluice::protocol {

class JobMembers {
 public:
  // 1 to 64 workers. Counters outlive this.
  JobMembers(std::uint64_t job, std::uint32_t workers, Counters& counters);

  // --- who they are ---

  [[nodiscard]] std::uint32_t count() const { return workers_; }
  [[nodiscard]] std::uint64_t everyone() const { return everyone_of(workers_); }
  // Who wants to join, or has.
  [[nodiscard]] std::uint64_t here() const { return here_; }
  [[nodiscard]] bool is_here(std::uint32_t worker) const {
    return worker < workers_ && (here_ & bit_of(worker)) != 0;
  }
  // The token of the last join of a worker that is here.
  [[nodiscard]] std::uint64_t token_of(std::uint32_t worker) const { return tokens_[worker]; }
  [[nodiscard]] bool is_at(std::uint32_t worker, const Address& address) const {
    return is_here(worker) && addresses_[worker] == address;
  }
  // The worker is here, at this address and under this token, whatever it had before.
  void enter(std::uint32_t worker, std::uint64_t token, const Address& address);
  // Who has left. They are still here: what is sent to all goes to them, too.
  [[nodiscard]] std::uint64_t left() const { return left_; }
  void leave(std::uint32_t worker);
  // 0 while the job forms.
  [[nodiscard]] std::uint32_t epoch() const { return epoch_; }
  // Everybody is here, and nobody has left. Not 0.
  void begin(std::uint32_t epoch);
  // From here on nobody is here, and there is no epoch.
  void form_anew();

  // --- what they are told ---

  // Of one who is here, or of everybody once all are. Spans live as long as this, and show
  // addresses as they change.
  [[nodiscard]] std::span<const Address> address_of(std::uint32_t worker) const;
  [[nodiscard]] std::span<const Address> all_addresses() const;
  // Adds the job to the header. As wire::write_header asserts.
  void send(wire::Header header, std::span<const std::byte> payload, std::span<const Address> to,
            Outbox& out) const;
  // Padded to so many bytes. `joined`: who has, by bits.
  void welcome(std::uint32_t worker, const wire::Welcome& body, std::size_t payload_size,
               std::uint64_t joined, Outbox& out);
  // Why the job cannot go on; empty while it can.
  [[nodiscard]] const std::string& refusal() const { return refusal_; }
  // Tells one; the job goes on. Any text: wire::write_refusal makes it fit.
  void refuse(std::uint32_t worker, std::string_view why, Outbox& out);
  // The same to one who is no member: without the epoch.
  void refuse_stranger(std::uint32_t worker, std::uint64_t token, const Address& to,
                       std::string_view why, Outbox& out);
  // The job cannot go on from here: tells all who are here, and keeps the reason as refusal().
  void refuse_all(std::string_view why, Outbox& out);
  // The frame is about something else than what the others, `seen`, reduce: refuses all, with both.
  void tell_mismatch(const wire::Frame& frame, const UseContent& content, std::uint64_t seen,
                     Outbox& out);
  // Whether somebody has left without a contribution, so that `seen` stays incomplete. Then the
  // worker is told.
  bool tell_left(std::uint32_t worker, std::uint64_t seen, Outbox& out);
  // To the sender of a question or contribution: these workers are there, others are not.
  void tell_wait(const wire::Header& header, std::uint64_t seen, Outbox& out);
  // To the sender of a result: it is here.
  void tell_restored(const wire::Header& header, Outbox& out);
  // To the sender of a contribution: the table that it names is not here.
  void tell_need(const wire::Header& header, Outbox& out);
  // To everybody, when the use is complete. The payload is its result.
  void send_result(std::uint32_t slot, std::uint32_t use, const UseContent& content,
                   std::span<const std::byte> payload, Outbox& out);
  // To one. It answers a question, where it has a stamp.
  void repeat_result(std::uint32_t worker, std::uint32_t slot, std::uint32_t use,
                     const UseContent& content, std::span<const std::byte> payload,
                     std::uint32_t stamp, Outbox& out);

 private:
  void send_result_to(std::span<const Address> to, wire::Header header, const UseContent& content,
                      std::span<const std::byte> payload, Outbox& out);

  std::uint64_t job_;
  std::uint32_t workers_;
  Counters& counters_;
  std::uint32_t epoch_ = 0;
  std::uint64_t here_ = 0;
  std::uint64_t left_ = 0;
  std::string refusal_;
  std::array<std::uint64_t, wire::kWorkersMax> tokens_{};
  std::array<Address, wire::kWorkersMax> addresses_{};
  std::string body_;
};

}  // namespace sluice::protocol
