// The C functions over Parcel: the caller moves the bytes.
#include <fmt/format.h>

#include "abi/edge.h"
#include "group/parcel.h"

using sluice::Code;
using sluice::Nothing;
using sluice::Problem;
using sluice::Status;
using sluice::Verdict;
using sluice::abi::call;
using sluice::abi::check_array;
using sluice::abi::check_pointers;
using sluice::abi::invalid;

struct sluice_parcel {
  // Which functions may be called.
  enum class At : std::uint8_t { idle, begun, shards, combined, lanes, dead };

  explicit sluice_parcel(std::shared_ptr<sluice::abi::Worker> of)
      : worker(std::move(of)),
        exact(std::move(sluice::make_codec("f32")->codec)),
        parcel(*worker->memory, *exact, worker->sparse.get()) {}

  [[nodiscard]] Verdict expect(At wanted, const char* before) const {
    if (at == wanted) return Nothing{};
    if (at == At::dead) {
      return Problem{Code::unavailable,
                     "parcel: it failed before, or was abandoned; accepted: a new parcel"};
    }
    return invalid(fmt::format("parcel: called out of order; accepted: after {}", before));
  }
  void go_to(At next) {
    at = next;
    if (next == At::idle || next == At::dead) in_flight = {};
  }
  // Nothing of the caller's is touched any more.
  void give_up() {
    parcel.abandon();
    go_to(At::dead);
  }
  Verdict outcome(const Status& status, At then) {
    if (status) {
      go_to(then);
      return Nothing{};
    }
    return Problem{status.error().code, parcel.explain(status.error())};
  }
  [[nodiscard]] std::size_t workers() const { return worker->memory->options().workers; }
  sluice::Fusion& fusion() { return parcel.fusion(); }

  std::shared_ptr<sluice::abi::Worker> worker;  // shared with the memory's handle
  std::unique_ptr<sluice::Codec> exact;
  sluice::Parcel parcel;
  sluice::abi::InFlight in_flight;
  At at = At::idle;
};

namespace {

using At = sluice_parcel::At;

// From here on a failure, an exception too, leaves the parcel dead.
template <class Body>
Verdict or_give_up(sluice_parcel& parcel, const Body& body) {
  struct Guard {
    explicit Guard(sluice_parcel& of) : parcel(of) {}
    ~Guard() {
      if (failed) parcel.give_up();
    }
    sluice_parcel& parcel;
    bool failed = true;
  } guard(parcel);
  Verdict verdict = body();
  guard.failed = !verdict;
  if (!verdict) return sluice::abi::fatal(verdict.error());
  return verdict;
}

Verdict check_size(std::uint64_t size, std::uint64_t wanted, const char* what) {
  if (size == wanted) return Nothing{};
  return invalid(fmt::format("{} is {}; accepted: {}", what, size, wanted));
}

sluice::Checked<std::uint64_t> sum_of(std::span<const std::uint64_t> sizes) {
  std::uint64_t sum = 0;
  for (const std::uint64_t size : sizes) {
    if (__builtin_add_overflow(sum, size, &sum)) {
      return invalid("sizes that add up to 2^64 or more; accepted: those of sluice_step");
    }
  }
  return sum;
}

Verdict check_within(std::span<const std::uint64_t> sizes, std::uint64_t stride) {
  for (std::size_t rank = 0; rank < sizes.size(); ++rank) {
    if (sizes[rank] <= stride) continue;
    return invalid(fmt::format("answer_sizes[{}] is {}; accepted: at most the stride, {}", rank,
                               sizes[rank], stride));
  }
  return Nothing{};
}

// The answers are there: decodes, or encodes what comes next.
Verdict advance(sluice_parcel& parcel, const Status& spread) {
  return parcel.outcome(spread ? parcel.parcel.advance() : spread, At::begun);
}

// What comes next of a sealed step, and where that leaves the parcel.
At describe(sluice_parcel& parcel, sluice_step& step) {
  sluice::Fusion& fusion = parcel.fusion();
  if (fusion.native() != sluice::Fusion::Native::none) {
    const bool maximum = fusion.native() == sluice::Fusion::Native::max;
    step.collective = maximum ? SLUICE_MAXIMUM : SLUICE_SUM;
    step.lane_count = fusion.native_count();
    return At::lanes;
  }
  step.collective = fusion.whole() ? SLUICE_WHOLE : SLUICE_SHARDS;
  step.receives_vary = fusion.receives_vary() ? 1 : 0;
  step.answers_vary = fusion.answers_vary() ? 1 : 0;
  step.send_sizes = fusion.send_sizes().data();
  step.receive_sizes = fusion.receive_sizes().data();
  step.answer_sizes = fusion.answer_sizes().data();
  return At::shards;
}

}  // namespace

