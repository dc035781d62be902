// Saving and loading a worker's memory: choices, codec state, model states, feedback's memories.
//
//   magic "SLUICEGS"  version u32 (2)  rank u32  workers u32
//   feedback: id u32, spec: size u32, bytes
//   codecs that tensors have chosen, in the order of the first that did: count u32
//   per codec: spec: size u32, bytes    model: size u64, bytes
//   tensors: count u64
//   per tensor: id u64, rows u64, cols u64, codec u32 (place in that list), kind u32 (0, or 1:
//   brings
//     rows), state: size u64, bytes    memories: count u32, per memory: count u64, float32*
//   checksum u64 over everything before it
// All little-endian. Version 1 is read too. It had one codec and at most one memory:
//   magic  version u32 (1)  rank u32  workers u32  feedback: id u32
//   spec: size u32, bytes          model: size u64, bytes          tensors: count u64
//   per tensor: id u64, rows u64, cols u64, state size u64, bytes, residual count u64, float32*
//   checksum u64
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/bytes.h"
#include "base/random.h"
#include "catalog/codecs.h"
#include "group/memory.h"

namespace sluice {
namespace {

constexpr std::string_view kMagic = "SLUICEGS";
constexpr std::uint32_t kVersion = 2;
constexpr std::uint32_t kVersionFirst = 1;

std::uint64_t checksum(std::span<const std::byte> bytes) {
  std::uint64_t sum = mix(bytes.size(), 0x73756d);
  std::size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) sum = mix(sum, load_le<std::uint64_t>(bytes, at));
  for (; at < bytes.size(); ++at) sum = mix(sum, std::to_integer<std::uint64_t>(bytes[at]));
  return sum;
}

class Writer {
 public:
  template <class T>
  void value(T value) {
    std::byte bytes[sizeof(T)];
    store_le(std::span<std::byte>(bytes), 0, value);
    this->bytes(bytes);
  }
  void text(std::string_view text) {
    value(static_cast<std::uint32_t>(text.size()));
    bytes(std::as_bytes(std::span(text)));
  }
  // A size and so many bytes.
  void sized(std::span<const std::byte> more) {
    value(std::uint64_t{more.size()});
    bytes(more);
  }
  void bytes(std::span<const std::byte> more) { out.insert(out.end(), more.begin(), more.end()); }

  std::vector<std::byte> out;
};

// Every read checks what is left first; after a failed one the others fail too.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <class T>
  T value() {
    if (rest_.size() < sizeof(T)) failed_ = true;
    if (failed_) return T{};
    const T got = load_le<T>(rest_);
    rest_ = rest_.subspan(sizeof(T));
    return got;
  }
  std::span<const std::byte> bytes(std::uint64_t size) {
    if (rest_.size() < size) failed_ = true;
    if (failed_) return {};
    const auto got = rest_.first(static_cast<std::size_t>(size));
    rest_ = rest_.subspan(static_cast<std::size_t>(size));
    return got;
  }
  std::string_view text() {
    const auto read = bytes(value<std::uint32_t>());
    return {reinterpret_cast<const char*>(read.data()), read.size()};
  }
  std::span<const std::byte> sized() { return bytes(value<std::uint64_t>()); }
  [[nodiscard]] bool failed() const { return failed_; }
  [[nodiscard]] bool at_end() const { return rest_.empty(); }

 private:
  std::span<const std::byte> rest_;
  bool failed_ = false;
};

Problem malformed(std::string message) {
  return Problem{Code::malformed, "saved group state: " + std::move(message)};
}
Problem mismatch(std::string message) {
  return Problem{Code::mismatch, "saved group state: " + std::move(message)};
}

std::string name_of_feedback(std::uint32_t id) {
  for (const FeedbackInfo& info : kFeedbacks) {
    if (info.id == id) return fmt::format("kind {} ('{}')", id, info.name);
  }
  return fmt::format("kind {}", id);
}

// What the bytes hold, still in the bytes.
struct SavedCodec {
  std::string_view spec;
  std::span<const std::byte> model;
};
struct SavedTensor {
  Tensor tensor;
  std::uint32_t codec = 0;
  bool rows = false;
  std::span<const std::byte> state;
  std::vector<std::span<const std::byte>> memories;
};
struct Saved {
  std::uint32_t rank = 0;
  std::uint32_t workers = 0;
  std::uint32_t feedback = 0;
  std::vector<SavedCodec> codecs;
  std::vector<SavedTensor> tensors;
};

