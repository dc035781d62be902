// The C functions over Memory and Parcel: the caller moves the bytes.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "abi/edge.h"
#include "base/assert.h"
#include "base/float_environment.h"
#include "group/parcel.h"

using sluice::Nothing;
using sluice::Problem;
using sluice::Status;
using sluice::Verdict;

struct sluice_parcel {
  // Which functions may be called.
  enum class At : std::uint8_t { idle, begun, shards, combined, lanes };

  explicit sluice_parcel(const sluice_memory& memory)
      : exact(std::move(sluice::make_codec("f32")->codec)),
        parcel(*memory.memory, *exact, memory.sparse.get()) {}

  // Null, or why this may not be called here.
  [[nodiscard]] Verdict expect(At wanted, const char* before) const {
    if (at == wanted) return Nothing{};
    return sluice::abi::invalid(fmt::format("parcel: called out of order; accepted: after {}",
                                            before));
  }
  sluice_code outcome(const Status& status, At then) {
    if (status) {
      at = then;
      return sluice::abi::report(Nothing{});
    }
    const Problem problem{status.error().code, parcel.explain(status.error())};
    parcel.abandon();
    at = At::idle;
    return sluice::abi::report(problem);
  }
  [[nodiscard]] std::size_t workers() { return parcel.fusion().send_sizes().size(); }

  std::unique_ptr<sluice::Codec> exact;
  sluice::Parcel parcel;
  At at = At::idle;
};

namespace {

using At = sluice_parcel::At;
using sluice::abi::invalid;
using sluice::abi::report;

std::uint64_t sum_of(std::span<const std::uint64_t> sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0});
}

Verdict check_tensor(const sluice_memory* memory, std::uint32_t tensor) {
  const std::size_t count = memory->memory->tensors().size();
  if (tensor < count) return Nothing{};
  return invalid(fmt::format("tensor {}; accepted: below {}", tensor, count));
}

Verdict check_size(std::uint64_t size, std::uint64_t wanted, const char* what) {
  if (size == wanted) return Nothing{};
  return invalid(fmt::format("{} is {}; accepted: {}", what, size, wanted));
}

// Rounds a tensor's mean and keeps what that lost, tile by tile.
void shorten(sluice::floats::Format format, std::span<const float> mean,
             std::span<float> residual, std::span<std::byte> halves) {
  constexpr std::size_t kTile = 1024;
  std::array<float, kTile> rounded;
  for (std::size_t at = 0; at < mean.size(); at += kTile) {
    const auto tile = mean.subspan(at, std::min(kTile, mean.size() - at));
    const auto wire = halves.subspan(2 * at, 2 * tile.size());
    sluice::floats::encode(format, tile, 1.0f, wire);
    if (residual.empty()) continue;
    sluice::floats::decode(format, wire, std::span(rounded).first(tile.size()));
    sluice::keep_lost(tile, rounded, residual.subspan(at, tile.size()));
  }
}

// The answers are there: decodes, or encodes what comes next.
Status advance(sluice_parcel* parcel, const Status& spread) {
  if (!spread) return spread;
  return parcel->parcel.advance();
}

}  // namespace

