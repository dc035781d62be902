#include "apps/sluice/files/npy.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "apps/sluice/files/output_file.h"
#include "base/bytes.h"
#include "base/float_environment.h"
#include "kernels/floats/floats.h"

namespace sluice::cli {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kVersionAt = 6;
constexpr std::size_t kLengthAt = 8;           // of the header: 2 bytes in version 1.0, else 4
constexpr std::size_t kPrefixBytesMax = 12;    // up to and with that length
constexpr std::size_t kWrittenAlignment = 64;  // of the data, in files we write
constexpr std::size_t kGrowthDigits = 21;      // numpy.save leaves room for a first axis this long
constexpr std::size_t kChunkBytes = 1u << 20;  // converted at a time

static_assert(kChunkBytes % sizeof(double) == 0, "a chunk holds whole elements of every type");

struct ElementType {
  std::string_view descr;
  std::size_t size;
};
constexpr ElementType kFloat32{"<f4", 4};
constexpr std::array kElementTypes{kFloat32, ElementType{"<f2", 2}, ElementType{"<f8", 8}};

struct Header {
  ElementType type;
  std::vector<std::uint64_t> shape;
  std::uint64_t count;      // of elements
  std::size_t data_offset;  // bytes
};

// Part of a file, made fit for one line.
std::string in_quotes(std::string_view text) {
  constexpr std::size_t kShownMax = 40;
  std::string shown = "\"";
  for (const char letter : text.substr(0, kShownMax)) {
    const auto code = static_cast<unsigned char>(letter);
    const bool plain = code >= 0x20 && code < 0x7f;
    shown += plain ? std::string(1, letter) : fmt::format("\\x{:02x}", code);
  }
  return shown + (text.size() > kShownMax ? "…\"" : "\"");
}

// As Python writes a tuple.
std::string text_of(std::span<const std::uint64_t> shape) {
  std::string text = "(";
  for (const std::uint64_t size : shape) {
    text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  }
  return text + (shape.size() == 1 ? ",)" : ")");
}

std::string as_text(std::span<const std::byte> bytes) {
  std::string text(bytes.size(), '\0');
  std::ranges::transform(bytes, text.begin(),
                         [](std::byte byte) { return static_cast<char>(byte); });
  return text;
}

Problem malformed(std::string_view name, std::string_view what) {
  return {Code::malformed, fmt::format("{}: {}", name, what)};
}

Problem refused(std::string_view name, std::string_view what) {
  return {Code::invalid_argument, fmt::format("{}: {}", name, what)};
}

Problem system_problem(std::string_view name, std::string_view what, int error) {
  return {Code::io, fmt::format("{}: {}: {}", name, what, std::strerror(error))};
}

// Reads the Python literal {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }: these keys
// once each in any order, either quote, spaces anywhere, a comma at the end or none.
class DictionaryParser {
 public:
  DictionaryParser(std::string_view text, std::string_view name) : text_(text), name_(name) {}

  Checked<Header> parse() {
    if (!take('{')) return expected("'{'");
    while (!take('}')) {
      SLUICE_TRY(parse_entry());
      if (take(',')) continue;
      if (!take('}')) return expected("',' or '}'");
      break;
    }
    skip_spaces();
    if (at_ != text_.size()) return expected("nothing");
    if (!descr_ || !fortran_order_ || !shape_) {
      const std::string_view key = !descr_ ? "descr" : !fortran_order_ ? "fortran_order" : "shape";
      return malformed(name_, fmt::format("the header has no '{}' ({})", key, kAccepted));
    }
    if (*fortran_order_) {
      return refused(name_,
                     "fortran_order True is not accepted, only False (C order; convert with "
                     "numpy.ascontiguousarray)");
    }
    for (const ElementType& type : kElementTypes) {
      if (type.descr == *descr_) return Header{type, *std::move(shape_), 0, 0};
    }
    return refuse_type(in_quotes(*descr_));
  }

 private:
  static constexpr std::string_view kAccepted =
      "accepted: a dictionary of exactly 'descr', 'fortran_order' and 'shape'";

