// A process of a simulation: its seats, and what it does one after the other. One thread. Times
// never go backwards.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sim/network.h"
#include "sim/seat.h"

namespace sluice::sim {

// Of one job, for all its workers.
struct Itinerary {
  std::vector<PlannedExchange> exchanges;
  std::vector<PlannedExchange> meetings;
};

class Player {
 public:
  enum class Stage : std::uint8_t { absent, playing, leaving, gone, dead };

  // Plan and scenario outlive this. Players are numbered through, job by job.
  Player(const Scenario& scenario, const Itinerary& plan, std::uint32_t number);

  // Of the main job, then of the meetings'.
  [[nodiscard]] std::span<const std::unique_ptr<Seat>> seats() const { return seats_; }
  [[nodiscard]] Stage stage() const { return stage_; }
  [[nodiscard]] bool is_over() const { return stage_ == Stage::gone || stage_ == Stage::dead; }
  // Whether all its exchanges are over.
  [[nodiscard]] bool is_done() const { return stage_ == Stage::leaving || stage_ == Stage::gone; }
  // Whether it receives and sends.
  [[nodiscard]] bool is_awake() const {
    return (stage_ == Stage::playing || stage_ == Stage::leaving) && !is_asleep_;
  }
  // When it was done.
  [[nodiscard]] Time done_at() const { return done_at_; }
  [[nodiscard]] std::uint32_t job() const { return job_; }
  [[nodiscard]] std::uint32_t rank() const { return rank_; }

  // For the seat that the datagram names. A player that is asleep finds it when it wakes.
  void receive(const Datagram& datagram, Time now);
  // Does what is its turn. Afterwards what the seats have to send is due.
  void go_on(Time now);
  // After sending: whether it may go.
  void settle();
  // From here on it does nothing.
  void kill() { stage_ = Stage::dead; }
  // When go_on() or sending is due, if nothing is received before; kNever: it is over.
  [[nodiscard]] Time wake() const;
  // Where it is and what it waits for, for a person.
  [[nodiscard]] std::string text() const;

 private:
  enum class Doing : std::uint8_t { exchange, meet, idle, compute };
  struct Act {
    Doing doing = Doing::exchange;
    std::uint64_t count = 0;  // exchanges
    Time lasts{};
  };

  void write_script(const Scenario& scenario);
  bool act(const Act& act, Time now);
  void sleep(Time until);

  std::uint32_t number_;
  std::uint32_t job_;
  std::uint32_t rank_;
  std::uint32_t seats_per_process_;
  std::vector<std::unique_ptr<Seat>> seats_;
  Stage stage_ = Stage::absent;
  std::vector<Act> script_;
  std::size_t next_act_ = 0;
  bool is_begun_ = false;  // the act
  Time idle_until_{};
  bool is_asleep_ = false;
  Time asleep_until_{};
  std::vector<Stall> stalls_;      // the last comes first
  std::vector<Datagram> waiting_;  // while it is asleep
  Time starts_at_{};
  Time done_at_{};
};

}  // namespace sluice::sim
