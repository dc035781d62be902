// What the log says about jobs: one look after another at their reports becomes lines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "protocol/job.h"
#include "protocol/time.h"

namespace sluice::daemon {

// "0x0123456789abcdef", one name everywhere.
std::string name_of_job(std::uint64_t id);
// The ranks of a set of bits, ascending.
std::vector<std::uint32_t> ranks_of(std::uint64_t bits);

inline constexpr std::size_t kLookLinesMax = 64;

// One thread at a time. Times never go backwards. Nothing fails.
class JobLog {
 public:
  // A job that waits is spoken of once per `wait`.
  explicit JobLog(protocol::Time wait) : wait_(wait) {}

  // The lines for what has changed since the look before. A job that came and went in between is
  // not spoken of. At most kLookLinesMax, and one that says how many more there were.
  std::vector<std::string> look(std::span<const protocol::JobReport> reports, protocol::Time now);

  void set_wait(protocol::Time wait) { wait_ = wait; }

  // Sets `since` of jobs that form, which their reports do not know: since they were first looked
  // at.
  void date(std::span<protocol::JobReport> reports, protocol::Time now) const;

 private:
  class Lines;
  struct Seen {
    bool is_forming = true;
    std::uint64_t look = 0;  // the last one that found it
    protocol::Time first{};
    protocol::Time forming{};  // since when
    protocol::Time said{};     // that it waits
  };

  void tell(const protocol::JobReport& report, Seen& seen, bool is_first, protocol::Time now,
            Lines& lines) const;

  protocol::Time wait_;
  std::uint64_t looks_ = 0;
  std::map<std::uint64_t, Seen> seen_;
};

}  // namespace sluice::daemon
