#include "metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <nlohmann/json.hpp>
#include <string_view>

#include "job_log.h"

namespace sluice::daemon {
namespace {

using protocol::Counters;
using protocol::JobReport;

struct Row {
  std::string_view name;
  std::uint64_t Counters::* value;
  std::string_view help;
};

constexpr std::array kRows{
    Row{"received", &Counters::received, "Datagrams that came."},
    Row{"malformed", &Counters::malformed, "Datagrams that do not parse or cannot be reduced."},
    Row{"unexpected", &Counters::unexpected, "Datagrams of a kind that workers do not send."},
    Row{"strangers", &Counters::strangers, "Datagrams in a worker's name from elsewhere."},
    Row{"unproven", &Counters::unproven, "Joins from addresses that have not proven themselves."},
    Row{"gone", &Counters::gone, "Datagrams of a job or epoch that is not here."},
    Row{"control", &Counters::control, "Joins, leaves, tables and restored results."},
    Row{"accepted", &Counters::accepted, "Contributions that were counted."},
    Row{"again", &Counters::again, "Contributions that were here already."},
    Row{"passed", &Counters::passed, "Frames about a ring's use without data."},
    Row{"blocked", &Counters::blocked, "Contributions to a ring that had no place for them yet."},
    Row{"asked", &Counters::asked, "Questions about a use."},
    Row{"stale", &Counters::stale, "Contributions to a use that is over, or questions about it."},
    Row{"tableless", &Counters::tableless, "Contributions whose table was not here yet."},
    Row{"mismatched", &Counters::mismatched, "Contributions that ended their job."},
    Row{"completed", &Counters::completed, "Uses that were summed."},
    Row{"silent", &Counters::silent, "Workers without data, summed over completed uses."},
    Row{"results", &Counters::results, "Results sent."},
    Row{"waits", &Counters::waits, "Times a worker was told to wait for others."},
    Row{"refused", &Counters::refused, "Refusals sent."},
    Row{"non_finite", &Counters::non_finite, "Uses whose float sum met Inf or NaN."},
    Row{"up_bytes", &Counters::up_bytes, "Payload bytes of counted contributions."},
    Row{"down_bytes", &Counters::down_bytes, "Payload bytes of results sent."},
};
static_assert(sizeof(Counters) == kRows.size() * sizeof(std::uint64_t),
              "every counter has its row");

void head(std::string& text, std::string_view name, std::string_view type, std::string_view help) {
  text += fmt::format("# HELP sluiced_{0} {1}\n# TYPE sluiced_{0} {2}\n", name, help, type);
}

template <class T>
void single(std::string& text, std::string_view name, std::string_view type, std::string_view help,
            T value) {
  head(text, name, type, help);
  text += fmt::format("sluiced_{} {}\n", name, value);
}

template <class Value>
void per_job(std::string& text, const Snapshot& snapshot, std::string_view name,
             std::string_view help, Value value) {
  head(text, name, "gauge", help);
  for (const JobReport& job : snapshot.jobs) {
    text += fmt::format("sluiced_{}{{job=\"{}\"}} {}\n", name, name_of_job(job.id), value(job));
  }
}

// How long somebody has been waited for, to join or with a use.
double waiting_seconds(const JobReport& job, protocol::Time now) {
  if (!job.is_forming && !job.is_waiting) return 0;
  return std::max(0.0, std::chrono::duration<double>(now - job.since).count());
}

std::uint64_t slots_leased(const Snapshot& snapshot) {
  std::uint64_t sum = 0;
  for (const JobReport& job : snapshot.jobs) sum += job.is_forming ? 0 : job.slots;
  return sum;
}

}  // namespace

std::string metrics_text(const Snapshot& snapshot) {
  std::string text;
  for (const Row& row : kRows) {
    single(text, fmt::format("{}_total", row.name), "counter", row.help,
           snapshot.counters.*row.value);
  }
  single(text, "cpu_seconds_total", "counter", "Processor time of the threads that serve.",
         snapshot.cpu_seconds);
  single(text, "log_lost_total", "counter", "Lines of the log that nobody read in time.",
         snapshot.log_lost);
  single(text, "jobs", "gauge", "Jobs here.", snapshot.jobs.size());
  single(text, "jobs_max", "gauge", "Jobs that are accepted.", snapshot.jobs_max);
  single(text, "slots_leased", "gauge", "Slots of all jobs.", slots_leased(snapshot));
  single(text, "slots_max", "gauge", "Slots that can be leased.", snapshot.slots_max);
  single(text, "draining", "gauge", "1 when new jobs are refused because the end is near.",
         snapshot.is_draining ? 1 : 0);
  per_job(text, snapshot, "job_workers", "Workers of a job.",
          [](const JobReport& job) { return job.workers; });
  per_job(text, snapshot, "job_joined", "Workers of a job that have joined.",
          [](const JobReport& job) { return ranks_of(job.joined).size(); });
  per_job(text, snapshot, "job_waiting_seconds",
          "Age of the oldest use of a job that waits for workers, or of a job that forms.",
          [&](const JobReport& job) { return waiting_seconds(job, snapshot.now); });
  return text;
}

std::string jobs_json(const Snapshot& snapshot) {
  nlohmann::ordered_json jobs = nlohmann::ordered_json::array();
  for (const JobReport& job : snapshot.jobs) {
    nlohmann::ordered_json one{{"id", name_of_job(job.id)},
                               {"terms", job.terms},
                               {"workers", job.workers},
                               {"slots", job.slots},
                               {"joined", ranks_of(job.joined)},
                               {"missing", ranks_of(job.missing)},
                               {"forming", job.is_forming},
                               {"waiting", job.is_waiting},
                               {"slot", nullptr},
                               {"chunk", nullptr},
                               {"seconds", waiting_seconds(job, snapshot.now)}};
    if (job.is_waiting) {
      one["slot"] = job.slot;
      one["chunk"] = job.use;
    }
    jobs.push_back(std::move(one));
  }
  const nlohmann::ordered_json all{{"draining", snapshot.is_draining}, {"jobs", std::move(jobs)}};
  // Terms are somebody's bytes and may be no UTF-8.
  return all.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace sluice::daemon