  Verdict parse_entry() {
    SLUICE_TRY_ASSIGN(const std::string_view key, parse_string("a quoted key"));
    const bool repeated = (key == "descr" && descr_) || (key == "shape" && shape_) ||
                          (key == "fortran_order" && fortran_order_);
    if (repeated) {
      return malformed(name_, fmt::format("the header has '{}' twice ({})", key, kAccepted));
    }
    if (!take(':')) return expected("':'");
    if (key == "descr") return parse_descr();
    if (key == "fortran_order") return parse_fortran_order();
    if (key == "shape") return parse_shape();
    return malformed(name_, fmt::format("the header has a key {} ({})", in_quotes(key), kAccepted));
  }

  Verdict parse_descr() {
    skip_spaces();
    const bool structured = at_ < text_.size() && (text_[at_] == '[' || text_[at_] == '(');
    if (structured) return refuse_type(in_quotes(text_.substr(at_)));
    SLUICE_TRY_ASSIGN(descr_, parse_string("a quoted type"));
    return Nothing{};
  }

  Verdict parse_fortran_order() {
    skip_spaces();
    for (const bool value : {false, true}) {
      const std::string_view word = value ? "True" : "False";
      if (text_.substr(at_).starts_with(word)) {
        at_ += word.size();
        fortran_order_ = value;
        return Nothing{};
      }
    }
    return expected("True or False");
  }

  Verdict parse_shape() {
    if (!take('(')) return expected("a tuple of sizes");
    std::vector<std::uint64_t> shape;
    bool comma = true;
    while (!take(')')) {
      if (!comma) return expected("',' or ')'");
      if (shape.size() == kNpyDimensionsMax) {
        return refused(name_, fmt::format("a shape of more than {} dimensions is not accepted",
                                          kNpyDimensionsMax));
      }
      SLUICE_TRY_ASSIGN(const std::uint64_t size, parse_size());
      shape.push_back(size);
      comma = take(',');
    }
    if (shape.size() == 1 && !comma) return expected("a tuple, (3,) rather than (3)");
    shape_ = std::move(shape);
    return Nothing{};
  }

  Checked<std::uint64_t> parse_size() {
    skip_spaces();
    const std::size_t start = at_;
    std::uint64_t size = 0;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      size = std::min(size * 10 + static_cast<std::uint64_t>(text_[at_] - '0'),
                      kNpyElementsMax + 1);  // sticks there, whatever follows
    }
    const std::string_view digits = text_.substr(start, at_ - start);
    if (digits.empty() || (digits.size() > 1 && digits[0] == '0')) {
      at_ = start;
      return expected("a size");
    }
    if (size > kNpyElementsMax) {
      return refused(name_, fmt::format("a size of {} in the shape is not accepted (at most 2^40 "
                                        "elements)",
                                        digits.substr(0, 40)));
    }
    return size;
  }

  Checked<std::string_view> parse_string(std::string_view wanted) {
    skip_spaces();
    const char quote = at_ < text_.size() ? text_[at_] : ' ';
    if (quote != '\'' && quote != '"') return expected(wanted);
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) return expected(wanted);
    const std::string_view inside = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return inside;
  }

  void skip_spaces() { at_ = std::min(text_.find_first_not_of(" \t\r\n", at_), text_.size()); }

  bool take(char letter) {
    skip_spaces();
    if (at_ == text_.size() || text_[at_] != letter) return false;
    ++at_;
    return true;
  }

  [[nodiscard]] Problem expected(std::string_view wanted) const {
    const std::string_view rest = text_.substr(at_);
    return malformed(name_, fmt::format("header byte {}: expected {}, found {}", at_, wanted,
                                        rest.empty() ? "the end" : in_quotes(rest)));
  }

  [[nodiscard]] Problem refuse_type(std::string_view shown) const {
    return refused(name_, fmt::format("type {} is not accepted (accepted: '<f4', '<f2', '<f8'; "
                                      "convert with .astype('float32'))",
                                      shown));
  }

  std::string_view text_;
  std::string_view name_;
  std::size_t at_ = 0;
  std::optional<std::string_view> descr_;
  std::optional<bool> fortran_order_;
  std::optional<std::vector<std::uint64_t>> shape_;
};

