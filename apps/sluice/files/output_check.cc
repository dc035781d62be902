#include "apps/sluice/files/output_check.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "apps/sluice/files/output_file.h"

namespace sluice::cli {
namespace {

namespace fs = std::filesystem;

// What a path leads to: a file by its number, or a name that is free in a folder.
struct Place {
  dev_t device = 0;
  ino_t number = 0;        // of the file, or of the folder that would have it
  std::string name = {};   // that is free there; empty: the file exists
  bool is_shared = false;  // a device or a pipe

  friend bool operator==(const Place& a, const Place& b) {
    return a.device == b.device && a.number == b.number && a.name == b.name;
  }
};

Place place_of(const struct stat& status) {
  return {status.st_dev, status.st_ino, "", !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)};
}

Place place_of(const std::string& path) {
  struct stat status {};
  if (const auto open = descriptor_named(path)) {
    return ::fstat(*open, &status) == 0 ? place_of(status) : Place{0, 0, "", true};
  }
  if (::stat(path.c_str(), &status) == 0) return place_of(status);
  std::error_code error;
  const fs::path target =
      fs::weakly_canonical(fs::absolute(without_links(path), error), error).lexically_normal();
  const fs::path folder = target.parent_path();
  if (::stat(folder.c_str(), &status) != 0) return {0, 0, target.string()};
  return {status.st_dev, status.st_ino, target.filename().string()};
}

bool is_printed(const NamedOutput& output) { return output.takes_dash && output.path == "-"; }

Problem refused(const NamedOutput& a, const std::string& b) {
  return Problem{Code::invalid_argument,
                 fmt::format("{} {} and {} are the same file; accepted: a file for each", a.option,
                             a.path, b)};
}

// Of a file in a folder that is written, too, under a name the command uses there.
bool is_in(const NamedOutput& file, const NamedOutput& folder) {
  if (folder.writes == nullptr || file.writes != nullptr || descriptor_named(file.path)) {
    return false;
  }
  const fs::path target = without_links(file.path);
  const fs::path parent = target.parent_path();
  return folder.writes(target.filename().string()) &&
         place_of(parent.empty() ? "." : parent.string()) == place_of(folder.path);
}

Verdict check_pair(const NamedOutput& a, const NamedOutput& b) {
  const Place first = place_of(a.path);
  const Place second = place_of(b.path);
  if (first == second && !first.is_shared)
    return refused(a, fmt::format("{} {}", b.option, b.path));
  for (const auto& [file, folder] : {std::pair(&a, &b), std::pair(&b, &a)}) {
    if (!is_in(*file, *folder)) continue;
    return Problem{Code::invalid_argument,
                   fmt::format("{} {} is a file that {} {} writes; accepted: another name",
                               file->option, file->path, folder->option, folder->path)};
  }
  return Nothing{};
}

// A file that is replaced while printed text still goes to the old one would lose the text.
Verdict check_against_streams(const NamedOutput& output) {
  if (descriptor_named(output.path)) return Nothing{};
  const Place place = place_of(output.path);
  for (const auto& [number, name] :
       {std::pair(STDOUT_FILENO, "standard output"), std::pair(STDERR_FILENO, "standard error")}) {
    struct stat status {};
    if (::fstat(number, &status) != 0 || !S_ISREG(status.st_mode)) continue;
    if (place == place_of(status)) return refused(output, name);
  }
  return Nothing{};
}

}  // namespace

Verdict check_outputs(std::span<const NamedOutput> outputs) {
  for (const NamedOutput& output : outputs) {
    if (!output.path.empty()) continue;
    return Problem{Code::invalid_argument,
                   fmt::format("{} '' names nothing; accepted: {}", output.option,
                               output.writes == nullptr ? "a file" : "a folder")};
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (is_printed(outputs[i])) continue;
    SLUICE_TRY(check_against_streams(outputs[i]));
    for (const NamedOutput& other : outputs.subspan(i + 1)) {
      if (!is_printed(other)) SLUICE_TRY(check_pair(outputs[i], other));
    }
  }
  return Nothing{};
}

}  // namespace sluice::cli
