// A carrier over collectives: the rounds of all exchanges that are in flight travel together.
//
//   post(…)…      exchanges lay down their rounds
//   flush()       seals what is posted and starts its first collective
//   wait()        until every exchange has its answers
//
// With a bench, legs whose bytes lie on its device travel as they are, from device to device. Legs
// of the host go first: a wave is led by one, be it empty, in which ranks tell each other what they
// have. It is one collective.
//
// What is in flight at a flush() must be the same on all ranks. group/waves.h sees to it. Ranks
// that disagree get Code::mismatch. A port belongs to one thread at a time. After an error of
// flush() or wait() it is of no use: abandon() it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "carrier/collectives.h"
#include "carrier/fusion.h"
#include "round/carrier.h"

namespace sluice {

// Ranks tell each other how much they have ready. The port calls both on the thread that is in it.
class Readiness {
 public:
  virtual ~Readiness() = default;
  // What this rank has; never less than before.
  virtual std::uint64_t ready() = 0;
  // The least that any rank had when it sent this collective; nothing where that cannot be told.
  // The number comes from outside. `bulk`: the collective was not small.
  virtual void heard(std::optional<std::uint64_t> least, bool bulk) = 0;
};

// What a port has moved to and from other ranks since it was made. An all-reduce counts as a ring.
struct FusedTraffic {
  std::uint64_t sent_bytes = 0;
  std::uint64_t received_bytes = 0;
  std::uint64_t collectives = 0;
  double combine_seconds = 0;
};

class FusedPort final : public Carrier {
 public:
  // 1 to kWorkersMax workers. Collectives and readiness, if any, outlive the port.
  FusedPort(std::uint32_t rank, std::uint32_t workers, Collectives& collectives,
            Readiness* readiness = nullptr);
  // Before the first post(): bytes may lie on this bench's device, too. It outlives the port.
  void use_device(device::Bench& bench);
  // The next flush() leads a wave: with a bench it sends a leg of the host first. Ranks that
  // disagree on the leg of the device that follows hear of it there.
  void lead() { leads_ = device_ != nullptr; }

  // How many collectives it may start; held, flush() and wait() do nothing. Then several ports can
  // start theirs in an order that somebody else knows.
  static constexpr std::uint32_t kFree = 0xffffffff;
  void allow(std::uint32_t starts) { starts_left_ = starts; }
  [[nodiscard]] bool is_held() const override { return starts_left_ == 0; }
  // Blocks until the leg of the host that is on its way, if one is, has come.
  Status hear_host(std::chrono::nanoseconds timeout);

  Status post(const Ticket& ticket, const Place& place, std::span<const Round> leg) override;
  Result<std::span<const Answer>> take(const Ticket& ticket) override;
  Result<bool> flush() override;
  Status wait(std::chrono::nanoseconds timeout) override;
  // A collective that has been started goes on; its bytes are the network's own.
  void abandon() override;
  std::string explain(const Ticket& ticket) override;

  // Whom this port asks and tells from now on; null: nobody. Nothing is in flight.
  void tell(Readiness* readiness) { readiness_ = readiness; }
  // Whether a collective is on its way.
  [[nodiscard]] bool is_sending() const { return stage_ != Stage::none; }
  [[nodiscard]] const FusedTraffic& traffic() const { return traffic_; }

 private:
  // The collective that is on its way.
  enum class Stage : std::uint8_t {
    none,
    sizes,         // how much everybody sends
    shards,        // all-to-all
    answer_sizes,  // how long everybody's answer is
    answers,       // all-gather
    lanes,         // all-reduce
  };

  Status begin();
  Status begin_on_device();
  Status combine_on_device();
  Status start(Stage stage, const Collectives::Call& call);
  Status start_shards(std::span<const std::uint64_t> receive_sizes);
  Status start_lanes();
  Status combine();
  Status start_answers();
  // The collective of the stage is done.
  Status go_on();
  Status take_sizes();
  Status take_answer_sizes();
  Status take_lanes();
  Status hear(bool bulk);
  Error lied(std::size_t rank, const char* what);
  Result<std::span<std::byte>> room(Collectives::Buffer buffer, std::size_t size);
  void count(const Collectives::Call& call);

  std::uint32_t rank_;
  std::uint32_t workers_;
  Collectives& collectives_;
  Readiness* readiness_;
  Fusion fusion_;
  device::Bench* bench_ = nullptr;
  std::unique_ptr<Fusion> device_;  // legs on the bench's device
  bool on_device_ = false;          // the leg on its way is one
  bool leads_ = false;
  std::uint32_t starts_left_ = kFree;
  Stage stage_ = Stage::none;
  std::optional<std::uint32_t> liar_;  // a rank whose sizes cannot be
  FusedTraffic traffic_;
  std::vector<std::uint64_t> eights_;         // a size of 8 bytes for each rank
  std::vector<std::uint64_t> receive_sizes_;  // as told
  std::vector<std::uint64_t> answer_sizes_;   // as told
  std::uint64_t stride_ = 0;                  // of the answers
  std::span<std::byte> send_;
  std::span<std::byte> received_;
  std::span<std::byte> answer_;
  std::span<std::byte> gathered_;
};

}  // namespace sluice
