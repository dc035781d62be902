#include "carrier/mpi/other_mpi.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>

#include <algorithm>
#include <string_view>
#include <vector>

namespace sluice::mpi {
namespace {

constexpr std::size_t kVersionTextMax = 8192;  // MPI_MAX_LIBRARY_VERSION_STRING, the largest known

int add_name(dl_phdr_info* info, std::size_t /*size*/, void* names) {
  static_cast<std::vector<std::string>*>(names)->emplace_back(info->dlpi_name);
  return 0;
}

// All files of the process; the program itself is the one without a name.
std::vector<std::string> loaded_files() {
  std::vector<std::string> names;
  dl_iterate_phdr(&add_name, &names);
  return names;
}

// The first line; MPI allows to ask before MPI_Init and after MPI_Finalize.
std::string version_of(void* file) {
  using GetVersion = int (*)(char* text, int* length);
  const auto get = reinterpret_cast<GetVersion>(dlsym(file, "PMPI_Get_library_version"));
  if (get == nullptr) return "an MPI without MPI_Get_library_version";
  std::string text(kVersionTextMax, '\0');
  int length = 0;
  get(text.data(), &length);
  std::ranges::replace(text, '\t', ' ');
  return text.substr(0, text.find_first_of(std::string_view("\n\0", 2)));
}

}  // namespace

// By PMPI names: tools that only watch MPI have the others, too.
std::string other_mpi() {
  for (const std::string& name : loaded_files()) {
    void* const file = dlopen(name.empty() ? nullptr : name.c_str(), RTLD_LAZY | RTLD_NOLOAD);
    if (file == nullptr) continue;
    void* const init = dlsym(file, "PMPI_Init");
    const std::string version = init == nullptr ? "Open MPI" : version_of(file);
    dlclose(file);
    if (version.starts_with("Open MPI")) continue;
    Dl_info where{};
    const bool found = dladdr(init, &where) != 0 && where.dli_fname != nullptr;
    return fmt::format("{} ({})", version, found ? where.dli_fname : "of the program");
  }
  return {};
}

}  // namespace sluice::mpi
