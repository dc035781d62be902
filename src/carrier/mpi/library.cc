#include "carrier/mpi/library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <optional>

#include "carrier/mpi/launch.h"
#include "carrier/mpi/other_mpi.h"

namespace sluice::mpi {
namespace {

constexpr const char* kFile = "libmpi.so.40";
constexpr int kThreadSingle = 0;            // MPI_THREAD_SINGLE
constexpr int kThreadSerialized = 2;        // MPI_THREAD_SERIALIZED
constexpr int kThreadMultiple = 3;          // MPI_THREAD_MULTIPLE
constexpr std::size_t kErrorTextMax = 256;  // MPI_MAX_ERROR_STRING
constexpr std::uintptr_t kInPlace = 1;      // MPI_IN_PLACE

constexpr auto kFarewell = std::chrono::seconds(2);
constexpr auto kForever = std::chrono::hours(24 * 365);

constexpr const char* kNotLaunched =
    "mpi: this process was not started by mpirun; start it as `mpirun -n N …`";
constexpr const char* kFinalized =
    "mpi: MPI_Finalize has been called in this process; nothing can be averaged after it";
constexpr const char* kSingle =
    "mpi: MPI has MPI_THREAD_SINGLE and this is not the thread that initialised it; needed in "
    "other threads: MPI_THREAD_SERIALIZED or MPI_THREAD_MULTIPLE";
constexpr const char* kFunneled =
    "mpi: MPI has MPI_THREAD_FUNNELED and this is not the thread that initialised it; needed in "
    "other threads: MPI_THREAD_SERIALIZED or MPI_THREAD_MULTIPLE";

std::atomic<bool> given_up{false};

Problem unavailable(std::string message) { return {Code::unavailable, std::move(message)}; }

// Looks up symbols; remembers the first that is missing.
class Symbols {
 public:
  explicit Symbols(void* file) : file_(file) {}

  // The library's own: a program may have one of the same name that is not MPI's.
  template <class T>
  void find_function(T& into, const char* name) {
    put(into, dlsym(file_, name), name);
  }

  // The program's before the library's: a program that names MPI_COMM_WORLD mostly has the object
  // itself, put there by a COPY relocation. MPI then uses that one, and never the library's.
  template <class T>
  void find_object(T& into, const char* name) {
    put(into, dlsym(RTLD_DEFAULT, name), name);
  }

  const char* missing = nullptr;

 private:
  template <class T>
  void put(T& into, void* symbol, const char* name) {
    if (symbol == nullptr && missing == nullptr) missing = name;
    into = reinterpret_cast<T>(symbol);
  }