// The number of elements, or nothing beyond kNpyElementsMax. Each size is at most that.
std::optional<std::uint64_t> count_of(std::span<const std::uint64_t> shape) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  std::uint64_t count = 1;
  for (const std::uint64_t size : shape) {
    if (size > kNpyElementsMax / count) return std::nullopt;
    count *= size;
  }
  return count;
}

struct Prefix {
  std::size_t header_offset;
  std::size_t header_bytes;
};

Checked<Prefix> parse_prefix(std::span<const std::byte> bytes, std::string_view name) {
  const std::string magic = as_text(bytes.first(std::min(bytes.size(), kMagic.size())));
  if (magic != kMagic) {
    return malformed(name, fmt::format("not a .npy file: starts with {} instead of \"\\x93NUMPY\"",
                                       in_quotes(magic)));
  }
  if (bytes.size() < kLengthAt) return malformed(name, "cut off in the version number");
  const auto major = std::to_integer<unsigned>(bytes[kVersionAt]);
  const auto minor = std::to_integer<unsigned>(bytes[kVersionAt + 1]);
  if (major < 1 || major > 3 || minor != 0) {
    return malformed(name, fmt::format("format version {}.{} is not accepted (accepted: 1.0, 2.0, "
                                       "3.0)",
                                       major, minor));
  }
  const std::size_t header_offset = kLengthAt + (major == 1 ? 2 : 4);
  if (bytes.size() < header_offset) return malformed(name, "cut off in the header's length");
  const std::size_t header_bytes = major == 1 ? load_le<std::uint16_t>(bytes, kLengthAt)
                                              : load_le<std::uint32_t>(bytes, kLengthAt);
  if (header_bytes > kNpyHeaderBytesMax) {
    return malformed(name, fmt::format("a header of {} bytes is not accepted (at most {})",
                                       header_bytes, kNpyHeaderBytesMax));
  }
  return Prefix{header_offset, header_bytes};
}

// `start` is the file, or as much of it as can hold a header; the length is that of the whole file
// and must be the one the header promises.
Checked<Header> parse_header(std::span<const std::byte> start, std::uint64_t file_bytes,
                             std::string_view name) {
  SLUICE_TRY_ASSIGN(const Prefix prefix, parse_prefix(start, name));
  const std::span<const std::byte> rest = start.subspan(prefix.header_offset);
  if (rest.size() < prefix.header_bytes) {
    return malformed(name, fmt::format("header cut off: {} bytes are there, {} needed", rest.size(),
                                       prefix.header_bytes));
  }
  const std::string text = as_text(rest.first(prefix.header_bytes));
  SLUICE_TRY_ASSIGN(Header header, DictionaryParser(text, name).parse());
  const std::optional<std::uint64_t> count = count_of(header.shape);
  if (!count) {
    return refused(name, fmt::format("shape {} is not accepted (at most 2^40 elements)",
                                     text_of(header.shape)));
  }
  header.count = *count;
  header.data_offset = prefix.header_offset + prefix.header_bytes;
  const std::uint64_t needed = header.count * header.type.size;
  const std::uint64_t there = file_bytes - header.data_offset;
  if (there != needed) {
    return malformed(name, fmt::format("{}: {} bytes are there, {} needed for shape {} of '{}'",
                                       there < needed ? "data cut off" : "bytes after the data",
                                       there, needed, text_of(header.shape), header.type.descr));
  }
  return header;
}

void decode(ElementType type, std::span<const std::byte> bytes, std::span<float> values) {
  SLUICE_ASSERT(bytes.size() == values.size() * type.size);
  switch (type.size) {
    case 2: floats::scalar::decode(floats::Format::f16, bytes, values); return;
    case 4: std::copy(bytes.begin(), bytes.end(), std::as_writable_bytes(values).begin()); return;
    default: break;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto wide = load_le<double>(bytes, i * sizeof(double));
    values[i] =
        std::isnan(wide) ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(wide);
  }
}

// An open file.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  [[nodiscard]] int number() const { return number_; }

 private:
  int number_;
};