Checked<std::span<const std::byte>> read_memory(Reader& in, std::size_t index) {
  const auto count = in.value<std::uint64_t>();
  if (count > std::numeric_limits<std::uint64_t>::max() / sizeof(float)) {
    return malformed(fmt::format("tensor {} has {} residuals", index, count));
  }
  const auto values = in.bytes(count * sizeof(float));
  for (std::size_t at = 0; at < values.size(); at += sizeof(float)) {
    if (!std::isfinite(load_le<float>(values, at))) {
      return malformed(fmt::format("tensor {} has a residual that is not finite", index));
    }
  }
  return values;
}

Tensor read_shape(Reader& in) {
  Tensor tensor;
  tensor.id = in.value<std::uint64_t>();
  tensor.rows = in.value<std::uint64_t>();
  tensor.cols = in.value<std::uint64_t>();
  return tensor;
}

// One codec, and a residual of every tensor unless there is no feedback.
Verdict read_first_version(Reader& in, Saved& saved) {
  saved.feedback = in.value<std::uint32_t>();
  const std::string_view spec = in.text();
  saved.codecs.push_back({spec, in.sized()});
  const auto count = in.value<std::uint64_t>();
  for (std::uint64_t i = 0; i < count && !in.failed(); ++i) {
    SavedTensor one;
    one.tensor = read_shape(in);
    one.state = in.sized();
    SLUICE_TRY_ASSIGN(const auto residual, read_memory(in, i));
    if (saved.feedback != 0 || !residual.empty()) one.memories.push_back(residual);
    saved.tensors.push_back(std::move(one));
  }
  return Nothing{};
}

Verdict read_tensor(Reader& in, Saved& saved, std::uint32_t& codecs_seen) {
  const std::size_t index = saved.tensors.size();
  SavedTensor one;
  one.tensor = read_shape(in);
  one.codec = in.value<std::uint32_t>();
  const auto kind = in.value<std::uint32_t>();
  if (in.failed()) return Nothing{};
  if (one.codec >= saved.codecs.size() || one.codec > codecs_seen || kind > 1) {
    return malformed(fmt::format("tensor {} has codec {} of {} and kind {}", index, one.codec,
                                 saved.codecs.size(), kind));
  }
  codecs_seen = std::max(codecs_seen, one.codec + 1);
  one.rows = kind == 1;
  one.state = in.sized();
  const auto memories = in.value<std::uint32_t>();
  for (std::uint32_t i = 0; i < memories && !in.failed(); ++i) {
    SLUICE_TRY_ASSIGN(const auto memory, read_memory(in, index));
    one.memories.push_back(memory);
  }
  saved.tensors.push_back(std::move(one));
  return Nothing{};
}

Verdict read_second_version(Reader& in, Saved& saved) {
  saved.feedback = in.value<std::uint32_t>();
  in.text();  // The feedback's spec, for people: its options say nothing of what is kept.
  const auto codec_count = in.value<std::uint32_t>();
  for (std::uint32_t i = 0; i < codec_count && !in.failed(); ++i) {
    const std::string_view spec = in.text();
    saved.codecs.push_back({spec, in.sized()});
  }
  const auto count = in.value<std::uint64_t>();
  std::uint32_t codecs_seen = 0;
  for (std::uint64_t i = 0; i < count && !in.failed(); ++i) {
    SLUICE_TRY(read_tensor(in, saved, codecs_seen));
  }
  if (!in.failed() && codecs_seen != codec_count) {
    return malformed(fmt::format("{} codecs, of which tensors have {}", codec_count, codecs_seen));
  }
  return Nothing{};
}

Checked<Saved> parse(std::span<const std::byte> bytes) {
  if (bytes.size() < sizeof(std::uint64_t)) return malformed("cut off");
  const auto body = bytes.first(bytes.size() - sizeof(std::uint64_t));
  Reader in(body);
  const auto magic = in.bytes(kMagic.size());
  const auto wanted = std::as_bytes(std::span(kMagic));
  if (!std::equal(magic.begin(), magic.end(), wanted.begin(), wanted.end())) {
    return malformed(fmt::format("does not start with {}", kMagic));
  }
  const auto version = in.value<std::uint32_t>();
  if (version < kVersionFirst || version > kVersion) {
    return malformed(
        fmt::format("version {}; accepted: {} to {}", version, kVersionFirst, kVersion));
  }
  if (load_le<std::uint64_t>(bytes, body.size()) != checksum(body)) {
    return malformed("checksum does not match: damaged or cut off");
  }
  Saved saved;
  saved.rank = in.value<std::uint32_t>();
  saved.workers = in.value<std::uint32_t>();
  SLUICE_TRY(version == kVersionFirst ? read_first_version(in, saved)
                                      : read_second_version(in, saved));
  if (in.failed() || !in.at_end()) return malformed("cut off or followed by more bytes");
  return saved;
}

