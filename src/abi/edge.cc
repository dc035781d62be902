#include "abi/edge.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <exception>
#include <limits>

namespace sluice::abi {
namespace {

constexpr std::uint64_t kCoordinatesMax = std::uint64_t{1} << 40;
// Of tensors and of entries. A number that was never set is most likely beyond it.
constexpr std::size_t kListMax = std::size_t{1} << 24;

// A plain array, because errors are told when there is no memory left, too. Longer texts are cut.
constinit thread_local std::array<char, 2048> t_last_error{};

void keep_error(std::string_view text) noexcept {
  std::size_t size = std::min(text.size(), t_last_error.size() - 1);
  // Not in the middle of a character.
  if (size < text.size()) {
    while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xc0u) == 0x80) --size;
  }
  std::copy_n(text.begin(), size, t_last_error.begin());
  t_last_error[size] = '\0';
}

sluice_code code_of(Code code) {
  switch (code) {
    case Code::ok: return SLUICE_OK;
    case Code::invalid_argument: return SLUICE_INVALID_ARGUMENT;
    case Code::malformed: return SLUICE_MALFORMED;
    case Code::mismatch: return SLUICE_MISMATCH;
    case Code::timeout: return SLUICE_TIMEOUT;
    case Code::unavailable: return SLUICE_UNAVAILABLE;
    case Code::out_of_memory: return SLUICE_OUT_OF_MEMORY;
    case Code::pending:
    case Code::lost:
    case Code::exhausted:
    case Code::io: break;
  }
  return SLUICE_FAILED;
}

// Words without an allocation.
template <class... Values>
void keep_formatted(fmt::format_string<Values...> format, Values&&... values) noexcept {
  try {
    std::array<char, 512> text;
    const auto end =
        fmt::format_to_n(text.data(), text.size(), format, std::forward<Values>(values)...);
    keep_error({text.data(), std::min(end.size, text.size())});
  } catch (const std::exception&) {
    keep_error("an error whose words could not be made");
  }
}

}  // namespace

sluice_code report(const Problem& problem) noexcept {
  keep_error(problem.message);
  return code_of(problem.code);
}

sluice_code report(const Verdict& verdict) noexcept {
  if (!verdict) return report(verdict.error());
  t_last_error[0] = '\0';
  return SLUICE_OK;
}

sluice_code report_exception(const Task& task, const char* what) noexcept {
  keep_formatted("{}: {}", task.name, what);
  return SLUICE_FAILED;
}

sluice_code report_no_memory(const Task& task) noexcept {
  if (task.bytes == 0) {
    keep_formatted("out of memory: in {}", task.name);
  } else {
    keep_formatted("out of memory: {} bytes or more for {}, in {}", task.bytes, task.what,
                   task.name);
  }
  return SLUICE_OUT_OF_MEMORY;
}

Verdict check_pointers(std::initializer_list<Argument> arguments) {
  for (const Argument& argument : arguments) {
    if (argument.pointer == nullptr) {
      return invalid(fmt::format("{} is NULL; accepted: a pointer", argument.name));
    }
  }
  return Nothing{};
}

Verdict check_array(const void* pointer, std::uint64_t count, const char* name) {
  if (count > kCoordinatesMax) {
    return invalid(fmt::format("{} elements of {}; accepted: at most 2^40", count, name));
  }
  if (pointer == nullptr && count != 0) {
    return invalid(fmt::format("{} is NULL; accepted: {} elements", name, count));
  }
  return Nothing{};
}

Verdict check_tensor(const WorkerHandle& worker, std::uint32_t tensor) {
  const std::size_t count = worker.memory->tensors().size();
  if (tensor < count) return Nothing{};
  return invalid(fmt::format("tensor {}; accepted: below {}", tensor, count));
}

Verdict check_on_host(const WorkerHandle& worker, std::uint32_t tensor, const char* name) {
  const Memory& memory = *worker.memory;
  if (memory.accelerator() == nullptr || memory.brings_rows(tensor)) return Nothing{};
  return invalid(
      fmt::format("{} of tensor {} of a memory on a device; accepted: a memory without "
                  "options.device, or a tensor of sluice_memory_add_rows",
                  name, tensor));
}

Verdict check_idle(const WorkerHandle& worker, const char* what) {
  const std::uint32_t busy = worker.busy;
  if (busy == 0) return Nothing{};
  return invalid(
      fmt::format("{} while {} buckets or exchanges are in flight; accepted: when all "
                  "are finished, abandoned or freed",
                  what, busy));
}

Verdict check_struct_size(const char* name, std::size_t given, std::size_t first,
                          std::size_t known) {
  if (given >= first && given <= kStructSizeMax) return Nothing{};
  return invalid(fmt::format("{}.size is {}; accepted: sizeof, which is {} here and at least {}",
                             name, given, known, first));
}

Verdict check_tail(const char* name, const void* whole, std::size_t given, std::size_t known) {
  if (given <= known) return Nothing{};
  const std::span tail(static_cast<const unsigned char*>(whole) + known, given - known);
  if (std::all_of(tail.begin(), tail.end(), [](unsigned char byte) { return byte == 0; })) {
    return Nothing{};
  }
  return invalid(
      fmt::format("{}.size is {} and bytes beyond {} are set, which this version does "
                  "not know; accepted: zeros there",
                  name, given, known));
}

