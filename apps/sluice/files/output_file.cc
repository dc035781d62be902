#include "apps/sluice/files/output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "apps/sluice/process/terminal.h"

namespace sluice::cli {
namespace {

constexpr int kTemporaryNamesMax = 100;
constexpr std::size_t kNameBytesMax = 200;  // of 255, with room for what a temporary name adds
constexpr int kLinksMax = 40;               // as the system itself follows
constexpr std::size_t kCollectedMax = std::size_t{1} << 16;

Problem cannot_write(const std::string& path, int error) {
  return Problem{Code::io, fmt::format("{}: cannot be written: {}", path, std::strerror(error))};
}

// The name until the file is whole, in the same folder, so that it can be renamed.
std::string temporary_name(const std::string& target, int attempt) {
  std::filesystem::path stem(target);
  if (stem.filename().string().size() > kNameBytesMax) stem.replace_filename(".sluice");
  return fmt::format("{}.{}.{}.tmp", stem.string(), ::getpid(), attempt);
}

// The folder takes no new file. One that is there may be written all the same.
bool is_of_the_folder(int error) {
  return error == EACCES || error == EPERM || error == EROFS || error == ENAMETOOLONG;
}

// The name cannot be given to another file: something is mounted on it, or it is another user's in
// a folder such as /tmp.
bool is_of_the_name(int error) { return error == EBUSY || error == EACCES || error == EPERM; }

int open_in_place(const std::string& path) {
  return ::open(path.c_str(), O_WRONLY | O_TRUNC | O_NOCTTY | O_CLOEXEC);
}

// False with errno set.
bool copy_bytes(int source, int target) {
  std::vector<std::byte> buffer(kCollectedMax);
  for (;;) {
    const ssize_t got = ::read(source, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return got == 0;
    if (!write_all(target, std::span(buffer).first(static_cast<std::size_t>(got)))) return false;
  }
}

// Into a file that stays the file it is. False with errno set.
bool copy_in_place(const std::string& from, const std::string& into) {
  const int source = ::open(from.c_str(), O_RDONLY | O_CLOEXEC);
  if (source < 0) return false;
  const int target = open_in_place(into);
  const bool is_copied = target >= 0 && copy_bytes(source, target);
  int error = is_copied ? 0 : errno;
  ::close(source);
  if (target >= 0 && ::close(target) != 0 && error == 0) error = errno;
  errno = error;
  return error == 0;
}

}  // namespace

std::optional<int> descriptor_named(const std::string& path) {
  if (path == "/dev/stdin") return STDIN_FILENO;
  if (path == "/dev/stdout") return STDOUT_FILENO;
  if (path == "/dev/stderr") return STDERR_FILENO;
  for (const std::string_view folder : {"/dev/fd/", "/proc/self/fd/"}) {
    if (!path.starts_with(folder)) continue;
    int number = 0;
    const char* const end = path.data() + path.size();
    const auto parsed = std::from_chars(path.data() + folder.size(), end, number);
    if (parsed.ec == std::errc{} && parsed.ptr == end && number >= 0) return number;
  }
  return {};
}

std::string without_links(std::string path) {
  std::error_code error;
  for (int followed = 0; followed < kLinksMax; ++followed) {
    if (!std::filesystem::is_symlink(std::filesystem::symlink_status(path, error))) break;
    const auto target = std::filesystem::read_symlink(path, error);
    if (error) break;
    path = (std::filesystem::path(path).parent_path() / target).string();
  }
  return path;
}

bool write_all(int descriptor, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(descriptor, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(put));
  }
  return true;
}

Checked<OutputFile> OutputFile::append(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (descriptor < 0) return cannot_write(path, errno);
  return OutputFile(path, descriptor);
}

Checked<OutputFile> OutputFile::create(const std::string& path) {
  if (const auto open = descriptor_named(path)) {
    flush_printed();  // goes before; whoever ends the process asks for its failure
    const int descriptor = ::fcntl(*open, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (descriptor < 0) return cannot_write(path, errno);
    return OutputFile(path, descriptor);
  }
  struct stat status {};
  const bool is_there = ::stat(path.c_str(), &status) == 0;
  if (!is_there && errno == ELOOP) return cannot_write(path, ELOOP);
  if (is_there && !S_ISREG(status.st_mode)) {
    const int descriptor = ::open(path.c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC);
    if (descriptor < 0) return cannot_write(path, errno);
    return OutputFile(path, descriptor);
  }
  // A rename would not ask: it needs the folder alone.
  if (is_there && ::faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) != 0) {
    return cannot_write(path, errno);
  }
  return create_beside(path, is_there ? std::optional(status.st_mode & 07777) : std::nullopt);
}

Checked<OutputFile> OutputFile::create_beside(const std::string& path, std::optional<mode_t> mode) {
  const std::string target = without_links(path);
  for (int attempt = 0; attempt < kTemporaryNamesMax; ++attempt) {
    const std::string beside = temporary_name(target, attempt);
    // At no time may anybody read it who could not read the old one.
    const int descriptor =
        ::open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode ? 0600 : 0666);
    if (descriptor >= 0) {
      OutputFile file(path, descriptor);
      file.beside_ = beside;
      file.target_ = target;
      // Where it fails the file system has no modes.
      if (mode) static_cast<void>(::fchmod(descriptor, *mode));
      return file;
    }
    if (errno != EEXIST) break;
  }
  const int error = errno;
  const int descriptor = mode && is_of_the_folder(error) ? open_in_place(path) : -1;
  if (descriptor < 0) return cannot_write(path, error);
  return OutputFile(path, descriptor);
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      beside_(std::exchange(other.beside_, {})),
      target_(std::move(other.target_)),
      collected_(std::move(other.collected_)),
      error_(other.error_) {}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!beside_.empty()) ::unlink(beside_.c_str());
}

// Later calls may overwrite errno.
bool OutputFile::note(bool is_good) {
  if (!is_good && error_ == 0) error_ = errno;
  return is_good;
}

void OutputFile::flush() {
  if (error_ == 0) note(write_all(descriptor_, collected_));
  collected_.clear();
}

void OutputFile::write(std::span<const std::byte> bytes) {
  if (collected_.size() + bytes.size() > kCollectedMax) flush();
  if (bytes.size() <= kCollectedMax) {
    collected_.insert(collected_.end(), bytes.begin(), bytes.end());
  } else if (error_ == 0) {
    note(write_all(descriptor_, bytes));
  }
}

Verdict OutputFile::finish() {
  flush();
  const int descriptor = std::exchange(descriptor_, -1);
  if (!note(::close(descriptor) == 0) || error_ != 0) return cannot_write(path_, error_);
  if (beside_.empty()) return Nothing{};
  if (std::rename(beside_.c_str(), target_.c_str()) == 0) {
    beside_.clear();
    return Nothing{};
  }
  if (!note(is_of_the_name(errno) && copy_in_place(beside_, target_))) {
    return cannot_write(path_, error_);
  }
  return Nothing{};  // the destructor removes the other one
}

Verdict write_file(const std::string& path, std::string_view text) {
  SLUICE_TRY_ASSIGN(OutputFile file, OutputFile::create(path));
  file.write(text);
  return file.finish();
}

}  // namespace sluice::cli