extern "C" {

sluice_code sluice_parcel_make(sluice_memory* memory, sluice_parcel** parcel) {
  return call({__func__}, [&]() -> Verdict {
    SLUICE_TRY(check_pointers({{memory, "memory"}, {parcel, "parcel"}}));
    *parcel = std::make_unique<sluice_parcel>(memory->worker).release();
    return Nothing{};
  });
}

void sluice_parcel_free(sluice_parcel* parcel) { std::unique_ptr<sluice_parcel>{parcel}; }

sluice_code sluice_parcel_begin(sluice_parcel* parcel, const sluice_order* order,
                                const sluice_job* jobs, size_t job_count) {
  return call({__func__}, [&]() -> Verdict {
    SLUICE_TRY(check_pointers({{parcel, "parcel"}}));
    SLUICE_TRY_ASSIGN(const auto wanted, sluice::abi::order_from(order));
    SLUICE_TRY(parcel->expect(At::idle, "the parcel before is finished"));
    SLUICE_TRY_ASSIGN(const auto parsed, sluice::abi::jobs_from(jobs, job_count));
    SLUICE_TRY(parcel->parcel.load(wanted, parsed));
    parcel->in_flight = sluice::abi::InFlight(*parcel->worker);
    return or_give_up(*parcel, [&] { return parcel->outcome(parcel->parcel.launch(), At::begun); });
  });
}

sluice_code sluice_parcel_next(sluice_parcel* parcel, sluice_step* step) {
  return call({__func__}, [&]() -> Verdict {
    SLUICE_TRY(check_pointers({{parcel, "parcel"}}));
    SLUICE_TRY(sluice::abi::check_sized("step", step));
    SLUICE_TRY(parcel->expect(At::begun, "begin or spread"));
    sluice_step shown = SLUICE_STEP_INIT;
    if (parcel->parcel.finished()) {
      parcel->go_to(At::idle);
      return sluice::abi::write_sized("step", shown, step);
    }
    return or_give_up(*parcel, [&]() -> Verdict {
      SLUICE_TRY(parcel->outcome(parcel->fusion().seal(), At::shards));
      parcel->go_to(describe(*parcel, shown));
      return sluice::abi::write_sized("step", shown, step);
    });
  });
}

sluice_code sluice_parcel_pack(sluice_parcel* parcel, void* send, uint64_t size) {
  return call({__func__}, [&]() -> Verdict {
    SLUICE_TRY(check_pointers({{parcel, "parcel"}}));
    SLUICE_TRY(parcel->expect(At::shards, "next"));
    SLUICE_TRY_ASSIGN(const std::uint64_t wanted, sum_of(parcel->fusion().send_sizes()));
    SLUICE_TRY(check_size(size, wanted, "send size"));
    SLUICE_TRY(check_array(send, size, "send"));
    parcel->fusion().pack({static_cast<std::byte*>(send), static_cast<std::size_t>(size)});
    return Nothing{};
  });
}

sluice_code sluice_parcel_combine(sluice_parcel* parcel, const void* received,
                                  const uint64_t* receive_sizes, const void** answer,
                                  uint64_t* answer_size) {
  return call({__func__}, [&]() -> Verdict {
    SLUICE_TRY(check_pointers({{parcel, "parcel"},
                               {receive_sizes, "receive_sizes"},
                               {answer, "answer"},
                               {answer_size, "answer_size"}}));
    SLUICE_TRY(parcel->expect(At::shards, "next"));
    const std::span sizes(receive_sizes, parcel->workers());
    SLUICE_TRY_ASSIGN(const std::uint64_t size, sum_of(sizes));
    SLUICE_TRY(check_array(received, size, "received"));
    return or_give_up(*parcel, [&]() -> Verdict {
      const auto bytes = static_cast<const std::byte*>(received);
      SLUICE_TRY(parcel->outcome(
          parcel->fusion().combine({bytes, static_cast<std::size_t>(size)}, sizes), At::combined));
      const bool whole = parcel->fusion().whole();
      if (whole) SLUICE_TRY(advance(*parcel, parcel->fusion().spread_own()));
      const auto own = whole ? std::span<const std::byte>{} : parcel->fusion().answer();
      *answer = own.data();
      *answer_size = own.size();
      return Nothing{};
    });
  });
}

sluice_code sluice_parcel_spread(sluice_parcel* parcel, const void* gathered, uint64_t stride,
                                 const uint64_t* answer_sizes) {
  return call({__func__}, [&]() -> Verdict {
    SLUICE_TRY(check_pointers({{parcel, "parcel"}, {answer_sizes, "answer_sizes"}}));
    SLUICE_TRY(parcel->expect(At::combined, "combine"));
    const std::span sizes(answer_sizes, parcel->workers());
    SLUICE_TRY(check_array(gathered, stride, "gathered"));
    SLUICE_TRY(check_within(sizes, stride));
    return or_give_up(*parcel, [&] {
      const auto size = static_cast<std::size_t>(stride * sizes.size());
      return advance(*parcel, parcel->fusion().spread(
                                  {static_cast<const std::byte*>(gathered), size}, stride, sizes));
    });
  });
}

sluice_code sluice_parcel_pack_lanes(sluice_parcel* parcel, int32_t* lanes, uint64_t count) {
  return call({__func__}, [&]() -> Verdict {
    SLUICE_TRY(check_pointers({{parcel, "parcel"}}));
    SLUICE_TRY(parcel->expect(At::lanes, "next"));
    SLUICE_TRY(check_size(count, parcel->fusion().native_count(), "lane count"));
    SLUICE_TRY(check_array(lanes, count, "lanes"));
    parcel->fusion().pack_native({lanes, static_cast<std::size_t>(count)});
    return Nothing{};
  });
}

sluice_code sluice_parcel_spread_lanes(sluice_parcel* parcel, const int32_t* lanes,
                                       uint64_t count) {
  return call({__func__}, [&]() -> Verdict {
    SLUICE_TRY(check_pointers({{parcel, "parcel"}}));
    SLUICE_TRY(parcel->expect(At::lanes, "next"));
    SLUICE_TRY(check_size(count, parcel->fusion().native_count(), "lane count"));
    SLUICE_TRY(check_array(lanes, count, "lanes"));
    return or_give_up(*parcel, [&] {
      return advance(*parcel,
                     parcel->fusion().spread_native({lanes, static_cast<std::size_t>(count)}));
    });
  });
}

sluice_code sluice_parcel_abandon(sluice_parcel* parcel) {
  return call({__func__}, [&]() -> Verdict {
    SLUICE_TRY(check_pointers({{parcel, "parcel"}}));
    if (parcel->at != At::idle) parcel->give_up();
    return Nothing{};
  });
}

sluice_code sluice_parcel_report(const sluice_parcel* parcel, sluice_report* report) {
  return call({__func__}, [&]() -> Verdict {
    SLUICE_TRY(check_pointers({{parcel, "parcel"}}));
    return sluice::abi::write_sized("report", sluice::abi::report_from(parcel->parcel.report()),
                                    report);
  });
}

size_t sluice_parcel_probes(const sluice_parcel* parcel, sluice_probe* probes, size_t capacity) {
  return parcel == nullptr ? 0
                           : sluice::abi::probes_from(parcel->parcel.report(), probes, capacity);
}

}  // extern "C"
