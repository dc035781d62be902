// A file that a command writes. Every write is checked: what could not be written ends in a Problem
// that names the file and the system's reason.
//
// A regular file is written beside its place under another name and renamed at the end. So it is
// there whole or not at all, and one that was there before stays on failure. The new file has the
// old one's mode. A file that may not be written is not replaced either. Through a symbolic link
// the link's target is replaced.
//
// Sometimes an old file has to be written in place, and may be left in part. Either its folder
// takes no other file, or its name cannot be given to another (a mount on that very file). Devices,
// pipes and open descriptors (/dev/stdout, /dev/fd/3) are written to as they are.
//
// A file belongs to one thread. Writing may block for as long as the system does.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace sluice::cli {

// The open descriptor that such a name stands for: /dev/stdout, /dev/stderr, /dev/fd/N,
// /proc/self/fd/N.
std::optional<int> descriptor_named(const std::string& path);

// Follows symbolic links, also to what does not exist yet; 40 at most. Never fails.
std::string without_links(std::string path);

// All of it, or false with errno set.
[[nodiscard]] bool write_all(int descriptor, std::span<const std::byte> bytes);

class OutputFile {
 public:
  // To be replaced as a whole by finish(). Both: Code::io where it cannot be opened.
  static Checked<OutputFile> create(const std::string& path);
  // Adds to the file's end, without another name. Makes a file that is not there.
  static Checked<OutputFile> append(const std::string& path);

  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  // Without finish(): leaves nothing but what was there before, or was appended or written in
  // place.
  ~OutputFile();

  // Collects small pieces. After a failure the rest is not written; finish() tells.
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  // Once, at the end: Code::io has the first failure of all writes.
  Verdict finish();

 private:
  OutputFile(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}
  // A regular file; with a mode: there is one, which may be written.
  static Checked<OutputFile> create_beside(const std::string& path, std::optional<mode_t> mode);
  void flush();
  bool note(bool is_good);

  std::string path_;  // as the user has it, for problems
  int descriptor_ = -1;
  std::string beside_;  // the name until the end; empty: none
  std::string target_;  // where it goes then
  std::vector<std::byte> collected_;
  int error_ = 0;  // the first
};

// Writes whole or not at all.
Verdict write_file(const std::string& path, std::string_view text);

}  // namespace sluice::cli
