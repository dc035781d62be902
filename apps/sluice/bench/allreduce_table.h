// The table of `sluice bench allreduce`: nccl-tests' lines and columns first, then ours.
#pragma once

#include <span>
#include <string>

#include "apps/sluice/bench/bench_allreduce.h"
#include "apps/sluice/files/json_file.h"

namespace sluice::cli {

// Lines of comment above the rows: what is measured, what the columns mean.
std::string allreduce_header(const AllreduceBench& bench, std::span<const NamedCodec> codecs);
std::string to_text(const AllreduceBench& bench, const AllreduceRow& row);
// Lines below: wrong coordinates of all rows, and the mean of busbw over the rows of each codec.
std::string allreduce_footer(const AllreduceBench& bench, std::span<const AllreduceRow> rows);

// Wrong coordinates of all rows that were checked.
std::uint64_t wrong_in_all(std::span<const AllreduceRow> rows);

Json to_json(const AllreduceBench& bench, const AllreduceRow& row);

}  // namespace sluice::cli
