#include "apps/sluice/bench/allreduce_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/level.h"

namespace sluice::cli {
namespace {

double bytes_of(const AllreduceRow& row) { return static_cast<double>(row.count * sizeof(float)); }

double algbw(const AllreduceRow& row, double seconds) { return bytes_of(row) / seconds * 1e-9; }

// What a ring must carry over every link, for each byte of the operation.
double bus_factor(const AllreduceBench& bench) {
  return 2.0 * (bench.options.workers - 1) / bench.options.workers;
}

double ratio(const AllreduceRow& row) { return 2 * bytes_of(row) / row.wire_bytes; }

std::string_view redop_of(const AllreduceRow& row) { return row.codec == kPlain ? "sum" : "avg"; }

std::string count_or_none(const std::optional<std::uint64_t>& wrong) {
  return wrong ? fmt::format("{}", *wrong) : "N/A";
}

std::string number_or_none(const std::optional<double>& value, std::string_view format) {
  return value ? fmt::format(fmt::runtime(format), *value) : "N/A";
}

std::string way_text(const AllreduceBench& bench, const AllreduceRow& row,
                     const AllreduceWay& way) {
  const double rate = algbw(row, way.seconds);
  // Three digits behind the point: ordinary networks are below 1 GB/s.
  return fmt::format("  {:>10.2f}  {:>7.3f}  {:>7.3f}  {:>6}", way.seconds * 1e6, rate,
                     rate * bus_factor(bench), count_or_none(way.wrong));
}

void way_json(const AllreduceBench& bench, const AllreduceRow& row, const AllreduceWay& way,
              Json& json) {
  const double rate = algbw(row, way.seconds);
  json["time_us"] = way.seconds * 1e6;
  json["algbw_gbps"] = rate;
  json["busbw_gbps"] = rate * bus_factor(bench);
  json["wrong"] = way.wrong ? Json(*way.wrong) : Json(nullptr);
}

constexpr std::string_view kMeaning =
    "# time     of an operation: mean over the iterations, of the slowest process\n"
    "# algbw    size / time; busbw = algbw * 2(n-1)/n. Of a codec both are effective: bytes of\n"
    "#          float32 that were averaged per second, not bytes that travelled\n"
    "# #wrong   coordinates, on the worker that has most: of a codec, whose bits differ from the\n"
    "#          same reduction done in one process in another order, or that are further off than\n"
    "#          the codec promises; of plain, beyond what float32 additions can be off\n"
    "# wire     bytes up + down of worker 0 per operation; ratio = 2 * size / wire\n"
    "# vnmse    error energy / energy of the true mean, of one operation\n"
    "# cpu      seconds of all threads of a process per operation, the most of any process\n"
    "# retransmits  contributions that all workers together sent again, per operation\n"
    "# aggr-cpu seconds of the aggregator's thread per operation, part of cpu; N/A where\n"
    "#          aggregators are other processes, which have sluiced_cpu_seconds_total, or none\n";

}  // namespace

std::string allreduce_header(const AllreduceBench& bench, std::span<const NamedCodec> codecs) {
  const AllreduceOptions& options = bench.options;
  std::vector<std::string_view> specs;
  for (const NamedCodec& codec : codecs) specs.push_back(codec.spec);
  std::string text = fmt::format(
      "# sluice {} bench allreduce: carrier {}, {} workers, codecs {}, kernels {}\n"
      "# minBytes {} maxBytes {} step: {}(factor) warmup iters: {} iters: {} validation: {} "
      "seed: {} feedback: {} chunk: {} window: {}\n#\n",
      SLUICE_VERSION, bench.process->carrier->name, options.workers, fmt::join(specs, " "),
      name_of(kernel_level()), options.bytes_min, options.bytes_max, options.factor, options.warmup,
      options.iterations, options.check ? 1 : 0, options.seed, options.feedback, options.chunk,
      options.window);
  text += kMeaning;
  text += bench.has_plain
              ? fmt::format(
                    "# {:<8} rows are the carrier's own float32 sum; wire is 2 * size by "
                    "definition\n#\n",
                    kPlain)
              : fmt::format(
                    "# {:<8} no rows: carrier {} has no all-reduce of its own{}\n#\n", kPlain,
                    bench.process->carrier->name,
                    bench.process->launched != 0
                        ? ""
                        : "; its workers are threads, which every operation starts");
  text += fmt::format("#{:>11}  {:>12}  {:>8}  {:>6}  {:>6}  {:^36}  {:^36}\n", "", "", "", "", "",
                      "out-of-place", "in-place");
  const auto way = fmt::format("  {:>10}  {:>7}  {:>7}  {:>6}", "time", "algbw", "busbw", "#wrong");
  const auto unit = fmt::format("  {:>10}  {:>7}  {:>7}  {:>6}", "(us)", "(GB/s)", "(GB/s)", "");
  text += fmt::format("#{:>11}  {:>12}  {:>8}  {:>6}  {:>6}{}{}  {:>12}  {:>7}  {:>9}  {:>9}  "
                      "{:>11}  {:>9}  {}\n",
                      "size", "count", "type", "redop", "root", way, way, "wire", "ratio", "vnmse",
                      "cpu", "retransmits", "aggr-cpu", "codec");
  text += fmt::format("#{:>11}  {:>12}  {:>8}  {:>6}  {:>6}{}{}  {:>12}  {:>7}  {:>9}  {:>9}  "
                      "{:>11}  {:>9}\n",
                      "(B)", "(elements)", "", "", "", unit, unit, "(B)", "", "", "(s)", "",
                      "(s)");
  return text;
}

std::string to_text(const AllreduceBench& bench, const AllreduceRow& row) {
  return fmt::format(
      "{:>12}  {:>12}  {:>8}  {:>6}  {:>6}{}{}  {:>12.0f}  {:>7.2f}  {:>9}  "
      "{:>9.3g}  {:>11}  {:>9}  {}\n",
      row.count * sizeof(float), row.count, "float", redop_of(row), -1,
      way_text(bench, row, row.out_of_place), way_text(bench, row, row.in_place), row.wire_bytes,
      ratio(row), number_or_none(row.vnmse, "{:.3g}"), row.cpu_seconds,
      number_or_none(row.retransmits, "{:.2f}"),
      number_or_none(row.aggregator_cpu_seconds, "{:.3g}"), row.codec);
}

std::uint64_t wrong_in_all(std::span<const AllreduceRow> rows) {
  std::uint64_t wrong = 0;
  for (const AllreduceRow& row : rows) {
    wrong += row.out_of_place.wrong.value_or(0) + row.in_place.wrong.value_or(0);
  }
  return wrong;
}

std::string allreduce_footer(const AllreduceBench& bench, std::span<const AllreduceRow> rows) {
  const std::uint64_t wrong = wrong_in_all(rows);
  std::string text = bench.options.check ? fmt::format("# Out of bounds values : {} {}\n", wrong,
                                                       wrong == 0 ? "OK" : "FAILED")
                                         : std::string("# Out of bounds values : N/A (-c 0)\n");
  std::vector<std::string_view> codecs;  // in the order of the rows
  for (const AllreduceRow& row : rows) {
    if (std::find(codecs.begin(), codecs.end(), row.codec) == codecs.end()) {
      codecs.push_back(row.codec);
    }
  }
  for (const std::string_view codec : codecs) {
    double sum = 0;
    double ways = 0;
    for (const AllreduceRow& row : rows) {
      if (row.codec != codec) continue;
      for (const AllreduceWay& way : {row.out_of_place, row.in_place}) {
        sum += algbw(row, way.seconds) * bus_factor(bench);
        ways += 1;
      }
    }
    text += fmt::format("# Avg bus bandwidth    : {:.4g} ({})\n", sum / ways, codec);
  }
  return text + "#\n";
}

Json to_json(const AllreduceBench& bench, const AllreduceRow& row) {
  const AllreduceOptions& options = bench.options;
  Json json;
  json["codec"] = row.codec;
  json["carrier"] = bench.process->carrier->name;
  json["workers"] = options.workers;
  json["size"] = row.count * sizeof(float);
  json["count"] = row.count;
  json["type"] = "float";
  json["redop"] = redop_of(row);
  way_json(bench, row, row.out_of_place, json["out_of_place"]);
  way_json(bench, row, row.in_place, json["in_place"]);
  json["wire_bytes"] = row.wire_bytes;
  json["ratio"] = ratio(row);
  json["vnmse"] = number_or_null(row.vnmse);
  json["cpu_seconds"] = row.cpu_seconds;
  json["retransmits"] = number_or_null(row.retransmits);
  json["aggregator_cpu_seconds"] = number_or_null(row.aggregator_cpu_seconds);
  json["iterations"] = options.iterations;
  json["warmup"] = options.warmup;
  json["seed"] = options.seed;
  json["feedback"] = options.feedback;
  json["chunk"] = options.chunk;
  json["window"] = options.window;
  json["kernel"] = name_of(kernel_level());
  return json;
}

}  // namespace sluice::cli
