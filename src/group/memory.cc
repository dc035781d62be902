#include "group/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>

#include "base/bytes.h"
#include "base/random.h"
#include "catalog/codecs.h"
#include "device/transfer.h"
#include "group/flight.h"

namespace sluice {
namespace {

constexpr std::uint64_t kTensorMax = std::uint64_t{1} << 40;  // coordinates

std::uint64_t digest_of(std::string_view text, std::uint64_t digest) {
  for (const char c : text) digest = mix(digest, static_cast<unsigned char>(c));
  return digest;
}

Problem invalid(std::string message) { return Problem{Code::invalid_argument, std::move(message)}; }

Verdict check_tensors(std::span<const Tensor> tensors) {
  for (const Tensor& tensor : tensors) {
    if (tensor.rows > kTensorMax || (tensor.rows != 0 && tensor.cols > kTensorMax / tensor.rows)) {
      return invalid(fmt::format("tensor {:x} of {} x {} coordinates; accepted: at most 2^40",
                                 tensor.id, tensor.rows, tensor.cols));
    }
  }
  return Nothing{};
}

}  // namespace

Checked<std::unique_ptr<Memory>> Memory::make(const GroupOptions& options) {
  SLUICE_TRY(check(options));
  SLUICE_TRY_ASSIGN(NamedFeedback feedback, make_feedback(options.feedback));
  auto memory = std::make_unique<Memory>(Token{}, options, std::move(feedback));
  SLUICE_TRY_ASSIGN(NamedCodec exact, make_codec(dense::kF32.name));
  SLUICE_TRY_ASSIGN(const Choice choice, memory->offer(exact.spec, std::move(exact.codec)));
  SLUICE_ASSERT(choice == kExact);
  return memory;
}

Memory::Memory(Token, const GroupOptions& options, NamedFeedback feedback)
    : options_(options), feedback_(std::move(feedback)) {
  options_.feedback = feedback_.spec;
}

void Memory::Offered::note_model() {
  model_digest = 0;
  const bool is_new =
      std::all_of(model.begin(), model.end(), [](std::byte b) { return b == std::byte{0}; });
  for (std::size_t i = 0; i < model.size() && !is_new; i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, model.data() + i, std::min<std::size_t>(8, model.size() - i));
    model_digest = mix(model_digest, word);
  }
}

Checked<Choice> Memory::offer(std::string_view spec, std::shared_ptr<const Codec> codec) {
  SLUICE_TRY_ASSIGN(const std::string settled, settle_spec(spec, feedback_.kind != nullptr));
  const Choice known = find(settled);
  if (known != codec_count()) return known;
  const Traits traits = codec->traits(options_.workers);
  Offered offered;
  offered.spec = settled;
  offered.codec = std::move(codec);
  offered.identity = digest_of(settled, mix(options_.workers, options_.chunk_count));
  offered.on_device = traits.on_device;
  offered.name = static_cast<std::uint32_t>(digest_of(settled, 0) >> 32);
  offered.model.resize(traits.model_size);
  offered.tally.resize(traits.tally_count);
  offered.totals.resize(traits.tally_count);
  codecs_.push_back(std::move(offered));
  return known;
}

Choice Memory::find(std::string_view spec) const {
  Choice choice = 0;
  while (choice < codec_count() && codecs_[choice].spec != spec) ++choice;
  return choice;
}

std::string_view Memory::spec_named(std::uint32_t name) const {
  for (const Offered& of : codecs_) {
    if (name_of(of) == name) return of.spec;
  }
  return {};
}

std::string Memory::specs() const {
  std::string all;
  for (const Offered& of : codecs_) {
    if (of.tensor_count != 0) all += fmt::format("{}{}", all.empty() ? "" : ", ", of.spec);
  }
  return all;
}

Verdict Memory::check_choice(Choice choice) const {
  if (choice < codec_count()) return Nothing{};
  return invalid(fmt::format("codec {} of the table; accepted: below {}", choice, codec_count()));
}

