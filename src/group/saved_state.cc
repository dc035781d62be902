// Saving and loading a worker's memory: codec state, model state, residuals.
//
//   magic "SLUICEGS"  version u32  rank u32  workers u32  feedback u32
//   spec: size u32, bytes          model: size u64, bytes          tensors: count u64
//   per tensor: id u64, rows u64, cols u64, state size u64, bytes, residual count u64, float32*
//   checksum u64 over everything before it
// All little-endian.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/bytes.h"
#include "base/random.h"
#include "catalog/codecs.h"
#include "group/memory.h"

namespace sluice {
namespace {

constexpr std::string_view kMagic = "SLUICEGS";
constexpr std::uint32_t kVersion = 1;

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

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// What the bytes hold, still in the bytes.
struct Saved {
  std::span<const std::byte> model;
  std::vector<std::span<const std::byte>> states;
  std::vector<std::span<const std::byte>> residuals;
};

struct Expected {
  std::uint32_t rank;
  std::uint32_t workers;
  std::uint32_t feedback;
  std::string_view spec;
  std::size_t model_size;
  std::span<const Tensor> tensors;
  std::span<const std::vector<std::byte>> states;
};

std::string name_of_feedback(std::uint32_t kind) {
  for (const FeedbackInfo& info : kFeedbacks) {
    if (static_cast<std::uint32_t>(info.kind) == kind)
      return fmt::format("kind {} ('{}')", kind, info.name);
  }
  return fmt::format("kind {}", kind);
}

// Text of someone else's, for a message.
std::string printable(std::string_view text) {
  constexpr std::size_t kMost = 200;
  std::string shown(text.substr(0, kMost));
  std::replace_if(
      shown.begin(), shown.end(), [](char c) { return c < 0x20 || c > 0x7e; }, '?');
  return text.size() > kMost ? shown + "…" : shown;
}

Verdict read_format(Reader& in) {
  if (as_text(in.bytes(kMagic.size())) != kMagic) {
    return malformed(fmt::format("does not start with {}", kMagic));
  }
  if (const auto version = in.value<std::uint32_t>(); version != kVersion) {
    return malformed(fmt::format("version {}; accepted: {}", version, kVersion));
  }
  return Nothing{};
}

Verdict read_owner(Reader& in, const Expected& expected) {
  const auto rank = in.value<std::uint32_t>();
  const auto workers = in.value<std::uint32_t>();
  if (rank != expected.rank || workers != expected.workers) {
    return mismatch(fmt::format("of worker {} of {}; this is worker {} of {}", rank, workers,
                                expected.rank, expected.workers));
  }
  if (const auto feedback = in.value<std::uint32_t>(); feedback != expected.feedback) {
    return mismatch(fmt::format("feedback {}; this group has {}", name_of_feedback(feedback),
                                name_of_feedback(expected.feedback)));
  }
  if (const auto spec = as_text(in.bytes(in.value<std::uint32_t>()));
      !resumes(spec, expected.spec)) {
    return mismatch(
        fmt::format("saved by codec '{}'; this is '{}'", printable(spec), expected.spec));
  }
  return Nothing{};
}

Verdict read_tensor(Reader& in, const Expected& expected, std::size_t index, Saved& saved) {
  Tensor tensor;
  tensor.id = in.value<std::uint64_t>();
  tensor.rows = in.value<std::uint64_t>();
  tensor.cols = in.value<std::uint64_t>();
  const Tensor& mine = expected.tensors[index];
  if (!(tensor == mine)) {
    return mismatch(fmt::format("tensor {} is {:x} of {} x {}; this group has {:x} of {} x {}",
                                index, tensor.id, tensor.rows, tensor.cols, mine.id, mine.rows,
                                mine.cols));
  }
  saved.states.push_back(in.bytes(in.value<std::uint64_t>()));
  const auto residual_count = in.value<std::uint64_t>();
  const std::uint64_t wanted = expected.feedback == 0 ? 0 : mine.count();
  if (saved.states.back().size() != expected.states[index].size() || residual_count != wanted) {
    return mismatch(fmt::format("tensor {} has {} state bytes and {} residuals; expected {} and {}",
                                index, saved.states.back().size(), residual_count,
                                expected.states[index].size(), wanted));
  }
  saved.residuals.push_back(in.bytes(residual_count * sizeof(float)));
  for (std::size_t at = 0; at < saved.residuals.back().size(); at += sizeof(float)) {
    if (!std::isfinite(load_le<float>(saved.residuals.back(), at))) {
      return malformed(fmt::format("tensor {} has a residual that is not finite", index));
    }
  }
  return Nothing{};
}

Checked<Saved> parse(std::span<const std::byte> bytes, const Expected& expected) {
  if (bytes.size() < sizeof(std::uint64_t)) return malformed("cut off");
  const auto body = bytes.first(bytes.size() - sizeof(std::uint64_t));
  Reader in(body);
  SLUICE_TRY(read_format(in));
  if (load_le<std::uint64_t>(bytes, body.size()) != checksum(body)) {
    return malformed("checksum does not match: damaged or cut off");
  }
  SLUICE_TRY(read_owner(in, expected));
  Saved saved;
  saved.model = in.bytes(in.value<std::uint64_t>());
  if (saved.model.size() != expected.model_size) {
    return mismatch(fmt::format("{} bytes of model state; expected {}", saved.model.size(),
                                expected.model_size));
  }
  if (const auto count = in.value<std::uint64_t>(); count != expected.tensors.size()) {
    return mismatch(fmt::format("{} tensors; this group has {}", count, expected.tensors.size()));
  }
  for (std::size_t i = 0; i < expected.tensors.size(); ++i) {
    SLUICE_TRY(read_tensor(in, expected, i, saved));
  }
  if (in.failed() || !in.at_end()) return malformed("cut off or followed by more bytes");
  return saved;
}

}  // namespace

std::vector<std::byte> Memory::save() const {
  Writer out;
  out.bytes(std::as_bytes(std::span(kMagic)));
  out.value(kVersion);
  out.value(options_.rank);
  out.value(options_.workers);
  out.value(static_cast<std::uint32_t>(options_.feedback));
  out.value(static_cast<std::uint32_t>(spec_.size()));
  out.bytes(std::as_bytes(std::span(spec_)));
  out.value(std::uint64_t{model_.size()});
  out.bytes(model_);
  out.value(std::uint64_t{tensors_.size()});
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    out.value(tensors_[i].id);
    out.value(tensors_[i].rows);
    out.value(tensors_[i].cols);
    out.value(std::uint64_t{states_[i].size()});
    out.bytes(states_[i]);
    const auto residual = feedback_.residual(i);
    out.value(std::uint64_t{residual.size()});
    out.bytes(std::as_bytes(residual));
  }
  out.value(checksum(out.out));
  return std::move(out.out);
}

Verdict Memory::load(std::span<const std::byte> saved) {
  const Expected expected{
      options_.rank, options_.workers, static_cast<std::uint32_t>(options_.feedback),
      spec_,         model_.size(),    tensors_,
      states_};
  SLUICE_TRY_ASSIGN(const Saved parsed, parse(saved, expected));
  std::copy(parsed.model.begin(), parsed.model.end(), model_.begin());
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    std::copy(parsed.states[i].begin(), parsed.states[i].end(), states_[i].begin());
    const auto residual = std::as_writable_bytes(feedback_.residual(i));
    std::copy(parsed.residuals[i].begin(), parsed.residuals[i].end(), residual.begin());
  }
  return Nothing{};
}

}  // namespace sluice
