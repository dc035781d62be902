// Fuses the rounds of many exchanges into few collectives, for carriers whose network offers
// collectives and no aggregator: MPI and the process groups of frameworks.
//
// No I/O: whoever owns a Fusion moves the bytes. One leg of all its exchanges goes like this, the
// same on every rank:
//
//   post(…)…                  the exchanges lay down their rounds, in the same order on all ranks
//   seal()                    cuts all lanes into a shard per rank, borders on grains
//   native() == none:
//     pack(send)              ── all-to-all of send_sizes() ──▶ received
//     combine(received)       ── all-gather of answer() ──▶ gathered
//     spread(gathered)        every round has its answer: take(…)…
//   the same and whole():     pack, all-to-all, combine, spread_own()
//   otherwise:
//     pack_native(lanes)      ── all-reduce of int32 lanes, maximum or sum ──▶ lanes
//     spread_native(lanes)
//
// All workers are counted in every round, except where a round names others in `only`. Each message
// starts with a digest of what its sender believes the leg to be; ranks that disagree are named.
//
// Where a leg is large, exchanges that ask for maxima alone go first, as an all-reduce: the others
// stay posted and travel with what comes next.
//
// An exchange may post its next leg as soon as it took its answers, while others still take
// theirs: what is posted after a seal() belongs to the next one.
//
// Belongs to one thread. Functions of a leg are called in the order above: one out of turn gives
// Code::invalid_argument, or is asserted where it gives no Status. After abandon() they give
// Code::unavailable. An error of seal, combine or a spread is also what take() says to every
// exchange of the leg. Memory grows during the first steps of a job and is then reused. Spans that
// are given back live until the next seal().
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/result.h"
#include "carrier/shards.h"
#include "device/device_memory.h"
#include "round/carrier.h"
#include "round/combine.h"

namespace sluice {

class Fusion final : public Carrier {
 public:
  // What an all-reduce of int32 lanes can do instead of the two collectives.
  enum class Native : std::uint8_t { none, max, sum };

  // 1 to kWorkersMax workers. A leg of which a rank would send at most `whole_max` bytes to all
  // others together is not cut: every rank gets and combines everything, which costs bytes and
  // saves a trip. `whole_max` is the same on all ranks.
  Fusion(std::uint32_t rank, std::uint32_t workers, std::uint64_t whole_max = 0);

  // Tickets may come in any order; the leg is laid out in the order of their sequence.
  Status post(const Ticket& ticket, const Place& place, std::span<const Round> leg) override;
  // Answers are valid until the exchange's next post or the next seal().
  Result<std::span<const Answer>> take(const Ticket& ticket) override;
  // Always Code::unavailable: waiting is I/O.
  Status wait(std::chrono::nanoseconds timeout) override;
  void abandon() override;
  std::string explain(const Ticket& ticket) override;

  // Whether an exchange has a leg here whose answers it has not taken.
  [[nodiscard]] bool knows(const Ticket& ticket);
  // Whether nothing has been posted since the last spread.
  [[nodiscard]] bool empty() const;
  // Once the leg before has its answers. A leg without rounds is a leg too: its messages have
  // headers only. Answers of the leg before that nobody took are gone. `ready` is any number that
  // this rank wants to tell the others. Rounds that cannot be reduced are refused here.
  // `leads`: messages claim what that one has posted, too. So ranks that disagree hear of it before
  // it sends messages whose sizes may differ.
  Status seal(std::uint64_t ready = 0, const Fusion* leads = nullptr);
  // The same number as it is by now; answers carry it, too.
  void tell(std::uint64_t ready) { ready_ = ready; }
  // The least `ready` of any rank, from outside: once the leg is combined, and again once it is
  // spread. A native sum cannot tell: nothing then.
  [[nodiscard]] std::optional<std::uint64_t> least_ready() const { return least_ready_; }

  // What the sealed leg's first exchange is about; of an empty leg: nothing.
  [[nodiscard]] Topic topic() const { return sealed_.empty() ? Topic{} : sealed_[0].ticket.topic; }

  // --- all-to-all, combine, all-gather ---

  // Bytes to each rank, this one included; pack() lays them back to back.
  [[nodiscard]] std::span<const std::uint64_t> send_sizes() const;
  // Bytes from each rank. Where receives_vary() it is at most so many, since lists have no fixed
  // size: then ranks tell each other their send_sizes() first.
  [[nodiscard]] std::span<const std::uint64_t> receive_sizes() const;
  [[nodiscard]] bool receives_vary() const;
  // `send` has room for all send_sizes().
  void pack(std::span<std::byte> send) const;