Verdict Memory::check_kind(Choice choice, bool rows) const {
  const Traits traits = codec(choice).traits(options_.workers);
  if (!rows && accelerator() != nullptr) SLUICE_TRY(check_device(traits, spec(choice)));
  if (!rows) return check_feedback(feedback_, traits, spec(choice));
  if (traits.model_size == 0) return Nothing{};
  return invalid(
      fmt::format("codec '{}' for tensors that bring rows, which keep no memory of a model; "
                  "accepted: one without, such as lossless",
                  spec(choice)));
}

Verdict Memory::check_device(const Traits& traits, std::string_view spec) const {
  if (!traits.on_device) {
    return invalid(
        fmt::format("codec '{}' has no kernels for a device; accepted: f32, bf16, fp16 "
                    "and tide, or gradients on the host",
                    spec));
  }
  if (feedback_.kind == nullptr || feedback_.info->plain) return Nothing{};
  return invalid(
      fmt::format("feedback '{}' has no kernels for a device; accepted: none and ef, or "
                  "gradients on the host",
                  feedback_.spec));
}

Verdict Memory::check_accepts(Choice choice, std::span<const Choice> choices) const {
  std::vector<Tensor> own;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    if (choices[i] == choice) own.push_back(tensors_[i]);
  }
  return codec(choice).accepts(own, options_.workers);
}

std::vector<Choice> Memory::choices() const {
  std::vector<Choice> all;
  all.reserve(held_.size());
  for (const Held& held : held_) all.push_back(held.choice);
  return all;
}

std::vector<std::byte> Memory::new_state(std::size_t tensor, Choice choice) const {
  if (held_[tensor].rows) return {};
  return std::vector<std::byte>(codec(choice).plan(tensors_[tensor], options_.workers).state_size);
}

std::vector<std::uint8_t> Memory::new_marks(std::size_t tensor, Choice choice) const {
  if (!options_.keep_before || held_[tensor].rows) return {};
  const std::uint64_t whole = chunk_count(tensors_[tensor], choice);
  return std::vector<std::uint8_t>(divide_up(tensors_[tensor].count(), whole));
}

Memory::Stored Memory::new_stored(const Tensor& tensor) const {
  Stored made;
  for (std::size_t i = 0; i < memory_names().size(); ++i) {
    made.now.emplace_back(tensor.count());
    if (options_.keep_before && accelerator() == nullptr) made.before.emplace_back(tensor.count());
  }
  if (accelerator() == nullptr || made.now.empty()) return made;
  const std::size_t size = tensor.count() * sizeof(float);
  made.there = device::DeviceMemory(*accelerator(), size);
  if (options_.keep_before) made.there_before = device::DeviceMemory(*accelerator(), size);
  // Zeros; a device that fails says so in the first step.
  static_cast<void>(device::to_device(*accelerator(), std::as_bytes(std::span(made.now.front())),
                                      made.there.as<std::byte>()));
  return made;
}

Verdict Memory::add(std::span<const Tensor> tensors, Choice choice, Keeps keeps) {
  SLUICE_TRY(check_choice(choice));
  return add(tensors, {.choice = choice}, keeps == Keeps::all || choice != kExact);
}

Verdict Memory::add_rows(std::span<const Tensor> tensors, Choice choice) {
  SLUICE_TRY(check_choice(choice));
  return add(tensors, {.choice = choice, .rows = true}, false);
}

Verdict Memory::add(std::span<const Tensor> tensors, const Held& like, bool keeps) {
  SLUICE_TRY(check_kind(like.choice, like.rows));
  SLUICE_TRY(check_tensors(tensors));
  // Where something is refused in the middle, memory too, all is as it was.
  struct Addition {
    explicit Addition(Memory& of) : memory(of), count(of.tensors_.size()) {}
    ~Addition() { memory.cut(count); }
    Memory& memory;
    std::size_t count;  // that stay
  } addition(*this);
  tensors_.insert(tensors_.end(), tensors.begin(), tensors.end());
  held_.resize(tensors_.size());
  SLUICE_TRY(add_ids());
  for (std::size_t i = addition.count; i < tensors_.size(); ++i) {
    held_[i].choice = like.choice;
    held_[i].rows = like.rows;
  }
  SLUICE_TRY(check_accepts(like.choice, choices()));
  for (std::size_t i = addition.count; i < tensors_.size(); ++i) {
    held_[i].state = new_state(i, like.choice);
    held_[i].in_step = new_marks(i, like.choice);
    if (keeps) held_[i].stored = new_stored(tensors_[i]);
  }
  addition.count = tensors_.size();
  codecs_[like.choice].tensor_count += tensors.size();
  return Nothing{};
}

