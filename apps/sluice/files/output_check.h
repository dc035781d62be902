// Whether the files a command is told to write are different ones.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace sluice::cli {

// Whether a command writes a file of this name into its folder.
using WritesName = bool (*)(std::string_view name);

struct NamedOutput {
  std::string option;  // such as --json
  std::string path;
  WritesName writes = nullptr;  // of a folder; null: a file
  bool takes_dash = false;      // "-" is standard output; otherwise a file of that name
};

// Code::invalid_argument for an empty name, and for two names of one file, however they are
// spelled. Standard output and standard error are such names, too. Devices and pipes may be named
// twice: what is written to them comes one after the other. As the file system is at this moment.
Verdict check_outputs(std::span<const NamedOutput> outputs);

}  // namespace sluice::cli