Verdict read_exactly(const Descriptor& file, std::string_view name, std::span<std::byte> into) {
  while (!into.empty()) {
    const ssize_t got = ::read(file.number(), into.data(), into.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_problem(name, "cannot be read", errno);
    if (got == 0) return malformed(name, "became shorter while it was read");
    into = into.subspan(static_cast<std::size_t>(got));
  }
  return Nothing{};
}

std::string header_text(std::span<const std::uint64_t> shape) {
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}",
                                 kFloat32.descr, text_of(shape));
  if (!shape.empty()) {
    text.append(kGrowthDigits - std::min(kGrowthDigits, std::to_string(shape[0]).size()), ' ');
  }
  // One to 64 spaces, never none: so does numpy.save.
  const std::size_t used = kLengthAt + sizeof(std::uint16_t) + text.size() + 1;
  text.append(kWrittenAlignment - used % kWrittenAlignment, ' ');
  return text + '\n';
}

}  // namespace

Checked<Array> parse_npy(std::span<const std::byte> bytes, std::string_view name) {
  const FloatEnvironment environment;
  SLUICE_TRY_ASSIGN(Header header, parse_header(bytes, bytes.size(), name));
  Array array{std::move(header.shape), std::vector<float>(header.count)};
  decode(header.type, bytes.subspan(header.data_offset), array.values);
  return array;
}

Checked<Array> read_npy(const std::string& path) {
  const FloatEnvironment environment;
  // Not blocking, or a named pipe would wait for a writer before it can be refused.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.number() < 0) return system_problem(path, "cannot be opened", errno);
  struct stat status {};
  if (::fstat(file.number(), &status) != 0) return system_problem(path, "cannot be read", errno);
  if (!S_ISREG(status.st_mode)) return refused(path, "not a regular file");
  const auto file_bytes = static_cast<std::uint64_t>(status.st_size);

  std::vector<std::byte> buffer(
      std::min<std::uint64_t>(file_bytes, kPrefixBytesMax + kNpyHeaderBytesMax));
  SLUICE_TRY(read_exactly(file, path, buffer));
  SLUICE_TRY_ASSIGN(Header header, parse_header(buffer, file_bytes, path));
  if (::lseek(file.number(), static_cast<off_t>(header.data_offset), SEEK_SET) < 0) {
    return system_problem(path, "cannot be read", errno);
  }

  Array array{std::move(header.shape), std::vector<float>(header.count)};
  const std::span<float> values(array.values);
  if (header.type.size == sizeof(float)) {
    SLUICE_TRY(read_exactly(file, path, std::as_writable_bytes(values)));
    return array;
  }
  const std::size_t chunk = kChunkBytes / header.type.size;
  buffer.resize(std::min(chunk, values.size()) * header.type.size);
  for (std::size_t at = 0; at < values.size(); at += chunk) {
    const std::span<float> part = values.subspan(at, std::min(chunk, values.size() - at));
    const std::span<std::byte> bytes = std::span(buffer).first(part.size() * header.type.size);
    SLUICE_TRY(read_exactly(file, path, bytes));
    decode(header.type, bytes, part);
  }
  return array;
}

Verdict write_npy(const std::string& path, std::span<const std::uint64_t> shape,
                  std::span<const float> values) {
  if (shape.size() > kNpyDimensionsMax) {
    return refused(path, fmt::format("a shape of {} dimensions is not accepted (at most {})",
                                     shape.size(), kNpyDimensionsMax));
  }
  SLUICE_ASSERT(count_of(shape) == values.size());
  SLUICE_TRY_ASSIGN(OutputFile file, OutputFile::create(path));
  const std::string text = header_text(shape);
  std::vector<std::byte> start(kLengthAt + sizeof(std::uint16_t));
  std::memcpy(start.data(), kMagic.data(), kMagic.size());
  start[kVersionAt] = std::byte{1};
  store_le(start, kLengthAt, static_cast<std::uint16_t>(text.size()));
  file.write(start);
  file.write(text);
  file.write(std::as_bytes(values));
  return file.finish();
}

}  // namespace sluice::cli