// Not by values: all ranks must come to the same.
bool has_memories(const SavedTensor& saved) {
  return std::any_of(saved.memories.begin(), saved.memories.end(),
                     [](auto memory) { return !memory.empty(); });
}

}  // namespace

// What was saved, against the memory that loads it.
class SavedState {
 public:
  SavedState(Memory& memory, const Saved& saved) : memory_(memory), saved_(saved) {}

  [[nodiscard]] Verdict check() {
    SLUICE_TRY(check_owner());
    if (saved_.tensors.size() != memory_.tensors_.size()) {
      return mismatch(fmt::format("{} tensors; this group has {}", saved_.tensors.size(),
                                  memory_.tensors_.size()));
    }
    find_resuming();
    for (std::size_t i = 0; i < saved_.tensors.size(); ++i) SLUICE_TRY(check_tensor(i));
    find_models();
    for (std::size_t choice = 0; choice < models_.size(); ++choice) {
      const std::size_t size = memory_.codecs_[choice].model.size();
      if (models_[choice] == nullptr || models_[choice]->model.size() == size) continue;
      return mismatch(
          fmt::format("{} bytes of model state; expected {}", models_[choice]->model.size(), size));
    }
    return Nothing{};
  }

  void load() {
    // What can be refused, which is memory, comes first.
    std::vector<Memory::Stored> made(saved_.tensors.size());
    for (std::size_t i = 0; i < made.size(); ++i) {
      const bool has = !memory_.held_[i].stored.now.empty();
      if (!has && has_memories(saved_.tensors[i])) {
        made[i] = memory_.new_stored(memory_.tensors_[i]);
      }
    }
    for (std::size_t i = 0; i < made.size(); ++i) {
      Memory::Held& held = memory_.held_[i];
      if (!made[i].now.empty()) held.stored = std::move(made[i]);
      fill(saved_.tensors[i].memories, held.stored.now);
      fill(resumes_here(i) ? saved_.tensors[i].state : std::span<const std::byte>{}, held.state);
    }
    memory_.forget_step();
    for (std::size_t choice = 0; choice < models_.size(); ++choice) {
      fill(models_[choice] == nullptr ? std::span<const std::byte>{} : models_[choice]->model,
           memory_.codecs_[choice].model);
    }
  }

 private:
  [[nodiscard]] Verdict check_owner() const {
    const GroupOptions& here = memory_.options_;
    if (saved_.rank != here.rank || saved_.workers != here.workers) {
      return mismatch(fmt::format("of worker {} of {}; this is worker {} of {}", saved_.rank,
                                  saved_.workers, here.rank, here.workers));
    }
    const std::uint32_t feedback = memory_.feedback_.info->id;
    if (saved_.feedback != feedback) {
      return mismatch(fmt::format("feedback {}; this group has {}",
                                  name_of_feedback(saved_.feedback), name_of_feedback(feedback)));
    }
    return Nothing{};
  }

  [[nodiscard]] Verdict check_tensor(std::size_t index) const {
    const SavedTensor& saved = saved_.tensors[index];
    const Tensor& mine = memory_.tensors_[index];
    const Memory::Held& held = memory_.held_[index];
    if (!(saved.tensor == mine) || saved.rows != held.rows) {
      const auto kind = [](bool rows) { return rows ? ", in rows" : ""; };
      return mismatch(
          fmt::format("tensor {} is {:x} of {} x {}{}; this group has {:x} of {} x {}{}", index,
                      saved.tensor.id, saved.tensor.rows, saved.tensor.cols, kind(saved.rows),
                      mine.id, mine.rows, mine.cols, kind(held.rows)));
    }
    if (resumes_here(index) && saved.state.size() != held.state.size()) {
      return mismatch(fmt::format("tensor {} has {} state bytes; expected {}", index,
                                  saved.state.size(), held.state.size()));
    }
    if (saved.memories.empty()) return Nothing{};
    const std::size_t wanted = held.rows ? 0 : memory_.memory_names().size();
    for (const auto memory : saved.memories) {
      if (saved.memories.size() == wanted && memory.size() == mine.count() * sizeof(float))
        continue;
      return mismatch(
          fmt::format("tensor {} has {} memories, one of {} coordinates; expected {} of {}", index,
                      saved.memories.size(), memory.size() / sizeof(float), wanted, mine.count()));
    }
    return Nothing{};
  }