  void* file_;
};

bool is_loaded() { return dlopen(kFile, RTLD_LAZY | RTLD_NOLOAD) != nullptr; }

Checked<Library> load() {
  if (const std::string other = other_mpi(); !other.empty()) {
    return unavailable(fmt::format("mpi: this process has {}: Open MPI 4 is needed", other));
  }
  // A program that has started MPI by itself may be a job of one, without a launcher.
  if (!is_launched(&std::getenv) && !is_loaded()) return unavailable(kNotLaunched);
  // Global: Open MPI's own plug-ins look for its symbols. Never closed: MPI has no second start.
  void* const file = dlopen(kFile, RTLD_NOW | RTLD_GLOBAL);
  if (file == nullptr) {
    return unavailable(fmt::format(
        "mpi: cannot load {} ({}); on Debian: apt-get install libopenmpi3", kFile, dlerror()));
  }
  Library library;
  Symbols symbols(file);
  symbols.find_function(library.init_thread, "MPI_Init_thread");
  symbols.find_function(library.initialized, "MPI_Initialized");
  symbols.find_function(library.finalize, "MPI_Finalize");
  symbols.find_function(library.finalized, "MPI_Finalized");
  symbols.find_function(library.query_thread, "MPI_Query_thread");
  symbols.find_function(library.is_thread_main, "MPI_Is_thread_main");
  symbols.find_function(library.error_string, "MPI_Error_string");
  symbols.find_function(library.comm_rank, "MPI_Comm_rank");
  symbols.find_function(library.comm_size, "MPI_Comm_size");
  symbols.find_function(library.comm_idup, "MPI_Comm_idup");
  symbols.find_function(library.comm_free, "MPI_Comm_free");
  symbols.find_function(library.comm_set_errhandler, "MPI_Comm_set_errhandler");
  symbols.find_function(library.isend, "MPI_Isend");
  symbols.find_function(library.improbe, "MPI_Improbe");
  symbols.find_function(library.get_count, "MPI_Get_count");
  symbols.find_function(library.imrecv, "MPI_Imrecv");
  symbols.find_function(library.test, "MPI_Test");
  symbols.find_function(library.ibarrier, "MPI_Ibarrier");
  symbols.find_function(library.allreduce, "MPI_Allreduce");
  symbols.find_object(library.world, "ompi_mpi_comm_world");
  symbols.find_object(library.byte, "ompi_mpi_byte");
  symbols.find_object(library.float32, "ompi_mpi_float");
  symbols.find_object(library.sum, "ompi_mpi_op_sum");
  symbols.find_object(library.errors_return, "ompi_mpi_errors_return");
  symbols.find_object(library.no_request, "ompi_request_null");
  library.in_place = reinterpret_cast<void*>(kInPlace);  // NOLINT(performance-no-int-to-ptr)
  if (symbols.missing != nullptr) {
    return unavailable(
        fmt::format("mpi: {} has no {}: Open MPI 4 is needed", kFile, symbols.missing));
  }
  return library;
}

bool is_finalized(const Library& library) {
  int flag = 0;
  library.finalized(&flag);
  return flag != 0;
}

// Whether the request is done before the deadline; MPI's error as Error::detail.
Result<bool> is_done_by(const Library& library, Request* request,
                        std::chrono::steady_clock::time_point deadline) {
  while (true) {
    int done = 0;
    if (const int code = library.test(request, &done, nullptr); code != 0) {
      return Error{Code::io, code, "mpi: a request failed"};
    }
    if (done != 0) return true;
    if (std::chrono::steady_clock::now() >= deadline) return false;
    sched_yield();
  }
}

// Waits until every rank is about to end; false if some are not before the deadline.
bool all_leave(const Library& library, std::chrono::steady_clock::time_point deadline) {
  Request request = library.no_request;
  if (library.ibarrier(library.own, &request) != 0) return false;
  const Result<bool> done = is_done_by(library, &request, deadline);
  return done && *done;
}

// A communicator in the making.
struct Copy {
  Comm comm = nullptr;
  Request request = nullptr;
};

// MPI is one per process whatever we do, so this is too.
struct Process {
  std::mutex mutex;
  bool has_library = false;
  Library library;
  std::unique_ptr<Copy> own;       // until all ranks have come
  std::optional<Problem> failure;  // after which nothing can be started
  pid_t pid = 0;                   // of who initialised MPI, unless the program did
};

Process& this_process() {
  // Never destroyed: finish() is later than the destructors of statics may be.
  static Process& process = *std::make_unique<Process>().release();
  return process;
}

// mpirun 4.1.4 may crash or hang when one rank ends without MPI_Finalize while another is in it
// (1 of 15 runs; 8 of 15 with MPI_Abort), and did in none of 75 where nobody was in it. So ranks
// finalise only when all of them are about to. One that failed waits for that a little: whom it
// missed may never come, and ending without finalising makes mpirun end those.
void finish(int status, void* /*nothing*/) {
  if (this_process().pid != getpid()) return;  // A forked child has no part in the job.
  const Library& library = this_process().library;
  if (library.own == nullptr || !may_call(library)) return;
  const bool failed = given_up || status != 0;
  const auto now = std::chrono::steady_clock::now();
  if (all_leave(library, failed ? now + kFarewell : now + kForever)) library.finalize();
}

// A program that closes this library again still calls finish() at its end.
void stay_loaded() {
  Dl_info self{};
  if (dladdr(reinterpret_cast<void*>(&finish), &self) == 0) return;
  dlopen(self.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

Verdict initialise(Process& process) {
  Library& library = process.library;
  if (is_finalized(library)) return unavailable(kFinalized);
  int running = 0;
  library.initialized(&running);
  if (running == 0) {
    if (!is_launched(&std::getenv)) return unavailable(kNotLaunched);
    // So that several threads can each have a world.
    int provided = 0;
    const int code = library.init_thread(nullptr, nullptr, kThreadMultiple, &provided);
    if (code != 0) return unavailable("mpi: MPI_Init_thread: " + error_text(library, code));
    process.pid = getpid();
    stay_loaded();
    on_exit(&finish, nullptr);
  }
  library.query_thread(&library.level);
  return Nothing{};
}

void close_locked(Process& process, const Problem& why) {
  give_up();
  process.failure = why;
}

Verdict start_locked(Process& process) {
  if (process.failure) return *process.failure;
  if (!process.has_library) {
    SLUICE_TRY_ASSIGN(process.library, load());
    process.has_library = true;
  }
  const Library& library = process.library;
  if (library.own == nullptr) SLUICE_TRY(initialise(process));
  if (const Status allowed = may_call(library); !allowed) return unavailable(allowed.error().what);
  return Nothing{};
}

Problem failed_copy(const Library& library, int code) {
  return Problem{Code::io, "mpi: MPI_Comm_idup: " + error_text(library, code)};
}

Checked<std::unique_ptr<Copy>> begin_copy(const Library& library, Comm from) {
  auto copy = std::make_unique<Copy>();
  const int code = library.comm_idup(from, &copy->comm, &copy->request);
  if (code != 0) return failed_copy(library, code);
  return copy;
}

// Code::timeout: not all ranks have begun it.
Checked<Comm> end_copy(const Library& library, Copy& copy, std::chrono::nanoseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  const Result<bool> done = is_done_by(library, &copy.request, deadline);
  if (done && !*done) {
    return Problem{Code::timeout,
                   fmt::format("mpi: not all workers came to make a world within {} s",
                               std::chrono::duration<double>(timeout).count())};
  }
  const int code =
      done ? library.comm_set_errhandler(copy.comm, library.errors_return) : done.error().detail;
  if (code != 0) return failed_copy(library, code);
  return copy.comm;
}

}  // namespace

Checked<const Library*> start() {
  Process& process = this_process();
  const std::lock_guard lock(process.mutex);
  SLUICE_TRY(start_locked(process));
  return &process.library;
}

Checked<const Library*> start_together(std::chrono::nanoseconds timeout) {
  Process& process = this_process();
  const std::lock_guard lock(process.mutex);
  SLUICE_TRY(start_locked(process));
  Library& library = process.library;
  if (library.own != nullptr) return &library;
  if (process.own == nullptr) {
    SLUICE_TRY_ASSIGN(process.own, begin_copy(library, library.world));
  }
  const Checked<Comm> made = end_copy(library, *process.own, timeout);
  if (!made && made.error().code != Code::timeout) close_locked(process, made.error());
  if (!made) return made.error();
  library.own = *made;
  process.own.reset();
  return &library;
}

void close(const Problem& why) {
  Process& process = this_process();
  const std::lock_guard lock(process.mutex);
  close_locked(process, why);
}

Checked<Comm> duplicate(const Library& library, Comm from, std::chrono::nanoseconds timeout) {
  SLUICE_TRY_ASSIGN(auto copy, begin_copy(library, from));
  Checked<Comm> made = end_copy(library, *copy, timeout);
  if (!made) keep(std::move(copy));
  return made;
}

void give_up() { given_up = true; }

bool has_given_up() { return given_up; }

Status may_call(const Library& library) {
  if (is_finalized(library)) return Error{Code::unavailable, 0, kFinalized};
  if (library.level >= kThreadSerialized) return ok();
  int is_main = 0;
  library.is_thread_main(&is_main);
  if (is_main != 0) return ok();
  return Error{Code::unavailable, 0, library.level == kThreadSingle ? kSingle : kFunneled};
}

std::string error_text(const Library& library, int code) {
  if (is_finalized(library)) return fmt::format("error {}", code);
  std::array<char, kErrorTextMax + 1> text{};
  int length = 0;
  library.error_string(code, text.data(), &length);
  return text.data();
}

}  // namespace sluice::mpi
