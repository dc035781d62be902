// Covering sets: few rows in which every allowed pair of values of any two factors occurs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace sluice::support {

using Row = std::vector<std::size_t>;  // per factor: the index of its value

// Whether two values exclude each other; asked with factor_a < factor_b. Value 0 of a factor must
// go with everything but, at most, values that can be left for others.
using Forbidden = std::function<bool(std::size_t factor_a, std::size_t value_a,
                                     std::size_t factor_b, std::size_t value_b)>;

// Every value goes with every other.
inline bool forbid_nothing(std::size_t, std::size_t, std::size_t, std::size_t) { return false; }

// The same arguments give the same rows. Where coverage leaves a choice, value 0 is taken: put the
// cheapest there.
std::vector<Row> covering_rows(std::span<const std::size_t> value_counts,
                               const Forbidden& forbidden);

// Calls each(row) for every allowed row of the whole product, the last factor fastest.
void each_row(std::span<const std::size_t> value_counts, const Forbidden& forbidden,
              const std::function<void(const Row&)>& each);

bool is_allowed(const Row& row, const Forbidden& forbidden);

}  // namespace sluice::support