  // Which codecs that saved can be gone on with by which of those here.
  void find_resuming() {
    for (const SavedCodec& codec : saved_.codecs) {
      std::vector<bool>& row = resuming_.emplace_back();
      for (const Memory::Offered& of : memory_.codecs_) {
        row.push_back(of.tensor_count != 0 && resumes(codec.spec, of.spec));
      }
    }
  }
  [[nodiscard]] bool resumes_here(std::size_t tensor) const {
    return resuming_[saved_.tensors[tensor].codec][memory_.held_[tensor].choice];
  }

  // A model's state is about the tensors that had the codec: it goes on if these are the same.
  void find_models() {
    models_.resize(memory_.codecs_.size());
    for (std::size_t i = 0; i < saved_.tensors.size(); ++i) {
      if (resumes_here(i)) models_[memory_.held_[i].choice] = &codec_of(i);
    }
    for (std::size_t i = 0; i < saved_.tensors.size(); ++i) {
      const SavedCodec* const partner = &codec_of(i);
      for (std::size_t choice = 0; choice < models_.size(); ++choice) {
        const bool is_mine = memory_.held_[i].choice == choice;
        if (is_mine != (models_[choice] == partner)) models_[choice] = nullptr;
      }
    }
  }
  [[nodiscard]] const SavedCodec& codec_of(std::size_t tensor) const {
    return saved_.codecs[saved_.tensors[tensor].codec];
  }

  // With what was saved, or zeros where nothing was.
  static void fill(std::span<const std::byte> from, std::span<std::byte> into) {
    if (from.empty()) {
      std::fill(into.begin(), into.end(), std::byte{0});
    } else {
      std::copy(from.begin(), from.end(), into.begin());
    }
  }
  static void fill(std::span<const std::span<const std::byte>> from,
                   std::span<AlignedVector<float>> into) {
    for (std::size_t i = 0; i < into.size(); ++i) {
      fill(from.empty() ? std::span<const std::byte>{} : from[i],
           std::as_writable_bytes(std::span(into[i])));
    }
  }

  Memory& memory_;
  const Saved& saved_;
  std::vector<std::vector<bool>> resuming_;  // by saved codec, then by choice
  std::vector<const SavedCodec*> models_;    // by choice; null: starts anew
};

std::vector<std::byte> Memory::save() const {
  Writer out;
  out.bytes(std::as_bytes(std::span(kMagic)));
  out.value(kVersion);
  out.value(options_.rank);
  out.value(options_.workers);
  out.value(feedback_.info->id);
  out.text(feedback_.spec);
  std::vector<Choice> listed;
  std::vector<std::uint32_t> places(codecs_.size(), 0);
  for (const Held& held : held_) {
    if (std::find(listed.begin(), listed.end(), held.choice) != listed.end()) continue;
    places[held.choice] = static_cast<std::uint32_t>(listed.size());
    listed.push_back(held.choice);
  }
  out.value(static_cast<std::uint32_t>(listed.size()));
  for (const Choice choice : listed) {
    out.text(codecs_[choice].spec);
    out.sized(codecs_[choice].model);
  }
  out.value(std::uint64_t{tensors_.size()});
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    out.value(tensors_[i].id);
    out.value(tensors_[i].rows);
    out.value(tensors_[i].cols);
    out.value(places[held_[i].choice]);
    out.value(std::uint32_t{held_[i].rows ? 1u : 0u});
    out.sized(held_[i].state);
    const auto& memories = held_[i].stored.now;
    out.value(static_cast<std::uint32_t>(memories.size()));
    for (const auto& memory : memories) {
      out.value(std::uint64_t{memory.size()});
      out.bytes(std::as_bytes(std::span(memory)));
    }
  }
  out.value(checksum(out.out));
  return std::move(out.out);
}

Verdict Memory::load(std::span<const std::byte> saved) {
  SLUICE_TRY_ASSIGN(const Saved parsed, parse(saved));
  SavedState state(*this, parsed);
  SLUICE_TRY(state.check());
  state.load();
  return Nothing{};
}

}  // namespace sluice
