// The rows of `sluice bench lossless` for people, for programs and as a plot.
#pragma once

#include <span>
#include <string>

#include "apps/sluice/bench/bench_lossless.h"
#include "apps/sluice/bench/log_plot.h"
#include "apps/sluice/files/json_file.h"

namespace sluice::cli {

// A table and what its columns mean. Then a line for each codec: the time of the row of most
// workers whose union is nearest to 5 %.
std::string to_text(std::span<const LosslessRow> rows);

Json to_json(const LosslessRow& row);

// Reduction over the union's density: a panel for each number of workers, a curve for each codec
// and overlap, and the bounds.
LogPlot plot_of(std::span<const LosslessRow> rows);

}  // namespace sluice::cli
