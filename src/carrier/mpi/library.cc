#include "carrier/mpi/library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sched.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>

namespace sluice::mpi {
namespace {

constexpr const char* kFile = "libmpi.so.40";
constexpr int kThreadSerialized = 2;        // MPI_THREAD_SERIALIZED
constexpr std::size_t kErrorTextMax = 256;  // MPI_MAX_ERROR_STRING
constexpr std::uintptr_t kInPlace = 1;      // MPI_IN_PLACE

constexpr auto kFarewell = std::chrono::seconds(2);
constexpr auto kForever = std::chrono::hours(24 * 365);

// MPI is one per process whatever we do, so this is too.
std::atomic<bool> given_up{false};

Problem unavailable(std::string message) { return {Code::unavailable, std::move(message)}; }

// Looks up symbols; remembers the first that is missing.
class Symbols {
 public:
  explicit Symbols(void* file) : file_(file) {}

  template <class T>
  void find(T& into, const char* name) {
    void* const symbol = dlsym(file_, name);
    if (symbol == nullptr && missing == nullptr) missing = name;
    into = reinterpret_cast<T>(symbol);
  }

  const char* missing = nullptr;

 private:
  void* file_;
};

Checked<Library> load() {
  // Global: Open MPI's own plug-ins look for its symbols. Never closed: MPI has no second start.
  void* const file = dlopen(kFile, RTLD_NOW | RTLD_GLOBAL);
  if (file == nullptr) {
    return unavailable(fmt::format(
        "mpi: cannot load {} ({}); on Debian: apt-get install libopenmpi3", kFile, dlerror()));
  }
  Library library;
  Symbols symbols(file);
  symbols.find(library.init_thread, "MPI_Init_thread");
  symbols.find(library.initialized, "MPI_Initialized");
  symbols.find(library.finalize, "MPI_Finalize");
  symbols.find(library.finalized, "MPI_Finalized");
  symbols.find(library.error_string, "MPI_Error_string");
  symbols.find(library.comm_rank, "MPI_Comm_rank");
  symbols.find(library.comm_size, "MPI_Comm_size");
  symbols.find(library.comm_dup, "MPI_Comm_dup");
  symbols.find(library.comm_free, "MPI_Comm_free");
  symbols.find(library.comm_set_errhandler, "MPI_Comm_set_errhandler");
  symbols.find(library.isend, "MPI_Isend");
  symbols.find(library.improbe, "MPI_Improbe");
  symbols.find(library.get_count, "MPI_Get_count");
  symbols.find(library.imrecv, "MPI_Imrecv");
  symbols.find(library.test, "MPI_Test");
  symbols.find(library.ibarrier, "MPI_Ibarrier");
  symbols.find(library.allreduce, "MPI_Allreduce");
  symbols.find(library.world, "ompi_mpi_comm_world");
  symbols.find(library.byte, "ompi_mpi_byte");
  symbols.find(library.float32, "ompi_mpi_float");
  symbols.find(library.sum, "ompi_mpi_op_sum");
  symbols.find(library.errors_return, "ompi_mpi_errors_return");
  symbols.find(library.no_request, "ompi_request_null");
  library.in_place = reinterpret_cast<void*>(kInPlace);  // NOLINT(performance-no-int-to-ptr)
  if (symbols.missing != nullptr) {
    return unavailable(
        fmt::format("mpi: {} has no {}: Open MPI 4 is needed", kFile, symbols.missing));
  }
  return library;
}

// Without a launcher Open MPI would start a job of one and, on some machines, a daemon with it.
bool is_launched() {
  for (const char* const name : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK"}) {
    if (std::getenv(name) != nullptr) return true;
  }
  return false;
}

Checked<Library> load_and_start() {
  if (!is_launched()) {
    return unavailable("mpi: this process was not started by mpirun; start it as `mpirun -n N …`");
  }
  Checked<Library> library = load();
  if (!library) return library;
  int running = 0;
  library->initialized(&running);
  if (running == 0) {
    int provided = 0;
    const int code = library->init_thread(nullptr, nullptr, kThreadSerialized, &provided);
    if (code != 0) return unavailable("mpi: MPI_Init_thread: " + error_text(*library, code));
    library->is_ours = true;
    if (provided < kThreadSerialized) {
      return unavailable("mpi: this Open MPI is built without threads (MPI_THREAD_SERIALIZED)");
    }
  }
  library->comm_set_errhandler(library->world, library->errors_return);
  return library;
}

bool is_finalized(const Library& library) {
  int flag = 0;
  library.finalized(&flag);
  return flag != 0;
}

// Waits until every rank is about to end; false if some are not before the deadline.
bool all_leave(const Library& library, std::chrono::steady_clock::time_point deadline) {
  Request request = library.no_request;
  int done = 0;
  int code = library.ibarrier(library.world, &request);
  while (code == 0 && done == 0) {
    code = library.test(&request, &done, nullptr);
    if (done == 0 && std::chrono::steady_clock::now() >= deadline) break;
    sched_yield();
  }
  return done != 0;
}

// mpirun 4.1.4 may crash or hang when one rank ends without MPI_Finalize while another is in it
// (1 of 15 runs; 8 of 15 with MPI_Abort), and did in none of 75 where nobody was in it. So ranks
// finalise only when all of them are about to. One that failed waits for that a little: whom it
// missed may never come, and ending without finalising makes mpirun end those.
void finish(int status, void* /*nothing*/);

const Checked<Library>& process_library() {
  static const Checked<Library> library = load_and_start();
  // After the library's own end is arranged, so before it at exit.
  static const bool arranged =
      library.has_value() && library->is_ours && on_exit(&finish, nullptr) == 0;
  static_cast<void>(arranged);
  return library;
}

void finish(int status, void* /*nothing*/) {
  const Library& library = *process_library();
  if (is_finalized(library)) return;
  const bool failed = given_up || status != 0;
  const auto now = std::chrono::steady_clock::now();
  if (all_leave(library, failed ? now + kFarewell : now + kForever)) library.finalize();
}

}  // namespace

Checked<const Library*> start() {
  const Checked<Library>& library = process_library();
  if (!library) return library.error();
  return &*library;
}

void give_up() { given_up = true; }

bool is_usable(const Library& library) { return !is_finalized(library) && !given_up; }

std::string error_text(const Library& library, int code) {
  std::array<char, kErrorTextMax + 1> text{};
  int length = 0;
  library.error_string(code, text.data(), &length);
  return text.data();
}

}  // namespace sluice::mpi
