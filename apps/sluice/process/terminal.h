// Where the command line writes: results to standard output, complaints and progress to standard
// error. For one thread, but for complain(), which is for any.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace sluice::cli {

// At the start of the process: keep_standard_descriptors(), and a reader that goes away is a failed
// write, not a signal. Files that were asked for are still written.
void prepare_standard_streams();

// Failures are kept for flush_printed().
void print(std::string_view text);
// Writes out what was printed so far. Gives errno of the first failure since the start, or 0.
int flush_printed();

// One line, whatever the text has in it. Failures are not told.
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
