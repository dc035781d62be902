// Structs that may grow: their first member says how large the caller believes them to be.
//
// A caller of an older version hands over fewer bytes and gets as many. A caller of a newer version
// may hand over more: they must be zeros where the library reads, and become zeros where it writes.
//
// All that fails here is Code::invalid_argument, which names the struct, and what is accepted.
// `name` is the argument's.
#pragma once

#include <sluice/device.h>
#include <sluice/sluice.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "base/result.h"

namespace sluice::abi {

// Bytes of each struct when it was new, up to its last member then, which is what is named here.
// They stay when the struct grows: callers that were compiled for it are still served.
template <class T>
inline constexpr std::size_t kFirstSize = 0;
template <>
inline constexpr std::size_t kFirstSize<sluice_options> = offsetof(sluice_options, reserved) +
                                                          sizeof(sluice_options::reserved);
template <>
inline constexpr std::size_t kFirstSize<sluice_traits> = offsetof(sluice_traits, reserved) +
                                                         sizeof(sluice_traits::reserved);
template <>
inline constexpr std::size_t kFirstSize<sluice_stats> = offsetof(sluice_stats, decode_seconds) +
                                                        sizeof(sluice_stats::decode_seconds);
template <>
inline constexpr std::size_t kFirstSize<sluice_order> = offsetof(sluice_order, probe) +
                                                        sizeof(sluice_order::probe);
template <>
inline constexpr std::size_t kFirstSize<sluice_report> = offsetof(sluice_report, decode_seconds) +
                                                         sizeof(sluice_report::decode_seconds);
template <>
inline constexpr std::size_t kFirstSize<sluice_traffic> = offsetof(sluice_traffic,
                                                                   network_seconds) +
                                                          sizeof(sluice_traffic::network_seconds);
template <>
inline constexpr std::size_t kFirstSize<sluice_collectives> = offsetof(sluice_collectives, wait) +
                                                              sizeof(sluice_collectives::wait);
template <>
inline constexpr std::size_t kFirstSize<sluice_event> = offsetof(sluice_event, probe_count) +
                                                        sizeof(sluice_event::probe_count);

template <>
inline constexpr std::size_t kFirstSize<sluice_device_counts> = offsetof(sluice_device_counts,
                                                                         grown) +
                                                                sizeof(sluice_device_counts::grown);

// Where each struct's last member ends. A struct that grows says it here. There may be no bytes
// behind the last member: the member that comes next would start in them, and callers of the
// version before have left anything there.
template <class T>
inline constexpr std::size_t kUsedSize = kFirstSize<T>;
template <>
inline constexpr std::size_t kUsedSize<sluice_options> = offsetof(sluice_options, device) +
                                                         sizeof(sluice_options::device);
template <>
inline constexpr std::size_t kUsedSize<sluice_order> = offsetof(sluice_order, ready) +
                                                       sizeof(sluice_order::ready);
template <>
inline constexpr std::size_t kUsedSize<sluice_event> = offsetof(sluice_event, port) +
                                                       sizeof(sluice_event::port);

// No struct of any version is larger: a size beyond was never set.
inline constexpr std::size_t kStructSizeMax = 4096;

template <class T>
inline constexpr bool kIsSized = kFirstSize<T> != 0 && kFirstSize<T> <= sizeof(T) &&
                                 (kUsedSize<T> == sizeof(T)) && sizeof(T) <= kStructSizeMax;
static_assert(kIsSized<sluice_options> && kIsSized<sluice_traits> && kIsSized<sluice_stats> &&
                  kIsSized<sluice_order> && kIsSized<sluice_report> && kIsSized<sluice_traffic> &&
                  kIsSized<sluice_collectives> && kIsSized<sluice_event> &&
                  kIsSized<sluice_device_counts>,
              "a struct ends with its last member, and kUsedSize says with which");

// Whether the caller's size can be that of some version: `first` bytes to kStructSizeMax.
Verdict check_struct_size(const char* name, std::size_t given, std::size_t first,
                          std::size_t known);
// Whether the bytes behind what this version knows are zeros. The size was checked before.
Verdict check_tail(const char* name, const void* whole, std::size_t given, std::size_t known);

// A struct that the caller filled, with zeros for what its version did not have.
template <class T>
Checked<T> read_sized(const char* name, const T* from) {
  static_assert(kIsSized<T>);
  if (from == nullptr) {
    return Problem{Code::invalid_argument,
                   std::string(name) + " is NULL; accepted: a struct with its size"};
  }
  SLUICE_TRY(check_struct_size(name, from->size, kFirstSize<T>, sizeof(T)));
  SLUICE_TRY(check_tail(name, from, from->size, sizeof(T)));
  T made{};
  std::memcpy(&made, from, std::min(from->size, sizeof(T)));
  return made;
}

// Whether write_sized() can; for functions that do something before they write.
template <class T>
Verdict check_sized(const char* name, const T* into) {
  static_assert(kIsSized<T>);
  if (into == nullptr) {
    return Problem{Code::invalid_argument,
                   std::string(name) + " is NULL; accepted: a struct with its size"};
  }
  return check_struct_size(name, into->size, kFirstSize<T>, sizeof(T));
}

// Fills as many bytes as the caller has; its size stays.
template <class T>
Verdict write_sized(const char* name, const T& from, T* into) {
  SLUICE_TRY(check_sized(name, into));
  const std::size_t size = into->size;
  std::memset(static_cast<void*>(into), 0, size);
  std::memcpy(static_cast<void*>(into), &from, std::min(size, sizeof(T)));
  into->size = size;
  return Nothing{};
}

}  // namespace sluice::abi
