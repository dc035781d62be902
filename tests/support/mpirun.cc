#include "tests/support/mpirun.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>

namespace sluice::support {
namespace {

constexpr int kSeconds = 120;  // never reached: a job that takes this long hangs

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SLUICE_TEST_THREAD_SANITIZER 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define SLUICE_TEST_THREAD_SANITIZER 1
#endif

std::string this_program() {
  std::array<char, 4096> path{};
  const ssize_t size = readlink("/proc/self/exe", path.data(), path.size() - 1);
  return size > 0 ? std::string(path.data(), static_cast<std::size_t>(size)) : std::string();
}

}  // namespace

bool is_rank() { return std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr; }

std::string why_no_ranks() {
#if defined(SLUICE_TEST_THREAD_SANITIZER)
  return "Open MPI's own threads are not built for the thread sanitizer";
#else
  if (std::system("command -v mpirun >/dev/null 2>&1") == 0) return "";
  return "mpirun is not installed";
#endif
}

Ranks run_ranks(std::uint32_t ranks, const std::string& filter) {
  // Open MPI keeps memory until the end, which a leak checker takes for lost. Isolated, it needs no
  // ssh; without the copy between processes, no rights that containers do not have. Who runs this
  // test in shards wants the ranks whole.
  const std::string command = fmt::format(
      "env -u GTEST_TOTAL_SHARDS -u GTEST_SHARD_INDEX "
      "ASAN_OPTIONS=detect_leaks=0 OMPI_MCA_plm=isolated "
      "OMPI_MCA_btl_vader_single_copy_mechanism=none mpirun "
      "--allow-run-as-root --oversubscribe --timeout {} -n {} '{}' --gtest_brief=1 "
      "--gtest_color=no '--gtest_filter={}' 2>&1",
      kSeconds, ranks, this_program(), filter);
  Ranks done{false, command + "\n"};
  std::FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return done;
  std::array<char, 4096> extent{};
  for (std::size_t size = 1; size != 0;) {
    size = std::fread(extent.data(), 1, extent.size(), pipe);
    done.output.append(extent.data(), size);
  }
  const bool ended_well = pclose(pipe) == 0;
  done.succeeded = ended_well && done.output.find("] 0 tests from") == std::string::npos;
  return done;
}

}  // namespace sluice::support
