// The C functions over Memory: what a worker keeps between steps.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "abi/edge.h"
#include "base/float_environment.h"

using sluice::Nothing;
using sluice::Problem;
using sluice::Verdict;
using sluice::abi::call;
using sluice::abi::check_pointers;
using sluice::abi::check_tensor;
using sluice::abi::invalid;

namespace {

// Rounds a tensor's mean and keeps what that lost, tile by tile.
void shorten(sluice::floats::Format format, std::span<const float> mean, std::span<float> residual,
             std::span<std::byte> halves) {
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

}  // namespace

extern "C" {

sluice_code sluice_memory_make(const sluice_codec* codec, const sluice_options* options,
                               sluice_memory** memory) {
  return call({__func__}, [&]() -> Verdict {
    SLUICE_TRY(check_pointers({{codec, "codec"}, {memory, "memory"}}));
    SLUICE_TRY_ASSIGN(auto known, sluice::abi::read_sized("options", options));
    known.window = 0;  // Of groups, both.
    known.timeout = 0;
    SLUICE_TRY_ASSIGN(const auto parsed, sluice::abi::options_from(known));
    auto made = std::make_unique<sluice_memory>();
    made->worker = std::make_shared<sluice::abi::Worker>();
    made->worker->codec = codec->named;
    SLUICE_TRY_ASSIGN(made->worker->memory,
                      sluice::Memory::make(parsed, codec->named->spec, *codec->named->codec, {}));
    SLUICE_TRY_ASSIGN(made->worker->sparse, sluice::abi::sparse_codec_from(known));
    *memory = made.release();
    return Nothing{};
  });
}

void sluice_memory_free(sluice_memory* memory) { std::unique_ptr<sluice_memory>{memory}; }

sluice_code sluice_memory_add(sluice_memory* memory, const sluice_tensor* tensors, size_t count) {
  const sluice::abi::Task task{__func__, sluice::abi::bytes_of(tensors, count),
                               "residuals of the tensors"};
  return call(task, [&]() -> Verdict {
    SLUICE_TRY(check_pointers({{memory, "memory"}}));
    SLUICE_TRY_ASSIGN(const auto listed, sluice::abi::tensors_from(tensors, count));
    SLUICE_TRY(check_idle(*memory->worker, "sluice_memory_add"));
    return memory->worker->memory->add(listed);
  });
}

const char* sluice_memory_spec(const sluice_memory* memory) {
  return memory == nullptr ? nullptr : memory->worker->memory->spec().c_str();
}

sluice_code sluice_memory_resumes(const sluice_memory* memory, const char* spec) {
  return call({__func__}, [&]() -> Verdict {
    SLUICE_TRY(check_pointers({{memory, "memory"}, {spec, "spec"}}));
    const std::string_view mine = memory->worker->memory->spec();
    if (sluice::resumes(spec, mine)) return Nothing{};
    return Problem{sluice::Code::mismatch,
                   fmt::format("state of codec '{}'; accepted: that of '{}'", spec, mine)};
  });
}

sluice_code sluice_memory_residual(sluice_memory* memory, uint32_t tensor, float** residual,
                                   uint64_t* count) {
  return call({__func__}, [&]() -> Verdict {
    SLUICE_TRY(check_pointers({{memory, "memory"}, {residual, "residual"}, {count, "count"}}));
    SLUICE_TRY(check_tensor(*memory->worker, tensor));
    const auto span = memory->worker->memory->residual(tensor);
    *residual = span.empty() ? nullptr : span.data();
    *count = span.size();
    return Nothing{};
  });
}

sluice_code sluice_memory_state(sluice_memory* memory, uint32_t tensor, void** state,
                                size_t* size) {
  return call({__func__}, [&]() -> Verdict {
    SLUICE_TRY(check_pointers({{memory, "memory"}, {state, "state"}, {size, "size"}}));
    SLUICE_TRY(check_tensor(*memory->worker, tensor));
    const auto span = memory->worker->memory->state(tensor);
    *state = span.data();
    *size = span.size();
    return Nothing{};
  });
}

sluice_code sluice_memory_model(sluice_memory* memory, void** model, size_t* size) {
  return call({__func__}, [&]() -> Verdict {
    SLUICE_TRY(check_pointers({{memory, "memory"}, {model, "model"}, {size, "size"}}));
    const auto span = memory->worker->memory->model();
    *model = span.data();
    *size = span.size();
    return Nothing{};
  });
}

sluice_code sluice_memory_end_step(sluice_memory* memory) {
  return call({__func__}, [&]() -> Verdict {
    SLUICE_TRY(check_pointers({{memory, "memory"}}));
    SLUICE_TRY(check_idle(*memory->worker, "sluice_memory_end_step"));
    memory->worker->memory->end_step();
    return Nothing{};
  });
}

sluice_code sluice_memory_undo_step(sluice_memory* memory) {
  return call({__func__}, [&]() -> Verdict {
    SLUICE_TRY(check_pointers({{memory, "memory"}}));
    if (!memory->worker->memory->options().keep_before) {
      return invalid("undo_step without keep_before; accepted: a memory made with it");
    }
    SLUICE_TRY(check_idle(*memory->worker, "sluice_memory_undo_step"));
    memory->worker->memory->undo_step();
    return Nothing{};
  });
}

sluice_code sluice_memory_shorten(sluice_memory* memory, uint32_t tensor, const char* format,
                                  const float* mean, uint64_t count, void* halves) {
  return call({__func__}, [&]() -> Verdict {
    SLUICE_TRY(check_pointers({{memory, "memory"}}));
    SLUICE_TRY_ASSIGN(const auto parsed, sluice::abi::half_from(format));
    std::span<float> residual;
    if (tensor != SLUICE_EXACT) {
      SLUICE_TRY(check_tensor(*memory->worker, tensor));
      const std::uint64_t wanted = memory->worker->memory->tensors()[tensor].count();
      if (count != wanted) {
        return invalid(fmt::format("count is {}; accepted: {}", count, wanted));
      }
      residual = memory->worker->memory->residual(tensor);
    }
    SLUICE_TRY(sluice::abi::check_array(mean, count, "mean"));
    SLUICE_TRY(sluice::abi::check_array(halves, count, "halves"));
    const auto size = static_cast<std::size_t>(count);
    const sluice::FloatEnvironment environment;
    shorten(parsed, {mean, size}, residual, {static_cast<std::byte*>(halves), 2 * size});
    return Nothing{};
  });
}

}  // extern "C"
