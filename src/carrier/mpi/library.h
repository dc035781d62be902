// Open MPI, found at run time: neither building nor starting sluice needs it. The few entry points
// and handles that are used are declared here as the ABI of libmpi.so.40 has them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

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

// The functions of the same names, and handles that are addresses of the library's objects.
struct Library {
  int (*init_thread)(int* argc, char*** argv, int required, int* provided) = nullptr;
  int (*initialized)(int* flag) = nullptr;
  int (*finalize)() = nullptr;
  int (*finalized)(int* flag) = nullptr;
  int (*error_string)(int code, char* text, int* length) = nullptr;
  int (*comm_rank)(Comm comm, int* rank) = nullptr;
  int (*comm_size)(Comm comm, int* size) = nullptr;
  int (*comm_dup)(Comm comm, Comm* made) = nullptr;
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
  bool is_ours = false;  // initialised by us
};

// Loads the library and initialises MPI, once per process; MPI is finalised when the process ends.
// A host program that has initialised MPI by itself also finalises it. Errors say what to install
// or how to start.
Checked<const Library*> start();

// From here on some rank may wait in vain for another: at its end this process waits for the others
// a little, but not until they come.
void give_up();
// Neither given up nor finalised.
bool is_usable(const Library& library);

std::string error_text(const Library& library, int code);

}  // namespace sluice::mpi
