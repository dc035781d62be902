#include "device/cuda_library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <utility>

namespace sluice::device {
namespace {

constexpr const char* kDriver = "libcuda.so.1";
constexpr const char* kLibrary = "libsluice_cuda.so";
constexpr const char* kEntry = "sluice_cuda_table";
constexpr const char* kVariable = "SLUICE_CUDA_LIBRARY";
constexpr const char* kEmulated = "emulated";
constexpr int kVersionMin = 13000;  // as cuDriverGetVersion counts
constexpr const char* kAccepted = "accepted: NVIDIA driver 580 or newer, which supports CUDA 13";

Problem unavailable(std::string message) { return {Code::unavailable, std::move(message)}; }

// The file beside the one that this code is in, a library or a program; "" where that is unknown.
std::string beside() {
  Dl_info self{};
  if (dladdr(reinterpret_cast<void*>(&beside), &self) == 0 || self.dli_fname == nullptr) return "";
  const std::string_view file = self.dli_fname;
  const std::size_t slash = file.rfind('/');
  // A program that was found by PATH. The folder in which it was started is not its own.
  if (slash == std::string_view::npos) return "";
  return std::string(file.substr(0, slash + 1)) + kLibrary;
}

}  // namespace

Verdict check_driver_version(int version) {
  if (version >= kVersionMin) return Nothing{};
  return unavailable(fmt::format("gpu: the driver supports CUDA {}.{}; {}", version / 1000,
                                 version % 1000 / 10, kAccepted));
}

Verdict check_driver(const char* file) {
  // Never closed: the library uses it.
  void* const driver = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (driver == nullptr) {
    return unavailable(fmt::format("gpu: no driver: {}; {}", dlerror(), kAccepted));
  }
  using GetVersion = int (*)(int* version);
  const auto get_version = reinterpret_cast<GetVersion>(dlsym(driver, "cuDriverGetVersion"));
  if (get_version == nullptr) {
    return unavailable(fmt::format("gpu: {} has no cuDriverGetVersion; {}", file, kAccepted));
  }
  int version = 0;
  if (const int code = get_version(&version); code != 0) {
    return unavailable(
        fmt::format("gpu: {}: cuDriverGetVersion gives error {}; {}", file, code, kAccepted));
  }
  return check_driver_version(version);
}

Checked<const Table*> open_cuda_library(const std::string& file) {
  void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);  // never closed
  if (library == nullptr) {
    return unavailable(
        fmt::format("gpu: cannot load {}: {}; accepted: the {} of this version of "
                    "Sluice, beside libsluice.so or named by {}. A build makes it "
                    "where nvcc of CUDA 13 is",
                    file, dlerror(), kLibrary, kVariable));
  }
  using GetTable = const Table* (*)();
  const auto get_table = reinterpret_cast<GetTable>(dlsym(library, kEntry));
  if (get_table == nullptr) {
    return unavailable(fmt::format("gpu: {} has no {}; accepted: a {}", file, kEntry, kLibrary));
  }
  return get_table();
}

Checked<const Table*> check_table(const Table* table, const std::string& file) {
  if (table == nullptr) return unavailable(fmt::format("gpu: {} has no table", file));
  if (table->version != kTableVersion) {
    return unavailable(
        fmt::format("gpu: {} has a table of version {}; accepted: {}, as this "
                    "version of Sluice has it",
                    file, table->version, kTableVersion));
  }
  int devices = 0;
  if (const int error = table->count(&devices); error != 0) {
    return unavailable(fmt::format("gpu: {} cannot count devices: {} (error {})", file,
                                   table->describe(error), error));
  }
  if (devices < 1) {
    return unavailable(
        fmt::format("gpu: {} finds {} devices; accepted: one at least", file, devices));
  }
  return table;
}

Checked<const Table*> load_cuda(const Environment& environment) {
  const char* const chosen = environment(kVariable);
  const bool is_chosen = chosen != nullptr && *chosen != '\0';
  if (is_chosen && std::string_view(chosen) == kEmulated) return &emulated();
  SLUICE_TRY(check_driver(kDriver));
  std::string file = is_chosen ? chosen : beside();
  if (!is_chosen && (file.empty() || access(file.c_str(), F_OK) != 0)) file = kLibrary;
  SLUICE_TRY_ASSIGN(const Table* const table, open_cuda_library(file));
  return check_table(table, file);
}

Checked<const Table*> cuda() {
  // Never destroyed: threads may still ask while the process ends.
  static const auto& loaded =
      *std::make_unique<Checked<const Table*>>(load_cuda(&std::getenv)).release();
  return loaded;
}

}  // namespace sluice::device