  // Where combine() puts the answer of this leg instead of memory of its own. After seal(); at
  // least answer_sizes() of this rank. It stays put until the leg is spread, or until the next
  // seal() where it is whole().
  void answer_into(std::span<std::byte> room);
  // Reduces this rank's shard of what came from each rank, back to back. Bytes from outside: bad
  // ones give Code::malformed. A rank that reduces something else gives Code::mismatch. Both have
  // the rank as detail. `received` is not looked at afterwards.
  Status combine(std::span<const std::byte> received, std::span<const std::uint64_t> sizes);
  // The same for messages that lie apart, by rank.
  Status combine(std::span<const std::span<const std::byte>> received);
  [[nodiscard]] std::span<const std::byte> answer() const;

  // Bytes of each rank's answer(). Where answers_vary() it is at most so many: then ranks tell each
  // other its size.
  [[nodiscard]] std::span<const std::uint64_t> answer_sizes() const;
  [[nodiscard]] bool answers_vary() const;
  // Whether gathered bytes stay put until the next seal(): then some need not be copied
  // (Round::anywhere).
  enum class Gathered : std::uint8_t { passes, stays };
  // Rank r's answer is the first sizes[r] bytes at r·stride. Writes every round's `down`. Bytes
  // from outside: Code::malformed names the rank as detail; only the frame of an answer is checked
  // here, codecs check what is in it.
  Status spread(std::span<const std::byte> gathered, std::uint64_t stride,
                std::span<const std::uint64_t> sizes, Gathered memory = Gathered::passes);
  // Whether this leg is not cut: spread_own() takes the place of the all-gather and spread().
  [[nodiscard]] bool whole() const { return whole_; }
  Status spread_own();
  // The same for answers that lie apart, by rank.
  Status spread(std::span<const std::span<const std::byte>> answers,
                Gathered memory = Gathered::passes);

  // --- the same on a device ---

  // From now on bytes of rounds, messages and answers lie on the bench's device, and all that is
  // done to them is recorded there: whoever moves the bytes submits it first, and moves them in the
  // order of its stream. Before the first post. The bench outlives this. May throw bad_alloc.
  void use_device(device::Bench& bench);
  void pack_on_device(std::span<std::byte> send) const;
  // What came from each rank, back to back: as much from everybody. What ranks disagree on is in
  // the bench's verdict, and in explain() after read_headers().
  Status combine_on_device(std::span<const std::byte> received);
  Status spread_on_device(std::span<const std::byte> gathered, std::uint64_t stride);
  // Once the bench is done: who combined something else, for explain().
  void read_headers();

  // --- all-reduce ---

  // What the sealed leg can use; the same on all ranks.
  [[nodiscard]] Native native() const;
  // Lanes of the all-reduce, those that show disagreement included.
  [[nodiscard]] std::size_t native_count() const;
  // Room for native_count() lanes.
  void pack_native(std::span<std::int32_t> lanes) const;
  // Exactly native_count() lanes. Ranks that disagree give Code::mismatch; its detail is -1, since
  // sums name nobody.
  Status spread_native(std::span<const std::int32_t> lanes);

 private:
  enum class Phase : std::uint8_t {
    idle,      // nothing sealed yet
    sealed,    // cut, may be packed
    combined,  // answer() is there
    answered,  // all answers are there, or an error
    dead,      // abandoned
  };
  // One exchange's place in a leg.
  struct Entry {
    Ticket ticket;
    std::uint32_t leg = 0;  // of the exchange
    std::size_t first = 0;  // of its rounds
    std::size_t count = 0;
    bool taken = false;
  };
  // What a message's header says of its sender's leg: the digest stands for all of it, and the
  // rest is to tell ranks that disagree in what.
  struct Claim {
    std::uint64_t digest = 0;
    std::uint64_t sequence = 0;  // of the first exchange
    std::uint64_t step = 0;      // of the training
    std::uint64_t bucket = 0;
    std::uint32_t codec = 0;    // codecs, options and coordinates per chunk, digested
    std::uint32_t seed = 0;     // digested
    std::uint32_t tensors = 0;  // all chunks in order, digested
    std::uint32_t exchanges = 0;
    friend bool operator==(const Claim&, const Claim&) = default;
  };

