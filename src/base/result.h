// The result types: a value or why there is none. Names follow std::expected so that we can move.
//
//   Result<Frame> receive(Link& link, std::span<std::byte> buffer) {
//     SLUICE_TRY_ASSIGN(const auto bytes, link.receive(buffer));  // declares, or returns the error
//     SLUICE_TRY(check_length(bytes));                            // returns the error, or goes on
//     return parse(buffer.first(bytes));
//   }
//
// There are two kinds of error. `Error` is for the data path: 16 bytes, and never allocates.
// `Problem` is for the edge, where a person reads it: it names the offending value and what would
// be accepted.
//
// All of them are values and belong to one thread at a time. Nothing here is ever thrown.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include "base/assert.h"

namespace sluice {

// Chosen by what the caller should do next.
enum class Code : std::uint8_t {
  ok,
  pending,           // ask again later: nothing is wrong
  malformed,         // bytes from outside do not parse: drop them, count, go on
  mismatch,          // ranks disagree on what they are reducing: stop the job, both sides are named
  timeout,           // somebody is missing: who, the carrier's explain() says
  lost,              // nobody's contribution was counted
  exhausted,         // a bounded resource is full: free something, then repeat
  invalid_argument,  // the user's mistake
  unavailable,       // this build, machine or carrier cannot do it
  io,                // the operating system refused: detail is errno
  out_of_memory,     // an allocation was refused: less, or more memory
};

// The enumerator's own name, or "unknown" for a number that is none. Lives as long as the program.
std::string_view name_of(Code code);

// An error on the data path.
struct Error {
  Code code = Code::ok;
  std::int32_t detail = 0;  // errno, cudaError_t, ncclResult_t, or 0
  const char* what = "";    // a string literal, so nobody owns it; never null

  friend bool operator==(const Error& a, const Error& b) {
    return a.code == b.code && a.detail == b.detail && std::string_view(a.what) == b.what;
  }
};
static_assert(sizeof(Error) == 16, "an error travels in two registers");

// An error at the edge: one clear line that names the value and what is accepted. It allocates, so
// the data path has none.
struct Problem {
  Code code = Code::invalid_argument;
  std::string message;
};

// The value of a Result that has none to give.
struct Nothing {
  friend bool operator==(Nothing, Nothing) { return true; }
};

// Owns either a T or an E, two different types; references into it end with it. Asking for the one
// that is not there is our own bug and asserts, in release builds too. Allocates only what T and E
// allocate.
template <class T, class E = Error>
class [[nodiscard]] Result {
 public:
  // NOLINTBEGIN(google-explicit-constructor): returning a value or an error must read plainly.
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(E error) : state_(std::in_place_index<1>, std::move(error)) {}
  // NOLINTEND(google-explicit-constructor)

  [[nodiscard]] bool has_value() const { return state_.index() == 0; }
  explicit operator bool() const { return has_value(); }

  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(value()); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  [[nodiscard]] T& value() & {
    SLUICE_ASSERT(has_value());
    return *std::get_if<0>(&state_);
  }
  [[nodiscard]] const T& value() const& {
    SLUICE_ASSERT(has_value());
    return *std::get_if<0>(&state_);
  }
  [[nodiscard]] T&& value() && {
    SLUICE_ASSERT(has_value());
    return std::move(*std::get_if<0>(&state_));
  }
  [[nodiscard]] const E& error() const {
    SLUICE_ASSERT(!has_value());
    return *std::get_if<1>(&state_);
  }

 private:
  std::variant<T, E> state_;
};

using Status = Result<Nothing>;  // on the data path: it worked, or why not
template <class T>
using Checked = Result<T, Problem>;  // for the edge
using Verdict = Checked<Nothing>;    // at the edge: it worked, or why not

inline Status ok() { return Nothing{}; }

}  // namespace sluice

#define SLUICE_CONCAT_INNER(a, b) a##b
#define SLUICE_CONCAT(a, b) SLUICE_CONCAT_INNER(a, b)

// Both macros evaluate the expression, a Result, once. On an error the calling function returns it,
// so its own Result has the same kind of error.
#define SLUICE_TRY(expression) \
  do { \
    if (auto sluice_try_result = (expression); !sluice_try_result) \
      return sluice_try_result.error(); \
  } while (false)

// Several statements: on a line of its own, and never the body of an `if` without braces.
#define SLUICE_TRY_ASSIGN(declaration, expression) \
  SLUICE_TRY_ASSIGN_INNER(SLUICE_CONCAT(sluice_try_, __LINE__), declaration, expression)
#define SLUICE_TRY_ASSIGN_INNER(name, declaration, expression) \
  auto name = (expression); \
  if (!name) return name.error(); \
  declaration = *std::move(name)