Checked<GroupOptions> options_from(const sluice_options& options) {
  GroupOptions made;
  made.rank = options.rank;
  made.workers = options.workers;
  made.seed = options.seed;
  if (options.chunk != 0) made.chunk_count = options.chunk;
  if (options.window != 0) made.window = options.window;
  made.keep_before = options.keep_before != 0;
  if (options.reserved != 0) {
    return invalid(fmt::format("options.reserved is {}; accepted: 0", options.reserved));
  }
  if (options.feedback != nullptr) {
    SLUICE_TRY_ASSIGN(const NamedFeedback feedback, make_feedback(options.feedback));
    made.feedback = feedback.spec;
  }
  if (!(options.timeout >= 0 && options.timeout <= 1e6)) {
    return invalid(fmt::format("timeout of {} seconds; accepted: 0 to 1e6", options.timeout));
  }
  if (options.timeout > 0) {
    made.timeout = std::chrono::nanoseconds(std::llround(options.timeout * 1e9));
  }
  return made;
}

sluice_stats stats_from(const Stats& stats) {
  return {sizeof(sluice_stats), stats.rounds,         stats.bytes_up,      stats.bytes_down,
          stats.chunks,         stats.encode_seconds, stats.decode_seconds};
}

Checked<floats::Format> half_from(const char* format) {
  const std::string_view text = format == nullptr ? "NULL" : format;
  if (text == "bf16") return floats::Format::bf16;
  if (text == "fp16") return floats::Format::f16;
  return invalid(fmt::format("format '{}'; accepted: bf16, fp16", text));
}

Checked<BucketOrder> order_from(const sluice_order* order) {
  SLUICE_TRY_ASSIGN(const sluice_order known, read_sized("order", order));
  if (known.on_device > 1 || known.format > 2) {
    return invalid(fmt::format("order.on_device is {} and format {}; accepted: 0 or 1, and 0 to 2",
                               known.on_device, known.format));
  }
  return BucketOrder{.step = known.step,
                     .number = known.number,
                     .digest = known.digest != 0,
                     .probe = known.probe,
                     .on_device = known.on_device != 0,
                     .format = static_cast<floats::Format>(known.format),
                     .ready = known.ready};
}

Checked<std::vector<Tensor>> tensors_from(const sluice_tensor* tensors, std::size_t count) {
  if (count > kListMax) return invalid(fmt::format("{} tensors; accepted: at most 2^24", count));
  SLUICE_TRY(check_array(tensors, count, "tensors"));
  std::vector<Tensor> made;
  made.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    made.push_back({tensors[i].id, tensors[i].rows, tensors[i].cols});
  }
  return made;
}

std::uint64_t bytes_of(const sluice_tensor* tensors, std::size_t count) {
  if (tensors == nullptr || count > kListMax) return 0;
  double bytes = 0;
  for (std::size_t i = 0; i < count; ++i) {
    bytes +=
        sizeof(float) * static_cast<double>(tensors[i].rows) * static_cast<double>(tensors[i].cols);
  }
  return bytes < 0x1p63 ? static_cast<std::uint64_t>(bytes)
                        : std::numeric_limits<std::uint64_t>::max();
}

Verdict write_saved(const Memory& memory, void* bytes, std::size_t capacity, std::size_t* size) {
  *size = memory.save({});
  if (capacity == 0) return Nothing{};
  if (bytes == nullptr || capacity < *size) {
    return invalid(fmt::format("{} for {} bytes; accepted: room for {} or more, or capacity 0",
                               bytes == nullptr ? "NULL" : "room", capacity, *size));
  }
  memory.save({static_cast<std::byte*>(bytes), *size});
  return Nothing{};
}

Checked<std::vector<std::span<const std::byte>>> states_from(const sluice_saved* saved,
                                                             std::size_t count) {
  if (count == 0 || count > kListMax) {
    return invalid(fmt::format("{} states; accepted: 1 to 2^24", count));
  }
  SLUICE_TRY(check_pointers({{saved, "saved"}}));
  std::vector<std::span<const std::byte>> made;
  for (std::size_t i = 0; i < count; ++i) {
    if (saved[i].bytes == nullptr) {
      return invalid(fmt::format("saved[{}].bytes is NULL; accepted: a pointer", i));
    }
    made.push_back({static_cast<const std::byte*>(saved[i].bytes), saved[i].size});
  }
  return made;
}

Checked<std::vector<BucketEntry>> entries_from(const sluice_entry* entries, std::size_t count) {
  if (count > kListMax) return invalid(fmt::format("{} entries; accepted: at most 2^24", count));
  SLUICE_TRY(check_array(entries, count, "entries"));
  std::vector<BucketEntry> made;
  made.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    const sluice_entry& entry = entries[i];
    if (entry.count > kCoordinatesMax) {
      return invalid(
          fmt::format("entries[{}].count is {}; accepted: at most 2^40", i, entry.count));
    }
    if (entry.count != 0 && (entry.gradient == nullptr || entry.mean == nullptr)) {
      return invalid(fmt::format("entries[{}].{} is NULL; accepted: {} floats", i,
                                 entry.gradient == nullptr ? "gradient" : "mean", entry.count));
    }
    const auto size = static_cast<std::size_t>(entry.count);
    made.push_back({entry.tensor, {entry.gradient, size}, {entry.mean, size}});
  }
  return made;
}

}  // namespace sluice::abi

extern "C" const char* sluice_last_error(void) { return sluice::abi::t_last_error.data(); }
