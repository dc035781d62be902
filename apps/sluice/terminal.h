// Where the command line writes: results to standard output, complaints and progress to standard
// error.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace sluice::cli {

void print(std::string_view text);
void complain(std::string_view line);

// A line that is rewritten in place on a terminal once the work has taken a second; elsewhere it is
// silent. Ends and clears itself.
class Progress {
 public:
  explicit Progress(std::string what);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void update(std::uint64_t done, std::uint64_t of);

 private:
  std::string what_;
  bool terminal_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace sluice::cli
