// The C functions over Memory: what a worker keeps between steps.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "abi/edge.h"
#include "base/float_environment.h"

using sluice::Choice;
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

// The number of a codec in the memory, which has it from now on.
sluice::Checked<Choice> offered(sluice_memory* memory, const sluice_codec* codec,
                                const char* what) {
  SLUICE_TRY(check_pointers({{memory, "memory"}, {codec, "codec"}}));
  SLUICE_TRY(check_idle(*memory->worker, what));
  // Shared with the codec's handle.
  const std::shared_ptr<const sluice::Codec> shared(codec->named, codec->named->codec.get());
  return memory->worker->memory->offer(codec->named->spec, shared);
}

// All coordinates of a tensor whose memories are the host's, or any number of one that brings rows.
Verdict check_whole(const sluice::abi::WorkerHandle& worker, std::uint32_t tensor,
                    std::uint64_t count, const char* name) {
  SLUICE_TRY(check_tensor(worker, tensor));
  SLUICE_TRY(sluice::abi::check_on_host(worker, tensor, name));
  const std::uint64_t wanted = worker.memory->tensors()[tensor].count();
  if (count == wanted || worker.memory->brings_rows(tensor)) return Nothing{};
  return invalid(fmt::format("count is {}; accepted: {}", count, wanted));
}

}  // namespace