// An id names all randomness of a tensor, and the tensor to the other ranks.
Verdict Memory::add_ids() {
  while (ids_.size() < tensors_.size()) {
    const std::uint64_t id = tensors_[ids_.size()].id;
    if (ids_.insert(id).second) continue;
    return invalid(fmt::format("two tensors with id {:x}; accepted: different ids", id));
  }
  return Nothing{};
}

void Memory::cut(std::size_t count) {
  while (ids_.size() > count) ids_.erase(tensors_[ids_.size() - 1].id);
  if (held_.size() > count) held_.resize(count);
  tensors_.resize(std::min(count, tensors_.size()));
}

Verdict Memory::choose(std::span<const std::uint32_t> tensors, Choice choice) {
  SLUICE_TRY(check_choice(choice));
  std::vector<Choice> after = choices();
  std::vector<bool> budget_moves(codec_count());
  for (const std::uint32_t tensor : tensors) {
    if (tensor >= tensors_.size()) {
      return invalid(fmt::format("tensor {}; accepted: below {}", tensor, tensors_.size()));
    }
    if (after[tensor] == choice) continue;
    SLUICE_TRY(check_kind(choice, held_[tensor].rows));
    budget_moves[after[tensor]] = true;
    budget_moves[choice] = true;
    after[tensor] = choice;
  }
  for (Choice one = 0; one < codec_count(); ++one) {
    if (budget_moves[one]) SLUICE_TRY(check_accepts(one, after));
  }
  move(after, choice);
  for (Choice one = 0; one < codec_count(); ++one) {
    if (!budget_moves[one]) continue;
    std::fill(codecs_[one].model.begin(), codecs_[one].model.end(), std::byte{0});
    codecs_[one].note_model();
  }
  return Nothing{};
}

// Takes all memory first: where it is refused, nothing has moved.
void Memory::move(std::span<const Choice> after, Choice choice) {
  struct Moved {
    std::size_t tensor;
    std::vector<std::byte> state;
    std::vector<std::uint8_t> marks;
    Stored stored;
  };
  std::vector<Moved> all;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (after[i] == held_[i].choice) continue;
    const bool keeps = !held_[i].rows && choice != kExact && held_[i].stored.now.empty();
    all.push_back({i, new_state(i, choice), new_marks(i, choice),
                   keeps ? new_stored(tensors_[i]) : Stored{}});
  }
  for (Moved& moved : all) {
    Held& held = held_[moved.tensor];
    --codecs_[held.choice].tensor_count;
    ++codecs_[choice].tensor_count;
    held.choice = choice;
    moves_ = mix(mix(moves_, tensors_[moved.tensor].id), codecs_[choice].name);
    held.state = std::move(moved.state);
    held.in_step = std::move(moved.marks);
    if (!moved.stored.now.empty()) held.stored = std::move(moved.stored);
  }
}

std::uint32_t Memory::share_count(const Tensor& tensor, Choice choice) const {
  return fit_chunk(codec(choice).plan(tensor, options_.workers), options_.chunk_count);
}

// On a device a chunk costs the host as much as a large one, and kernels do not care.
std::uint32_t Memory::chunk_count(const Tensor& tensor, Choice choice) const {
  constexpr std::uint32_t kDeviceChunk = 1u << 20;
  const std::uint32_t share = share_count(tensor, choice);
  if (accelerator() == nullptr || !codecs_[choice].on_device) return share;
  const std::uint32_t most = codec(choice).plan(tensor, options_.workers).count_max;
  return share * std::max(1u, std::min(kDeviceChunk, most) / share);
}

