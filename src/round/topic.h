// What an exchange is about, part by part. Ranks that disagree are told in what.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sluice {

// The digest of a ticket stands for all of it; these are for a person.
struct Topic {
  std::uint64_t step = 0;
  std::uint64_t seed = 0;
  std::uint64_t bucket = 0;  // its number
  std::uint64_t tensor = 0;  // id
  std::uint64_t offset = 0;  // of the chunk in the tensor …
  std::uint32_t count = 0;   // … and its coordinates
  std::uint32_t chunk = 0;   // coordinates per chunk, as the user wants them
  std::uint32_t codec = 0;   // of its name and options
};

// "step (worker 0: 3, worker 1: 4), codec or its options"; empty if they are equal. For a log line:
// allocates. Any thread, never fails otherwise.
std::string difference(const Topic& a, std::string_view name_a, const Topic& b,
                       std::string_view name_b);

}  // namespace sluice
