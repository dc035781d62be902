#include "group/saved_bytes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/bytes.h"
#include "base/random.h"

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

// Counts what it is given, and writes as long as there is room.
class Writer {
 public:
  explicit Writer(std::span<std::byte> room) : room_(room) {}

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
  void bytes(std::span<const std::byte> more) {
    if (size_ + more.size() <= room_.size()) {
      std::copy(more.begin(), more.end(), room_.begin() + static_cast<std::ptrdiff_t>(size_));
    }
    size_ += more.size();
  }
  // Of what was written, or 0 where there was no room.
  [[nodiscard]] std::uint64_t sum() const {
    return size_ <= room_.size() ? checksum(room_.first(size_)) : 0;
  }
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  std::span<std::byte> room_;
  std::size_t size_ = 0;
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
  return Problem{Code::malformed, "saved bytes: " + std::move(message)};
}

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
  saved.feedback_spec = in.text();
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

}  // namespace

Checked<Saved> parse_saved(std::span<const std::byte> bytes) {
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

bool SavedTensor::keeps() const {
  return std::any_of(memories.begin(), memories.end(), [](auto memory) { return !memory.empty(); });
}

std::size_t write_saved(const Saved& saved, std::span<std::byte> room) {
  Writer out(room);
  out.bytes(std::as_bytes(std::span(kMagic)));
  out.value(kVersion);
  out.value(saved.rank);
  out.value(saved.workers);
  out.value(saved.feedback);
  out.text(saved.feedback_spec);
  out.value(static_cast<std::uint32_t>(saved.codecs.size()));
  for (const SavedCodec& codec : saved.codecs) {
    out.text(codec.spec);
    out.sized(codec.model);
  }
  out.value(std::uint64_t{saved.tensors.size()});
  for (const SavedTensor& one : saved.tensors) {
    out.value(one.tensor.id);
    out.value(one.tensor.rows);
    out.value(one.tensor.cols);
    out.value(one.codec);
    out.value(std::uint32_t{one.rows ? 1u : 0u});
    out.sized(one.state);
    out.value(static_cast<std::uint32_t>(one.memories.size()));
    for (const auto memory : one.memories) {
      out.value(std::uint64_t{memory.size() / sizeof(float)});
      out.bytes(memory);
    }
  }
  out.value(out.sum());
  return out.size();
}

}  // namespace sluice