Chunk Memory::chunk_of_rows(std::uint64_t step, std::size_t tensor, const Tensor& all,
                            std::uint64_t offset, std::span<const float> gradient,
                            std::span<float> mean, std::span<std::byte> state, Tally& tally) const {
  Chunk chunk;
  chunk.extent = {all, offset, static_cast<std::uint32_t>(gradient.size()), options_.rank,
                  options_.workers};
  chunk.step = step;
  chunk.key = chunk_key(options_.seed, step, all.id);
  chunk.share = share_count(all, choice(tensor));
  chunk.gradient = gradient;
  chunk.mean = mean;
  chunk.state = state;
  chunk.model = codecs_[choice(tensor)].model;
  chunk.tally = tally.of(choice(tensor));
  return chunk;
}

// On a device the spans are empty, and the count is the caller's to fill in.
Chunk Memory::chunk(std::uint64_t step, std::size_t tensor, std::uint64_t offset,
                    std::span<const float> gradient, std::span<float> mean, Tally& tally) {
  SLUICE_DASSERT(!brings_rows(tensor));
  return chunk_of_rows(step, tensor, tensors_[tensor], offset, gradient, mean, held_[tensor].state,
                       tally);
}

std::uint64_t Memory::digest(const Chunk& chunk, Choice choice) const {
  const Offered& of = codecs_[choice];
  return mix(mix(mix(of.identity ^ moves_ ^ of.model_digest, chunk.key), chunk.extent.offset),
             chunk.extent.count);
}

Topic Memory::topic(const Chunk& chunk, std::uint64_t step, Choice choice) const {
  return {.step = step,
          .seed = options_.seed,
          .tensor = chunk.extent.tensor.id,
          .offset = chunk.extent.offset,
          .count = chunk.extent.count,
          .chunk = options_.chunk_count,
          .codec = name_of(codecs_[choice])};
}

void Memory::count(const Tally& tally) {
  SLUICE_ASSERT(tally.codec_count() <= codec_count());
  for (Choice choice = 0; choice < tally.codec_count(); ++choice) {
    const auto counts = tally.of(choice);
    for (std::size_t i = 0; i < counts.size(); ++i) {
      std::atomic_ref(codecs_[choice].tally[i]).fetch_add(counts[i], std::memory_order_relaxed);
    }
  }
}

void Memory::end_step() {
  for (Offered& of : codecs_) {
    if (of.tally.empty() && of.model.empty()) continue;
    // The model of a codec that nobody has chosen stays new.
    if (of.tensor_count != 0) {
      of.codec->end_step(of.tally, of.model);
      of.note_model();
    }
    for (std::size_t i = 0; i < of.tally.size(); ++i) of.totals[i] += of.tally[i];
  }
  forget_step();
}

void Memory::forget_step() {
  for (Offered& of : codecs_) std::fill(of.tally.begin(), of.tally.end(), std::uint64_t{0});
  for (Held& held : held_) std::fill(held.in_step.begin(), held.in_step.end(), std::uint8_t{0});
}

Memories Memory::memories(std::size_t tensor) {
  Memories all;
  auto& stored = held_[tensor].stored.now;
  for (std::size_t i = 0; i < stored.size(); ++i) all[i] = stored[i];
  return all;
}

std::span<const float> Memory::residual(std::size_t tensor) const {
  const auto& stored = held_[tensor].stored.now;
  return stored.empty() ? std::span<const float>{} : stored.front();
}

Kept Memory::kind(std::size_t tensor) const {
  if (held_[tensor].stored.now.empty()) return {};
  return {feedback_.kind.get(), feedback_.info->plain, {}};
}

Kept Memory::kept(std::size_t tensor, std::uint64_t offset, std::uint32_t count) {
  Kept kept = kind(tensor);
  if (kept.kind == nullptr) return kept;
  kept.memories = part_of(memories(tensor), offset, count);
  Held& held = held_[tensor];
  // What was there before the step, not before its second bucket.
  bool is_first = false;
  if (options_.keep_before) {
    std::uint8_t& mark = held.in_step[offset / chunk_count(tensor)];
    is_first = std::exchange(mark, std::uint8_t{1}) == 0;
  }
  if (accelerator() != nullptr) return kept_there(kept, held, offset, is_first);
  if (!is_first) return kept;
  for (std::size_t i = 0; i < held.stored.before.size(); ++i) {
    std::copy(kept.memories[i].begin(), kept.memories[i].end(),
              std::span(held.stored.before[i]).subspan(offset, count).begin());
  }
  return kept;
}