  static constexpr std::size_t kPad = 16;  // of what lies on a device
  [[nodiscard]] static bool is_for_devices(const Reduction& what);
  void write_header(std::span<std::byte> header) const;
  void add_sum(const Segment& segment, const std::byte* source, std::uint64_t stride,
               std::byte* down);
  static Entry* find(std::vector<Entry>& entries, std::uint64_t sequence);
  Status fail(const Error& error);
  Status expect(Phase phase) const;
  void lay_out();
  [[nodiscard]] bool only_maxima(const Entry& entry) const;
  [[nodiscard]] bool maxima_go_first() const;
  [[nodiscard]] bool fits_whole(std::span<const Round> rounds) const;
  Status check_rounds() const;
  [[nodiscard]] static std::uint64_t digest_of(std::span<const Entry> entries,
                                               std::span<const Round> rounds);
  [[nodiscard]] Claim claim_of_leg(const Fusion* leads) const;
  [[nodiscard]] std::string compare(const Claim& other, std::uint32_t rank) const;
  // The claim in lanes of an all-reduce that show disagreement. One more tells who is ready.
  static constexpr std::size_t kCheckLanes = 14;
  static constexpr std::size_t kOwnLanes = kCheckLanes + 1;
  [[nodiscard]] std::array<std::uint32_t, kCheckLanes> check_lanes() const;
  // Where the claim's parts are not what everybody has.
  [[nodiscard]] std::string compare_lanes(std::span<const std::uint32_t> lanes) const;
  void prepare_answers();
  void cut();
  void measure();
  Status read_header(std::uint32_t rank, std::span<const std::byte> message);
  Status agree(std::span<const std::span<const std::byte>> received);
  Status combine_shard();
  Status collect(const Segment& segment);
  [[nodiscard]] std::int32_t ready_lane() const;
  [[nodiscard]] std::span<std::byte> answer_room();
  [[nodiscard]] bool is_left_there(const Segment& segment, Gathered memory) const;
  Status read_answer_header(std::uint32_t rank, std::span<const std::byte>& answer);
  Status spread_shard(std::uint32_t rank, std::span<const std::byte> answer, Gathered memory);
  void finish_answers();
  [[nodiscard]] Native choose_native() const;

  std::uint32_t rank_;
  std::uint32_t workers_;
  std::uint64_t whole_max_;
  device::Bench* bench_ = nullptr;  // null: bytes lie on the host
  std::size_t pad_ = 1;
  device::SharedMemory headers_;  // of the messages, as the device found them
  Phase phase_ = Phase::idle;
  Error error_;  // of an answered leg

  // The next leg, by sequence; rounds in the order of posting.
  std::vector<Entry> posted_;
  std::vector<Round> posted_rounds_;
  std::vector<Entry> waiting_;  // of those, while the others are sealed
  std::vector<Round> waiting_rounds_;

  // The sealed leg, both by sequence.
  std::vector<Entry> sealed_;
  std::vector<Round> rounds_;
  Claim claim_;  // this rank's
  std::uint64_t ready_ = 0;
  std::optional<std::uint64_t> least_ready_;
  std::string lanes_said_;  // in what an all-reduce showed that ranks disagree
  Shards shards_;
  Native native_ = Native::none;
  bool whole_ = false;
  bool receives_vary_ = false;
  bool answers_vary_ = false;
  std::vector<std::uint64_t> send_sizes_;
  std::vector<std::uint64_t> receive_sizes_;
  std::vector<std::uint64_t> answer_sizes_;

  // Bytes on their way, by rank; what of each is not read yet.
  std::vector<std::span<const std::byte>> rests_;
  std::vector<Claim> claims_;
  std::vector<Contribution> contributions_;
  AlignedBuffer scratch_;
  AlignedBuffer answer_;
  std::span<std::byte> answer_into_;  // instead
  std::size_t answer_size_ = 0;

  // Of each round.
  std::vector<std::size_t> filled_;                // bytes of Round::down …
  std::vector<std::span<const std::byte>> there_;  // … or the answer where it came
  std::vector<Part> parts_;
  std::vector<Answer> answers_;
  std::vector<std::uint64_t> everyone_;  // the set of all workers
  std::vector<std::uint64_t> words_;     // the sets that rounds named, end to end
};

}  // namespace sluice