extern "C" {

sluice_code sluice_memory_make(const sluice_options* options, sluice_memory** memory) {
  return call({__func__}, [&]() -> Verdict {
    SLUICE_TRY(check_pointers({{memory, "memory"}}));
    SLUICE_TRY_ASSIGN(const auto known, sluice::abi::read_sized("options", options));
    if (known.window != 0 || known.timeout != 0) {
      return invalid(
          fmt::format("window {} and timeout {} of a memory; accepted: 0, they are of "
                      "groups",
                      known.window, known.timeout));
    }
    SLUICE_TRY_ASSIGN(auto parsed, sluice::abi::options_from(known));
    auto made = std::make_unique<sluice_memory>();
    made->worker = std::make_shared<sluice::abi::WorkerHandle>();
    if (known.device != nullptr) {
      made->worker->device = known.device->on;
      parsed.accelerator = known.device->on.get();
    }
    SLUICE_TRY_ASSIGN(made->worker->memory, sluice::Memory::make(parsed));
    *memory = made.release();
    return Nothing{};
  });
}

void sluice_memory_free(sluice_memory* memory) { std::unique_ptr<sluice_memory>{memory}; }

sluice_code sluice_memory_add(sluice_memory* memory, const sluice_codec* codec,
                              const sluice_tensor* tensors, size_t count) {
  const sluice::abi::Task task{__func__, sluice::abi::bytes_of(tensors, count),
                               "residuals of the tensors"};
  return call(task, [&]() -> Verdict {
    SLUICE_TRY_ASSIGN(const Choice choice, offered(memory, codec, "sluice_memory_add"));
    SLUICE_TRY_ASSIGN(const auto listed, sluice::abi::tensors_from(tensors, count));
    return memory->worker->memory->add(listed, choice);
  });
}

sluice_code sluice_memory_add_rows(sluice_memory* memory, const sluice_codec* codec,
                                   const sluice_tensor* tensors, size_t count) {
  return call({__func__}, [&]() -> Verdict {
    SLUICE_TRY_ASSIGN(const Choice choice, offered(memory, codec, "sluice_memory_add_rows"));
    SLUICE_TRY_ASSIGN(const auto listed, sluice::abi::tensors_from(tensors, count));
    return memory->worker->memory->add_rows(listed, choice);
  });
}

sluice_code sluice_memory_choose(sluice_memory* memory, const uint32_t* tensors, size_t count,
                                 const sluice_codec* codec) {
  return call({__func__}, [&]() -> Verdict {
    SLUICE_TRY_ASSIGN(const Choice choice, offered(memory, codec, "sluice_memory_choose"));
    SLUICE_TRY(sluice::abi::check_array(tensors, count, "tensors"));
    return memory->worker->memory->choose({tensors, count}, choice);
  });
}

const char* sluice_memory_spec(const sluice_memory* memory, uint32_t tensor) {
  if (memory == nullptr) return nullptr;
  const sluice::Memory& of = *memory->worker->memory;
  return tensor < of.tensors().size() ? of.spec(of.choice(tensor)).c_str() : nullptr;
}

sluice_code sluice_memory_resumes(const sluice_memory* memory, uint32_t tensor, const char* spec) {
  return call({__func__}, [&]() -> Verdict {
    SLUICE_TRY(check_pointers({{memory, "memory"}, {spec, "spec"}}));
    SLUICE_TRY(check_tensor(*memory->worker, tensor));
    const std::string_view mine = sluice_memory_spec(memory, tensor);
    if (sluice::resumes(spec, mine)) return Nothing{};
    return Problem{sluice::Code::mismatch,
                   fmt::format("state of codec '{}'; accepted: that of '{}'", spec, mine)};
  });
}

const char* sluice_memory_kept_name(const sluice_memory* memory, uint32_t which) {
  if (memory == nullptr) return nullptr;
  const auto names = memory->worker->memory->memory_names();
  return which < names.size() ? names[which].data() : nullptr;
}

sluice_code sluice_memory_kept(sluice_memory* memory, uint32_t tensor, uint32_t which,
                               float** values, uint64_t* count) {
  return call({__func__}, [&]() -> Verdict {
    SLUICE_TRY(check_pointers({{memory, "memory"}, {values, "values"}, {count, "count"}}));
    SLUICE_TRY(check_tensor(*memory->worker, tensor));
    SLUICE_TRY(memory->worker->memory->fetch());
    const auto memories = memory->worker->memory->memories(tensor);
    const auto kept = which < memories.size() ? memories[which] : std::span<float>{};
    *values = kept.empty() ? nullptr : kept.data();
    *count = kept.size();
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

sluice_code sluice_memory_model(sluice_memory* memory, const char* spec, void** model,
                                size_t* size) {
  return call({__func__}, [&]() -> Verdict {
    SLUICE_TRY(
        check_pointers({{memory, "memory"}, {spec, "spec"}, {model, "model"}, {size, "size"}}));
    sluice::Memory& of = *memory->worker->memory;
    const Choice choice = of.find(spec);
    if (choice == of.codec_count()) {
      return invalid(fmt::format("no tensor has had codec '{}'; accepted: {}", spec, of.specs()));
    }
    const auto span = of.model(choice);
    *model = span.data();
    *size = span.size();
    return Nothing{};
  });
}

sluice_code sluice_memory_save(const sluice_memory* memory, void* bytes, size_t capacity,
                               size_t* size) {
  return call({__func__}, [&]() -> Verdict {
    SLUICE_TRY(check_pointers({{memory, "memory"}, {size, "size"}}));
    if (bytes != nullptr) SLUICE_TRY(memory->worker->memory->fetch());
    return sluice::abi::write_saved(*memory->worker->memory, bytes, capacity, size);
  });
}

sluice_code sluice_memory_load(sluice_memory* memory, const sluice_saved* saved, size_t count,
                               uint32_t first, uint32_t grows) {
  return call({__func__}, [&]() -> Verdict {
    SLUICE_TRY(check_pointers({{memory, "memory"}}));
    SLUICE_TRY(check_idle(*memory->worker, "sluice_memory_load"));
    SLUICE_TRY_ASSIGN(const auto states, sluice::abi::states_from(saved, count));
    sluice::Memory& of = *memory->worker->memory;
    if (first > of.tensors().size() || grows > 1) {
      return invalid(fmt::format("first {} and grows {}; accepted: at most {}, and 0 or 1", first,
                                 grows, of.tensors().size()));
    }
    const sluice::FloatEnvironment environment;
    // What was there before the states that are loaded stays, too.
    SLUICE_TRY(of.fetch());
    SLUICE_TRY(of.load(states, {.first = first, .grows = grows == 1}));
    return of.show();
  });
}

sluice_code sluice_memory_pay(sluice_memory* memory, uint32_t tensor, float* gradient,
                              uint64_t count) {
  return call({__func__}, [&]() -> Verdict {
    SLUICE_TRY(check_pointers({{memory, "memory"}}));
    SLUICE_TRY(check_whole(*memory->worker, tensor, count, "sluice_memory_pay"));
    SLUICE_TRY(sluice::abi::check_array(gradient, count, "gradient"));
    sluice::Memory& of = *memory->worker->memory;
    if (of.options().workers != 1) {
      return invalid(
          fmt::format("sluice_memory_pay of {} workers; accepted: 1", of.options().workers));
    }
    const sluice::FloatEnvironment environment;
    of.pay(tensor, {gradient, static_cast<std::size_t>(count)});
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
    return memory->worker->memory->undo_step();
  });
}

sluice_code sluice_memory_shorten(sluice_memory* memory, uint32_t tensor, const char* format,
                                  const float* mean, uint64_t count, void* halves) {
  return call({__func__}, [&]() -> Verdict {
    SLUICE_TRY(check_pointers({{memory, "memory"}}));
    SLUICE_TRY_ASSIGN(const auto parsed, sluice::abi::half_from(format));
    SLUICE_TRY(check_whole(*memory->worker, tensor, count, "sluice_memory_shorten"));
    SLUICE_TRY(sluice::abi::check_array(mean, count, "mean"));
    SLUICE_TRY(sluice::abi::check_array(halves, count, "halves"));
    const auto size = static_cast<std::size_t>(count);
    const sluice::FloatEnvironment environment;
    shorten(parsed, {mean, size}, memory->worker->memory->residual(tensor),
            {static_cast<std::byte*>(halves), 2 * size});
    return Nothing{};
  });
}

}  // extern "C"
