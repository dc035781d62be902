#include "apps/sluice/bench/lossless_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "apps/sluice/process/table.h"

namespace sluice::cli {
namespace {

constexpr std::string_view kMeaning =
    "\n"
    "union      coordinates that any worker has, measured\n"
    "bits       on the wire per coordinate, mean over the workers; × is 32 bits ÷ these\n"
    "bound      the largest reduction that index and values of 32 bits allow; of bound: the\n"
    "           smaller × ÷ bound\n"
    "index, value  bytes that a worker sends, of a step\n"
    "exact      yes: every bit is that of the true mean, rounded once; f32: that of codec f32\n"
    "ms         encode + decode of one worker, one thread; ÷ f32: over that of codec f32; ÷ "
    "reads:\n"
    "           over reading the gradient twice\n\n";

constexpr double kFigureDensity = 0.05;

double count_of(const LosslessRow& row, std::string_view wanted) {
  for (const auto& [name, count] : row.counts) {
    if (name == wanted) return count;
  }
  return 0;
}

double codec_seconds(const LosslessRow& row) { return row.encode_seconds + row.decode_seconds; }

double bits(const LosslessRow& row, double bytes) {
  return 8 * bytes / static_cast<double>(row.options.count);
}

double at(const Bound& bound, const LosslessRow& row) {
  return bound.at(row.union_density, units_of(row));
}
double bound(const LosslessRow& row) { return at(bound_of(row.codec), row); }

std::string exact_text(const LosslessRow& row) {
  if (row.wrong != 0) return "no";
  return row.judged_by_f32 ? "f32" : "yes";
}

std::string factor_text(double factor) {
  return std::isfinite(factor) ? fmt::format("{:.2f}", factor) : "-";
}

std::string amount_text(const LosslessRow& row, std::string_view name) {
  return row.counts.empty() ? "-" : fmt::format("{:.0f}", count_of(row, name));
}

std::vector<std::string> cells_of(const LosslessRow& row) {
  const std::string mode = mode_of(row);
  return {row.codec,
          fmt::format("{}", row.workers),
          std::string(name_of(row.sparsity.overlap)),
          fmt::format("{:.3f} %", 100 * row.union_density),
          fmt::format("{:.3f}", bits(row, row.bytes_up)),
          fmt::format("{:.3f}", bits(row, row.bytes_down)),
          factor_text(reduction(row, row.bytes_up)),
          factor_text(reduction(row, row.bytes_down)),
          factor_text(bound(row)),
          factor_text(reduction(row) / bound(row)),
          amount_text(row, "index_bytes"),
          amount_text(row, "value_bytes"),
          amount_text(row, "stuck_keys"),
          amount_text(row, "exceptions"),
          mode.empty() ? "-" : mode,
          exact_text(row),
          fmt::format("{:.3f}", codec_seconds(row) * 1e3),
          factor_text(codec_seconds(row) / row.dense_seconds),
          factor_text(codec_seconds(row) / (2 * row.read_seconds))};
}

// Of a codec, the row by which its time is told.
const LosslessRow& figure_of(std::span<const LosslessRow> rows, std::string_view codec) {
  const auto distance = [](const LosslessRow& row) {
    return std::fabs(row.sparsity.density - kFigureDensity);
  };
  const LosslessRow* best = nullptr;
  for (const LosslessRow& row : rows) {
    if (row.codec != codec) continue;
    const bool is_better = best == nullptr || distance(row) < distance(*best) ||
                           (distance(row) == distance(*best) && row.workers > best->workers);
    if (is_better) best = &row;
  }
  return *best;
}

std::string figure_text(const LosslessRow& row) {
  const auto rate = [&](double seconds) {
    return static_cast<double>(row.options.count) * sizeof(float) / seconds * 1e-9;
  };
  const std::string mode = mode_of(row);
  return fmt::format(
      "{}{}, union {:.3g} %, {}, {} workers, {} coordinates, one thread: encode {:.3f} ms + decode "
      "{:.3f} ms = {:.2f} × reading the gradient twice (2 × {:.3f} ms: {:.1f} GB/s; memcpy {:.1f} "
      "GB/s)\n",
      row.codec, mode.empty() ? "" : fmt::format(" ({})", mode), 100 * row.union_density,
      name_of(row.sparsity.overlap), row.workers, row.options.count, row.encode_seconds * 1e3,
      row.decode_seconds * 1e3, codec_seconds(row) / (2 * row.read_seconds), row.read_seconds * 1e3,
      rate(row.read_seconds), rate(row.memcpy_seconds));
}

// In the order of the rows, each once.
template <class Get>
auto distinct(std::span<const LosslessRow> rows, Get get) {
  std::vector<decltype(get(rows.front()))> found;
  for (const LosslessRow& row : rows) {
    if (std::find(found.begin(), found.end(), get(row)) == found.end()) found.push_back(get(row));
  }
  return found;
}

std::string codec_name(const LosslessRow& row) { return row.codec; }
Overlap overlap_name(const LosslessRow& row) { return row.sparsity.overlap; }
std::uint32_t workers_of(const LosslessRow& row) { return row.workers; }

constexpr std::array<Bound, 3> kBounds{kEntropyPacked, kBitmapPacked, kBitmapSketch};

Stroke bound_stroke(std::size_t number) {
  Stroke stroke = stroke_of(0, number);
  stroke.colour = "#9a9a9a";
  stroke.width = 1;
  return stroke;
}

void add_bounds(std::span<const LosslessRow> rows, Panel& panel) {
  constexpr int kPoints = 64;
  const auto [low, high] = std::minmax_element(
      rows.begin(), rows.end(),
      [](const LosslessRow& a, const LosslessRow& b) { return a.union_density < b.union_density; });
  if (low->union_density <= 0) return;
  const double span = high->union_density / low->union_density;
  for (std::size_t k = 0; k < kBounds.size(); ++k) {
    Curve curve{fmt::format("bound: {}", kBounds[k].name), bound_stroke(k), false};
    for (int i = 0; i <= kPoints; ++i) {
      const double density = low->union_density * std::pow(span, i / double{kPoints});
      curve.points.emplace_back(100 * density, kBounds[k].at(density, units_of(*low)));
    }
    panel.curves.push_back(std::move(curve));
  }
}

bool is_exact(std::span<const LosslessRow> rows, const std::string& codec) {
  return std::none_of(rows.begin(), rows.end(),
                      [&](const LosslessRow& row) { return row.codec == codec && row.wrong != 0; });
}

std::vector<Key> legend_of(std::span<const LosslessRow> rows, std::span<const std::string> codecs,
                           std::span<const Overlap> overlaps) {
  std::vector<Key> legend{{"codec"}};
  for (std::size_t i = 0; i < codecs.size(); ++i) {
    const std::string_view note = is_exact(rows, codecs[i]) ? "" : " (not exact)";
    legend.push_back({fmt::format("{}{}", codecs[i], note), stroke_of(i, 0)});
  }
  legend.push_back({"supports"});
  for (std::size_t i = 0; i < overlaps.size(); ++i) {
    Stroke stroke = stroke_of(0, i);
    stroke.colour = "#444444";
    legend.push_back({std::string(name_of(overlaps[i])), stroke});
  }
  legend.push_back({"bounds"});
  for (std::size_t i = 0; i < kBounds.size(); ++i) {
    legend.push_back({std::string(kBounds[i].name), bound_stroke(i)});
  }
  return legend;
}

}  // namespace

std::string to_text(std::span<const LosslessRow> rows) {
  std::vector<std::vector<std::string>> cells;
  for (const LosslessRow& row : rows) cells.push_back(cells_of(row));
  std::string text =
      format_table({"codec", "workers", "<overlap", "union", "bits up", "bits down", "× up",
                    "× down", "bound", "of bound", "index B", "value B", "stuck", "exceptions",
                    "<mode", "<exact", "ms", "÷ f32", "÷ reads"},
                   cells);
  text += kMeaning;
  for (const std::string& codec : distinct(rows, codec_name)) {
    text += figure_text(figure_of(rows, codec));
  }
  return text;
}

Json to_json(const LosslessRow& row) {
  Json json;
  json["codec"] = row.codec;
  json["carrier"] = "local";
  json["workers"] = row.workers;
  json["overlap"] = name_of(row.sparsity.overlap);
  json["pattern"] = name_of(row.sparsity.pattern);
  json["count"] = row.options.count;
  json["density"] = row.sparsity.density;
  json["union_density"] = row.union_density;
  json["rounds"] = row.rounds;
  json["wire_bytes_up"] = row.bytes_up;
  json["wire_bytes_down"] = row.bytes_down;
  json["bits_up"] = bits(row, row.bytes_up);
  json["bits_down"] = bits(row, row.bytes_down);
  json["reduction_up"] = number_or_null(reduction(row, row.bytes_up));
  json["reduction_down"] = number_or_null(reduction(row, row.bytes_down));
  json["bound"] = bound_of(row.codec).name;
  json["bound_reduction"] = number_or_null(bound(row));
  json["of_bound"] = number_or_null(reduction(row) / bound(row));
  json["bound_entropy_packed"] = number_or_null(at(kEntropyPacked, row));
  json["bound_bitmap_packed"] = number_or_null(at(kBitmapPacked, row));
  json["bound_bitmap_sketch"] = number_or_null(at(kBitmapSketch, row));
  for (const auto& [name, count] : row.counts) json[std::string(name)] = count;
  json["mode"] = mode_of(row);
  json["exact"] = row.wrong == 0;
  json["judge"] = row.judged_by_f32 ? "f32" : "exact mean";
  json["wrong"] = row.wrong;
  json["encode_seconds"] = row.encode_seconds;
  json["decode_seconds"] = row.decode_seconds;
  json["dense_seconds"] = row.dense_seconds;
  json["read_seconds"] = row.read_seconds;
  json["memcpy_seconds"] = row.memcpy_seconds;
  json["time_per_dense"] = codec_seconds(row) / row.dense_seconds;
  json["time_per_two_reads"] = codec_seconds(row) / (2 * row.read_seconds);
  json["threads"] = 1;
  json["kernel"] = row.kernel;
  json["chunk"] = row.options.chunk;
  json["repetitions"] = row.options.repetitions;
  json["seed"] = row.options.seed;
  return json;
}

LogPlot plot_of(std::span<const LosslessRow> rows) {
  const auto codecs = distinct(rows, codec_name);
  const auto overlaps = distinct(rows, overlap_name);
  LogPlot plot;
  plot.title = fmt::format("Sparse gradients of {} coordinates, pattern {}, on the wire",
                           rows.front().options.count, name_of(rows.front().sparsity.pattern));
  plot.x_label = "coordinates that any worker has, %";
  plot.y_label = "times fewer bytes than dense float32";
  for (const std::uint32_t workers : distinct(rows, workers_of)) {
    Panel panel{fmt::format("{} workers", workers), {}};
    add_bounds(rows, panel);
    for (std::size_t i = 0; i < codecs.size(); ++i) {
      for (std::size_t j = 0; j < overlaps.size(); ++j) {
        Curve curve{fmt::format("{}, {}, {} workers", codecs[i], name_of(overlaps[j]), workers),
                    stroke_of(i, j)};
        for (const LosslessRow& row : rows) {
          if (row.codec != codecs[i] || row.sparsity.overlap != overlaps[j]) continue;
          if (row.workers != workers) continue;
          curve.points.emplace_back(100 * row.union_density, reduction(row));
        }
        std::sort(curve.points.begin(), curve.points.end());
        panel.curves.push_back(std::move(curve));
      }
    }
    plot.panels.push_back(std::move(panel));
  }
  plot.legend = legend_of(rows, codecs, overlaps);
  return plot;
}

}  // namespace sluice::cli