Kept Memory::kept_there(Kept kept, Held& held, std::uint64_t offset, bool is_first) {
  kept.memories = {};
  kept.there = held.stored.there.as<float>() + offset;
  if (is_first) kept.there_before = held.stored.there_before.as<float>() + offset;
  return kept;
}

Verdict Memory::fetch() {
  for (std::size_t i = 0; i < held_.size() && accelerator() != nullptr; ++i) {
    Stored& stored = held_[i].stored;
    if (stored.now.empty()) continue;
    const Status copied = device::to_host(*accelerator(), stored.there.as<std::byte>(),
                                          std::as_writable_bytes(std::span(stored.now.front())));
    if (!copied) return Problem{copied.error().code, copied.error().what};
  }
  return Nothing{};
}

Verdict Memory::show() {
  for (std::size_t i = 0; i < held_.size() && accelerator() != nullptr; ++i) {
    const Stored& stored = held_[i].stored;
    if (stored.now.empty()) continue;
    const Status copied = device::to_device(
        *accelerator(), std::as_bytes(std::span(stored.now.front())), stored.there.as<std::byte>());
    if (!copied) return Problem{copied.error().code, copied.error().what};
  }
  return Nothing{};
}

// What was there before the step becomes what is there.
Status Memory::copy_back(std::size_t tensor, std::uint64_t first, std::uint64_t count) {
  Stored& stored = held_[tensor].stored;
  if (accelerator() != nullptr && !stored.now.empty()) {
    SLUICE_TRY(device::on_device(
        *accelerator(), stored.there_before.as<std::byte>() + first * sizeof(float),
        stored.there.as<std::byte>() + first * sizeof(float), count * sizeof(float)));
  }
  for (std::size_t i = 0; i < stored.before.size(); ++i) {
    const auto before = std::span(stored.before[i]).subspan(first, count);
    std::copy(before.begin(), before.end(), std::span(stored.now[i]).subspan(first, count).begin());
  }
  return ok();
}

Verdict Memory::undo_step() {
  SLUICE_ASSERT(options_.keep_before);
  for (std::size_t tensor = 0; tensor < held_.size(); ++tensor) {
    Held& held = held_[tensor];
    const std::uint64_t whole = chunk_count(tensor);
    for (std::size_t chunk = 0; chunk < held.in_step.size(); ++chunk) {
      if (held.in_step[chunk] == 0) continue;
      const std::uint64_t first = chunk * whole;
      const std::uint64_t count = std::min(whole, tensors_[tensor].count() - first);
      const Status back = copy_back(tensor, first, count);
      if (!back) return Problem{back.error().code, back.error().what};
    }
  }
  forget_step();
  return Nothing{};
}

void Memory::pay(std::size_t tensor, std::span<float> gradient) {
  constexpr std::size_t kTile = 1024;
  std::array<float, kTile> input;
  std::array<double, kTile> sent;
  if (kind(tensor).kind == nullptr) return;
  const std::uint64_t whole = chunk_count(tensor);
  for (std::uint64_t at = 0; at < gradient.size(); at += whole) {
    const std::uint64_t count = std::min<std::uint64_t>(whole, gradient.size() - at);
    static_cast<void>(kept(tensor, at, static_cast<std::uint32_t>(count)));
  }
  for (std::size_t at = 0; at < gradient.size(); at += kTile) {
    const auto tile = gradient.subspan(at, std::min(kTile, gradient.size() - at));
    Kept all = kind(tensor);
    all.memories = part_of(memories(tensor), at, tile.size());
    const auto given = std::span(input).first(tile.size());
    all.kind->before(tile, all.memories, given);
    std::copy(given.begin(), given.end(), sent.begin());
    all.kind->after(tile, given, std::span<const double>(sent).first(tile.size()), all.memories);
    std::copy(given.begin(), given.end(), tile.begin());
  }
}

}  // namespace sluice
