// Open MPI, found at run time: neither building nor starting sluice needs it. The few entry points
// and handles that are used are declared here as the ABI of libmpi.so.40 has them.
//
// MPI is one per process, and so is what start() gives: it stays until the process ends. Functions
// below may be called by any thread that may_call() MPI.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace sluice::mpi {

using Comm = struct OpaqueComm*;
using Datatype = struct OpaqueDatatype*;
using Operation = struct OpaqueOperation*;
using Request = struct OpaqueRequest*;
using Message = struct OpaqueMessage*;
using ErrorHandler = struct OpaqueErrorHandler*;

// MPI_Status.
struct Envelope {
  int source = 0;
  int tag = 0;
  int error = 0;
  int cancelled = 0;
  std::size_t size = 0;
};
static_assert(sizeof(Envelope) == 24, "the layout of Open MPI's MPI_Status");

inline constexpr int kAnySource = -1;

// The functions of the same names, and handles that are addresses of MPI's objects. Functions give
// MPI's code, 0 where all is well.
struct Library {
  int (*init_thread)(int* argc, char*** argv, int required, int* provided) = nullptr;
  int (*initialized)(int* flag) = nullptr;
  int (*finalize)() = nullptr;
  int (*finalized)(int* flag) = nullptr;
  int (*query_thread)(int* level) = nullptr;
  int (*is_thread_main)(int* flag) = nullptr;
  int (*error_string)(int code, char* text, int* length) = nullptr;
  int (*comm_rank)(Comm comm, int* rank) = nullptr;
  int (*comm_size)(Comm comm, int* size) = nullptr;
  int (*comm_idup)(Comm comm, Comm* made, Request* request) = nullptr;
  int (*comm_free)(Comm* comm) = nullptr;
  int (*comm_set_errhandler)(Comm comm, ErrorHandler handler) = nullptr;
  int (*isend)(const void* from, int count, Datatype type, int target, int tag, Comm comm,
               Request* request) = nullptr;
  int (*improbe)(int source, int tag, Comm comm, int* flag, Message* message,
                 Envelope* envelope) = nullptr;
  int (*get_count)(const Envelope* envelope, Datatype type, int* count) = nullptr;
  int (*imrecv)(void* into, int count, Datatype type, Message* message, Request* request) = nullptr;
  int (*test)(Request* request, int* flag, Envelope* envelope) = nullptr;
  int (*ibarrier)(Comm comm, Request* request) = nullptr;
  int (*allreduce)(const void* from, void* into, int count, Datatype type, Operation operation,
                   Comm comm) = nullptr;

  Comm world = nullptr;
  Datatype byte = nullptr;
  Datatype float32 = nullptr;
  Operation sum = nullptr;
  ErrorHandler errors_return = nullptr;
  Request no_request = nullptr;

  void* in_place = nullptr;

  int level = 0;  // of threads, as MPI_Query_thread says
  // All ranks, as `world` has them; null before start_together(). Errors in it are returned. The
  // world belongs to the program: its error handler stays, and none of our messages travel in it.
  Comm own = nullptr;
};

// Keeps what MPI may still read or write until the very end of the process, after the destructors
// of statics. Any thread. Never fails.
template <class T>
void keep(std::unique_ptr<T> thing) noexcept {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  try {
    // Never read and never freed.
    static std::vector<std::unique_ptr<T>>& kept =
        *std::make_unique<std::vector<std::unique_ptr<T>>>().release();
    kept.push_back(std::move(thing));
  } catch (const std::bad_alloc&) {
    static_cast<void>(thing.release());
  }
}

// Loads the library and initialises MPI unless the program has, once per process. What we
// initialise is finalised when the process ends. Code::unavailable says what to install or how to
// start.
Checked<const Library*> start();
// The same, and makes `own`, once per process; all ranks call it. Code::timeout: not all ranks came
// yet; the next call goes on waiting. After any other error nothing can be started any more.
Checked<const Library*> start_together(std::chrono::nanoseconds timeout);
// Gives up for good, because ranks are no longer all at the same call: every later start() has this
// error.
void close(const Problem& why);

// A communicator with the ranks of `from` that returns its errors. All ranks ask for it, in the
// same order. Code::timeout: not all of them did; the communicator is then lost. Code::io: MPI's
// error.
Checked<Comm> duplicate(const Library& library, Comm from, std::chrono::nanoseconds timeout);

// From here on some rank may wait in vain for another: at its end this process waits for the others
// a little, but not until they come.
void give_up();
bool has_given_up();

// Whether this thread may call MPI, which aborts the job otherwise. Code::unavailable: MPI is
// finalised, or the program has initialised it for another thread alone.
Status may_call(const Library& library);

// MPI's words for a code that a function gave. Allocates.
std::string error_text(const Library& library, int code);

}  // namespace sluice::mpi
