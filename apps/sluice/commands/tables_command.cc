// `sluice tables`: what a table of the codec thc holds, costs and fits, or which one to take.
#include <fmt/format.h>

#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <memory>
#include <optional>

#include "apps/sluice/commands/commands.h"
#include "apps/sluice/files/json_file.h"
#include "apps/sluice/process/table.h"
#include "apps/sluice/process/terminal.h"
#include "base/limits.h"
#include "codec/thc/normal_law.h"
#include "codec/thc/table_search.h"
#include "codec/thc/tables.h"

namespace sluice::cli {
namespace {

constexpr std::uint32_t kLaneMax = 24;  // bits of a sum; n·g beyond 2^24 − 1 is refused
constexpr std::uint32_t kLaneWished = 8;
constexpr std::array<std::uint32_t, 4> kLanesShown{8, 10, 12, 16};
constexpr std::array<std::string_view, 2> kShapes{"optimal", "symmetric"};
constexpr std::array<std::string_view, 2> kInputs{"independent", "identical"};

struct Request {
  std::uint64_t bits = 4;
  std::optional<std::uint64_t> g;
  std::optional<std::string> p;
  std::uint64_t workers = 8;
  std::optional<std::uint64_t> lane;
  std::string shape = "optimal";
  std::string inputs = "independent";
  std::string json;
};

Problem invalid(std::string message) { return Problem{Code::invalid_argument, std::move(message)}; }

Verdict check_range(std::string_view name, std::uint64_t value, std::uint64_t from,
                    std::uint64_t to) {
  if (value >= from && value <= to) return Nothing{};
  return invalid(fmt::format("{} {}; accepted: {} to {}", name, value, from, to));
}

template <std::size_t kCount>
Checked<std::size_t> parse_word(std::string_view name, const std::string& word,
                                const std::array<std::string_view, kCount>& accepted) {
  for (std::size_t i = 0; i < kCount; ++i) {
    if (accepted[i] == word) return i;
  }
  return invalid(
      fmt::format("{} '{}'; accepted: {}", name, word.substr(0, 64), fmt::join(accepted, ", ")));
}

std::optional<double> parse_number(std::string_view text) {
  double value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc{} || parsed.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

// A number or a fraction: 0.03125 or 1/32.
Checked<double> parse_mass(const std::string& text) {
  const std::size_t slash = text.find('/');
  const auto number = parse_number(std::string_view(text).substr(0, slash));
  const auto divisor = slash == std::string::npos
                           ? std::optional<double>(1)
                           : parse_number(std::string_view(text).substr(slash + 1));
  const double p = number && divisor ? *number / *divisor : std::nan("");
  if (p >= thc::kMassMin && p <= thc::kMassMax) return p;
  return invalid(fmt::format("--p '{}'; accepted: {} to {}, or a fraction such as 1/32",
                             text.substr(0, 64), thc::kMassMin, thc::kMassMax));
}

// The largest g whose sums over these workers fit so many bits.
std::uint64_t grid_max(std::uint64_t workers, std::uint64_t lane) {
  return std::min<std::uint64_t>(thc::kGridMax, ((std::uint64_t{1} << lane) - 1) / workers);
}

// How many workers' sums fit so many bits.
std::uint64_t workers_max(std::uint32_t g, std::uint32_t lane) {
  return std::min<std::uint64_t>(kWorkersMax, ((std::uint64_t{1} << lane) - 1) / g);
}

Checked<thc::Wish> parse(const Request& request) {
  SLUICE_TRY(check_range("--bits", request.bits, 1, thc::kBitsMax));
  SLUICE_TRY(check_range("--workers", request.workers, 1, kWorkersMax));
  if (request.lane) SLUICE_TRY(check_range("--lane", *request.lane, 1, kLaneMax));
  SLUICE_TRY_ASSIGN(const auto shape, parse_word("--table", request.shape, kShapes));
  SLUICE_TRY_ASSIGN(const auto inputs, parse_word("--inputs", request.inputs, kInputs));
  thc::Wish wish{.bits = static_cast<std::uint32_t>(request.bits),
                 .workers = static_cast<std::uint32_t>(request.workers),
                 .shape = static_cast<thc::Shape>(shape),
                 .inputs = static_cast<thc::Inputs>(inputs)};
  const std::uint64_t g_min = thc::grid_min(wish.bits);
  // A given g needs no width unless one is asked for; a search without one fits bytes.
  const std::uint64_t lane = request.lane.value_or(request.g ? kLaneMax : kLaneWished);
  const std::uint64_t g_max = grid_max(request.workers, lane);
  if (g_max < g_min) {
    return invalid(fmt::format(
        "--lane {} holds no sum of {} workers at {} bits; accepted: {} to {}", lane,
        request.workers, request.bits, std::bit_width(request.workers * g_min), kLaneMax));
  }
  if (request.g) SLUICE_TRY(check_range("--g", *request.g, g_min, g_max));
  wish.g_max = static_cast<std::uint32_t>(g_max);
  if (request.g) wish.g = static_cast<std::uint32_t>(*request.g);
  if (request.p) {
    SLUICE_TRY_ASSIGN(wish.p, parse_mass(*request.p));
  }
  return wish;
}

std::uint32_t lane_of(const thc::Wish& wish, const thc::TableChoice& choice) {
  return static_cast<std::uint32_t>(std::bit_width(std::uint64_t{choice.spec.g} * wish.workers));
}

std::string text_of_mass(double p) {
  const double q = 1 / p;
  return std::fabs(q * 8 - std::round(q * 8)) < 1e-9 * q
             ? fmt::format("1/{}", std::round(q * 8) / 8)
             : fmt::format("{}", p);
}

std::string to_text(const thc::Wish& wish, const thc::TableChoice& choice) {
  const thc::Table& table = choice.table;
  const auto figure = [](double value) { return fmt::format("{:.10f}", value); };
  std::vector<std::pair<std::string, std::string>> pairs{
      {"bits", fmt::format("{}", wish.bits)},
      {"g", fmt::format("{}{}", choice.spec.g, wish.g ? "" : " (best)")},
      {"p", text_of_mass(choice.spec.p) + (wish.p ? "" : " (best)")},
      {"table", fmt::format("{}", fmt::join(table.values, " "))},
      {"clamp point t", figure(table.clamp_point)},
      {"rounding V", figure(table.rounding)},
      {"clamping C", figure(table.clamping)},
      {"V + C", figure(table.rounding + table.clamping)},
      {"workers", fmt::format("{}", wish.workers)},
      {"error, independent inputs",
       figure(thc::expected_error(table, wish.workers, thc::Inputs::independent))},
      {"error, identical inputs",
       figure(thc::expected_error(table, wish.workers, thc::Inputs::identical))},
      {"bits of a sum", fmt::format("{}", lane_of(wish, choice))}};
  for (const std::uint32_t lane : kLanesShown) {
    pairs.emplace_back(fmt::format("workers in {} bits", lane),
                       fmt::format("{}", workers_max(choice.spec.g, lane)));
  }
  return format_pairs(pairs);
}

Json to_json(const thc::Wish& wish, const thc::TableChoice& choice) {
  const thc::Table& table = choice.table;
  Json json;
  json["bits"] = wish.bits;
  json["g"] = choice.spec.g;
  json["p"] = choice.spec.p;
  json["shape"] = kShapes[static_cast<std::size_t>(wish.shape)];
  json["table"] = table.values;
  json["clamp_point"] = table.clamp_point;
  json["rounding"] = table.rounding;
  json["clamping"] = table.clamping;
  json["error"] = table.rounding + table.clamping;
  json["workers"] = wish.workers;
  json["error_independent"] = thc::expected_error(table, wish.workers, thc::Inputs::independent);
  json["error_identical"] = thc::expected_error(table, wish.workers, thc::Inputs::identical);
  json["lane"] = lane_of(wish, choice);
  for (const std::uint32_t lane : kLanesShown) {
    json["workers_max"][fmt::format("{}", lane)] = workers_max(choice.spec.g, lane);
  }
  return json;
}

Verdict run(const Request& request) {
  SLUICE_TRY_ASSIGN(const thc::Wish wish, parse(request));
  const thc::TableChoice choice = thc::best_choice(wish);
  if (request.json != "-") print(to_text(wish, choice));
  return write_json(request.json, to_json(wish, choice));
}

}  // namespace

void add_tables_command(Command& program) {
  Command command = program.add_command(
      "tables", "Tables of the codec thc: their levels, expected error and width, or the best one");
  const auto request = std::make_shared<Request>();
  command.number("--bits", request->bits, "Bits of a code [4]");
  command.number("--g", request->g, "Levels are integers 0 to g [the best that fits]");
  command.text("--p", request->p,
               "Mass that is clamped, both tails together; 1/32 is a number too [the best]");
  command.number("--workers", request->workers, "How many are summed [8]");
  command.number("--lane", request->lane, "Bits a sum may take when g is searched [8]");
  command.text("--table", request->shape, "optimal or symmetric [optimal]");
  command.text("--inputs", request->inputs,
               "What the best is best for: independent or identical [independent]");
  command.output_file_or_stdout("--json", request->json, "Write the figures here (- for stdout)");
  command.footer(
      "Errors are squared errors of the mean over the mean squared norm of the inputs, for\n"
      "coordinates that are normal after rotation, all workers' norms being equal.");
  command.action([request] { return run(*request); });
}

}  // namespace sluice::cli
