#include "job_log.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <utility>

namespace sluice::daemon {
namespace {

using protocol::JobReport;
using protocol::Time;

std::int64_t seconds_between(Time from, Time to) {
  return std::chrono::duration_cast<std::chrono::seconds>(to - from).count();
}

std::string missing_of(const JobReport& report) {
  return fmt::format("workers {}", fmt::join(ranks_of(report.missing), ", "));
}

}  // namespace

// The lines of one look: somebody who forges joins must not be able to flood the log.
class JobLog::Lines {
 public:
  template <class Words>
  void add(const Words& words) {
    if (lines_.size() < kLookLinesMax) {
      lines_.push_back(words());
    } else {
      ++left_out_;
    }
  }
  std::vector<std::string> take() {
    if (left_out_ != 0) {
      lines_.push_back(fmt::format("{} more line{} about jobs {} left out", left_out_,
                                   left_out_ == 1 ? "" : "s", left_out_ == 1 ? "was" : "were"));
    }
    return std::move(lines_);
  }

 private:
  std::vector<std::string> lines_;
  std::size_t left_out_ = 0;
};

std::string name_of_job(std::uint64_t id) { return fmt::format("0x{:016x}", id); }

std::vector<std::uint32_t> ranks_of(std::uint64_t bits) {
  std::vector<std::uint32_t> ranks;
  for (std::uint32_t rank = 0; rank < 64; ++rank) {
    if ((bits >> rank & 1) != 0) ranks.push_back(rank);
  }
  return ranks;
}

void JobLog::tell(const JobReport& report, Seen& seen, bool is_first, Time now,
                  Lines& lines) const {
  const auto line = [&](const std::string& words) {
    return fmt::format("job {}: {}", name_of_job(report.id), words);
  };
  if (report.is_forming) {
    if (is_first || !seen.is_forming) {
      seen.forming = now;
      seen.said = now;
      lines.add([&] {
        return line(fmt::format("{}, waiting for {} of {}", is_first ? "forms" : "forms anew",
                                missing_of(report), report.workers));
      });
    } else if (now - seen.said >= wait_) {
      seen.said = now;
      lines.add([&] {
        return line(fmt::format("waiting {} s for {} of {} to join",
                                seconds_between(seen.forming, now), missing_of(report),
                                report.workers));
      });
    }
    seen.is_forming = true;
    return;
  }
  if (is_first || seen.is_forming) {
    lines.add([&] {
      return line(fmt::format("runs, {} worker{}, {} slot{}", report.workers,
                              report.workers == 1 ? "" : "s", report.slots,
                              report.slots == 1 ? "" : "s"));
    });
    seen.said = report.since;  // its first wait is spoken of when it is long enough
  }
  seen.is_forming = false;
  if (report.is_waiting && now - report.since >= wait_ && now - seen.said >= wait_) {
    seen.said = now;
    lines.add([&] {
      return line(fmt::format("waiting {} s for {} (slot {}, use {})",
                              seconds_between(report.since, now), missing_of(report), report.slot,
                              report.use));
    });
  }
}

std::vector<std::string> JobLog::look(std::span<const JobReport> reports, Time now) {
  Lines lines;
  ++looks_;
  // Jobs that run come first: those that form may be anybody's.
  for (const bool is_forming : {false, true}) {
    for (const JobReport& report : reports) {
      if (report.is_forming != is_forming) continue;
      const auto [found, is_first] = seen_.try_emplace(report.id);
      Seen& seen = found->second;
      if (is_first) seen.first = now;
      seen.look = looks_;
      tell(report, seen, is_first, now, lines);
    }
  }
  std::erase_if(seen_, [&](const auto& entry) {
    const auto& [id, seen] = entry;
    if (seen.look == looks_) return false;
    lines.add([&, id = id, first = seen.first] {
      return fmt::format("job {}: ended after {} s", name_of_job(id), seconds_between(first, now));
    });
    return true;
  });
  return lines.take();
}

void JobLog::date(std::span<JobReport> reports, Time now) const {
  for (JobReport& report : reports) {
    if (!report.is_forming) continue;
    const auto found = seen_.find(report.id);
    const bool is_known = found != seen_.end() && found->second.is_forming;
    report.since = is_known ? found->second.forming : now;
  }
}

}  // namespace sluice::daemon