extern "C" {

sluice_code sluice_memory_make(const sluice_codec* codec, const sluice_options* options,
                               sluice_memory** memory) {
  if (codec == nullptr || memory == nullptr) {
    return report(sluice::abi::null("codec or output", "a codec and a pointer to fill"));
  }
  const auto parsed = sluice::abi::options_from(options);
  if (!parsed) return report(parsed.error());
  auto made = sluice::Memory::make(*parsed, codec->named.spec, *codec->named.codec, {});
  if (!made) return report(made.error());
  auto sparse = sluice::abi::sparse_codec_from(*options);
  if (!sparse) return report(sparse.error());
  *memory = std::make_unique<sluice_memory>(sluice_memory{std::move(*made), std::move(*sparse)})
                .release();
  return report(Nothing{});
}

void sluice_memory_free(sluice_memory* memory) { std::unique_ptr<sluice_memory>{memory}; }

sluice_code sluice_memory_add(sluice_memory* memory, const sluice_tensor* tensors, size_t count) {
  if (tensors == nullptr && count != 0) {
    return report(sluice::abi::null("tensors", "an array of count tensors"));
  }
  return report(memory->memory->add(sluice::abi::tensors_from(tensors, count)));
}

const char* sluice_memory_spec(const sluice_memory* memory) {
  return memory->memory->spec().c_str();
}

sluice_code sluice_memory_resumes(const sluice_memory* memory, const char* spec) {
  if (spec == nullptr) return report(sluice::abi::null("spec", "the spec of a saved state"));
  const std::string_view mine = memory->memory->spec();
  if (sluice::resumes(spec, mine)) return report(Nothing{});
  return report(Problem{sluice::Code::mismatch,
                        fmt::format("state of codec '{}'; accepted: that of '{}'", spec, mine)});
}

sluice_code sluice_memory_residual(sluice_memory* memory, uint32_t tensor, float** residual,
                                   uint64_t* count) {
  if (const Verdict known = check_tensor(memory, tensor); !known) return report(known);
  const auto span = memory->memory->residual(tensor);
  *residual = span.empty() ? nullptr : span.data();
  *count = span.size();
  return report(Nothing{});
}

sluice_code sluice_memory_state(sluice_memory* memory, uint32_t tensor, void** state,
                                size_t* size) {
  if (const Verdict known = check_tensor(memory, tensor); !known) return report(known);
  const auto span = memory->memory->state(tensor);
  *state = span.data();
  *size = span.size();
  return report(Nothing{});
}

void sluice_memory_model(sluice_memory* memory, void** model, size_t* size) {
  const auto span = memory->memory->model();
  *model = span.data();
  *size = span.size();
}

void sluice_memory_end_step(sluice_memory* memory) { memory->memory->end_step(); }

sluice_code sluice_memory_undo_step(sluice_memory* memory) {
  if (!memory->memory->options().keep_before) {
    return report(invalid("undo_step without keep_before; accepted: a memory made with it"));
  }
  memory->memory->undo_step();
  return report(Nothing{});
}

sluice_code sluice_memory_shorten(sluice_memory* memory, uint32_t tensor, const char* format,
                                  const float* mean, uint64_t count, void* halves) {
  const auto parsed = sluice::abi::half_from(format);
  if (!parsed) return report(parsed.error());
  std::span<float> residual;
  if (tensor != SLUICE_EXACT) {
    if (const Verdict known = check_tensor(memory, tensor); !known) return report(known);
    const Verdict fits = check_size(count, memory->memory->tensors()[tensor].count(), "count");
    if (!fits) return report(fits);
    residual = memory->memory->residual(tensor);
  }
  const auto size = static_cast<std::size_t>(count);
  const sluice::FloatEnvironment environment;
  shorten(*parsed, {mean, size}, residual, {static_cast<std::byte*>(halves), 2 * size});
  return report(Nothing{});
}

sluice_code sluice_parcel_make(sluice_memory* memory, sluice_parcel** parcel) {
  if (memory == nullptr || parcel == nullptr) {
    return report(sluice::abi::null("memory or output", "a memory and a pointer to fill"));
  }
  *parcel = std::make_unique<sluice_parcel>(*memory).release();
  return report(Nothing{});
}

void sluice_parcel_free(sluice_parcel* parcel) { std::unique_ptr<sluice_parcel>{parcel}; }

sluice_code sluice_parcel_begin(sluice_parcel* parcel, const sluice_order* order,
                                const sluice_job* jobs, size_t job_count) {
  if (order == nullptr) return report(sluice::abi::null("order", "a sluice_order"));
  const Verdict turn = parcel->expect(At::idle, "the parcel before is finished");
  if (!turn) return report(turn);
  const auto parsed = sluice::abi::jobs_from(jobs, job_count);
  if (!parsed) return report(parsed.error());
  const Verdict begun = parcel->parcel.begin(sluice::abi::order_from(*order), *parsed);
  if (begun) parcel->at = At::begun;
  return report(begun);
}

sluice_code sluice_parcel_next(sluice_parcel* parcel, sluice_step* step) {
  const Verdict turn = parcel->expect(At::begun, "begin or spread");
  if (!turn) return report(turn);
  *step = {};
  if (parcel->parcel.finished()) return parcel->outcome(sluice::ok(), At::idle);
  sluice::Fusion& fusion = parcel->parcel.fusion();
  if (const Status sealed = fusion.seal(); !sealed) return parcel->outcome(sealed, At::idle);
  if (fusion.native() != sluice::Fusion::Native::none) {
    const bool maximum = fusion.native() == sluice::Fusion::Native::max;
    step->collective = maximum ? SLUICE_MAXIMUM : SLUICE_SUM;
    step->lane_count = fusion.native_count();
    return parcel->outcome(sluice::ok(), At::lanes);
  }
  step->collective = fusion.whole() ? SLUICE_WHOLE : SLUICE_SHARDS;
  step->receives_vary = fusion.receives_vary() ? 1 : 0;
  step->answers_vary = fusion.answers_vary() ? 1 : 0;
  step->send_sizes = fusion.send_sizes().data();
  step->receive_sizes = fusion.receive_sizes().data();
  step->answer_sizes = fusion.answer_sizes().data();
  return parcel->outcome(sluice::ok(), At::shards);
}

sluice_code sluice_parcel_pack(sluice_parcel* parcel, void* send, uint64_t size) {
  if (const Verdict turn = parcel->expect(At::shards, "next"); !turn) return report(turn);
  const Verdict fits = check_size(size, sum_of(parcel->parcel.fusion().send_sizes()), "send size");
  if (!fits) return report(fits);
  parcel->parcel.fusion().pack({static_cast<std::byte*>(send), static_cast<std::size_t>(size)});
  return report(Nothing{});
}

sluice_code sluice_parcel_combine(sluice_parcel* parcel, const void* received,
                                  const uint64_t* receive_sizes, const void** answer,
                                  uint64_t* answer_size) {
  if (const Verdict turn = parcel->expect(At::shards, "next"); !turn) return report(turn);
  const std::span sizes(receive_sizes, parcel->workers());
  const auto size = static_cast<std::size_t>(sum_of(sizes));
  const Status combined =
      parcel->parcel.fusion().combine({static_cast<const std::byte*>(received), size}, sizes);
  if (!combined) return parcel->outcome(combined, At::idle);
  if (parcel->parcel.fusion().whole()) {
    *answer = nullptr;
    *answer_size = 0;
    return parcel->outcome(advance(parcel, parcel->parcel.fusion().spread_own()), At::begun);
  }
  const auto bytes = parcel->parcel.fusion().answer();
  *answer = bytes.data();
  *answer_size = bytes.size();
  return parcel->outcome(sluice::ok(), At::combined);
}

sluice_code sluice_parcel_spread(sluice_parcel* parcel, const void* gathered, uint64_t stride,
                                 const uint64_t* answer_sizes) {
  if (const Verdict turn = parcel->expect(At::combined, "combine"); !turn) return report(turn);
  const std::span sizes(answer_sizes, parcel->workers());
  const auto size = static_cast<std::size_t>(stride * sizes.size());
  const Status spread = parcel->parcel.fusion().spread(
      {static_cast<const std::byte*>(gathered), size}, stride, sizes);
  return parcel->outcome(advance(parcel, spread), At::begun);
}

sluice_code sluice_parcel_pack_lanes(sluice_parcel* parcel, int32_t* lanes, uint64_t count) {
  if (const Verdict turn = parcel->expect(At::lanes, "next"); !turn) return report(turn);
  const Verdict fits = check_size(count, parcel->parcel.fusion().native_count(), "lane count");
  if (!fits) return report(fits);
  parcel->parcel.fusion().pack_native({lanes, static_cast<std::size_t>(count)});
  return report(Nothing{});
}

sluice_code sluice_parcel_spread_lanes(sluice_parcel* parcel, const int32_t* lanes,
                                       uint64_t count) {
  if (const Verdict turn = parcel->expect(At::lanes, "next"); !turn) return report(turn);
  const Verdict fits = check_size(count, parcel->parcel.fusion().native_count(), "lane count");
  if (!fits) return report(fits);
  const Status spread =
      parcel->parcel.fusion().spread_native({lanes, static_cast<std::size_t>(count)});
  return parcel->outcome(advance(parcel, spread), At::begun);
}

void sluice_parcel_abandon(sluice_parcel* parcel) {
  parcel->parcel.abandon();
  parcel->at = At::idle;
}

void sluice_parcel_report(const sluice_parcel* parcel, sluice_report* into) {
  *into = sluice::abi::report_from(parcel->parcel.report());
}

size_t sluice_parcel_probes(const sluice_parcel* parcel, sluice_probe* probes, size_t capacity) {
  return sluice::abi::probes_from(parcel->parcel.report(), {probes, capacity});
}

}  // extern "C"
