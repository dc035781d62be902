#include "apps/sluice/bench/bench_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "apps/sluice/reduce/normal_draws.h"
#include "base/assert.h"
#include "base/bytes.h"

namespace sluice::cli {
namespace {

constexpr std::array<std::string_view, 3> kDense{"uniform", "normal", "layers"};
constexpr std::string_view kSparse = "sparse:";
constexpr std::size_t kShown = 64;  // characters of a value in an error

constexpr std::uint64_t kBlock = 256;
constexpr std::uint64_t kColumns = 1024;
constexpr std::uint64_t kRow = 64;
static_assert(kLayer % kBlock == 0 && kLayer % kColumns == 0 && kLayer % kRow == 0,
              "a period of layers is one of every pattern");

Problem refused(std::string_view option, std::string_view text, std::string_view accepted) {
  return Problem{Code::invalid_argument,
                 fmt::format("{} '{}'; accepted: {}", option, text.substr(0, kShown), accepted)};
}

template <class Choice, std::size_t count>
Checked<Choice> parse_choice(std::string_view option, std::string_view text,
                             const std::array<std::string_view, count>& names) {
  const auto* const found = std::find(names.begin(), names.end(), text);
  if (found == names.end()) return refused(option, text, fmt::to_string(fmt::join(names, ", ")));
  return static_cast<Choice>(found - names.begin());
}

// Everything before the first comma, which is taken off with it.
std::string_view take_word(std::string_view& text) {
  const std::size_t comma = std::min(text.find(','), text.size());
  const std::string_view word = text.substr(0, comma);
  text.remove_prefix(std::min(comma + 1, text.size()));
  return word;
}

std::uint64_t unit_of(Pattern pattern, std::uint64_t coordinate) {
  switch (pattern) {
    case Pattern::random: return coordinate;
    case Pattern::blocks: return coordinate / kBlock;
    case Pattern::columns: return coordinate % kColumns;
    case Pattern::rows: return coordinate / kRow;
  }
  SLUICE_ASSERT(false);
}

// As many as wanted, every set of them equally likely: each is taken with the probability that so
// many of those left are still wanted.
std::vector<bool> select(const RandomStream& stream, std::uint64_t units, std::uint64_t wanted) {
  std::vector<bool> chosen(units);
  for (std::uint64_t unit = 0; unit < units && wanted != 0; ++unit) {
    if (stream.word(unit) * (units - unit) >= wanted << 32) continue;
    chosen[unit] = true;
    --wanted;
  }
  return chosen;
}

// The units of a period that a worker has.
std::vector<bool> support_of(const Sparsity& sparsity, const Maker& maker) {
  const std::uint64_t key = chunk_key(maker.seed, maker.step, 0);
  const RandomStream common(key, Purpose::selection, kShared);
  const std::uint64_t units = unit_count(sparsity.pattern, maker.period);
  const auto all = static_cast<double>(units);
  if (sparsity.overlap == Overlap::independent) {
    // What is rounded down on some workers is rounded up on others, so that few units are not lost
    // on all of them.
    const double each = 1 - std::pow(1 - sparsity.density, 1.0 / maker.workers);
    const double wanted = std::floor(all * each + (maker.rank + 0.5) / maker.workers);
    return select(RandomStream(key, Purpose::selection, maker.rank), units,
                  std::min(units, static_cast<std::uint64_t>(wanted)));
  }
  const auto wanted = static_cast<std::uint64_t>(std::llround(all * sparsity.density));
  std::vector<bool> chosen = select(common, units, std::min(units, wanted));
  if (sparsity.overlap == Overlap::identical) return chosen;
  for (std::uint64_t unit = 0; unit < units; ++unit) {
    if (common.word(units + unit) % maker.workers != maker.rank) chosen[unit] = false;
  }
  return chosen;
}

// What the workers share plus what is each one's own, as in data-parallel training.
class Values {
 public:
  explicit Values(const Maker& maker)
      : own_(chunk_key(maker.seed, maker.step, 0), Purpose::data, maker.rank),
        common_(chunk_key(maker.seed, maker.step, 0), Purpose::data, kShared),
        period_(maker.period) {}

  [[nodiscard]] float uniform_at(std::uint64_t i) const { return 2 * own_.uniform(i) - 1; }
  [[nodiscard]] float normal_at(std::uint64_t i) const {
    return std::sqrt(kSignal) * normal(common_, i % period_) +
           std::sqrt(1 - kSignal) * normal(own_, i);
  }

 private:
  RandomStream own_;
  RandomStream common_;
  std::uint64_t period_;
};

void make_layers(const Values& values, const Maker& maker, std::span<float> into) {
  const RandomStream layers(chunk_key(maker.seed, maker.step, 1), Purpose::data, kShared);
  std::vector<float> scales(divide_up(maker.period, kLayer));
  for (std::size_t i = 0; i < scales.size(); ++i) {
    scales[i] = std::exp2(2 * normal(layers, i));  // log-normal
  }
  for (std::uint64_t i = 0; i < into.size(); ++i) {
    into[i] = values.normal_at(i) * scales[i % maker.period / kLayer];
  }
}

void make_sparse(const Sparsity& sparsity, const Values& values, const Maker& maker,
                 std::span<float> into) {
  const std::vector<bool> support = support_of(sparsity, maker);
  for (std::uint64_t i = 0; i < into.size(); ++i) {
    const bool has = support[unit_of(sparsity.pattern, i % maker.period)];
    into[i] = has ? values.normal_at(i) : 0.0f;
  }
}

}  // namespace

std::string_view name_of(Overlap overlap) { return kOverlaps[static_cast<std::size_t>(overlap)]; }
std::string_view name_of(Pattern pattern) { return kPatterns[static_cast<std::size_t>(pattern)]; }

std::uint64_t unit_count(Pattern pattern, std::uint64_t coordinates) {
  switch (pattern) {
    case Pattern::random: return coordinates;
    case Pattern::blocks: return divide_up(coordinates, kBlock);
    case Pattern::columns: return std::min(coordinates, kColumns);
    case Pattern::rows: return divide_up(coordinates, kRow);
  }
  SLUICE_ASSERT(false);
}

Checked<double> parse_density(std::string_view option, std::string_view text) {
  const bool percent = text.ends_with('%');
  const std::string_view digits = text.substr(0, text.size() - (percent ? 1 : 0));
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const double density = percent ? value / 100 : value;
  // A NaN is in no range.
  if (error != std::errc() || end != digits.data() + digits.size() ||
      !(density > 0 && density <= 1)) {
    return refused(option, text, "more than 0 and up to 1, or more than 0% and up to 100%");
  }
  return density;
}

Checked<Overlap> parse_overlap(std::string_view option, std::string_view text) {
  return parse_choice<Overlap>(option, text, kOverlaps);
}

Checked<Pattern> parse_pattern(std::string_view option, std::string_view text) {
  return parse_choice<Pattern>(option, text, kPatterns);
}

Checked<BenchData> parse_data(std::string_view option, std::string_view text) {
  const auto* const dense = std::find(kDense.begin(), kDense.end(), text);
  if (dense != kDense.end()) return BenchData{static_cast<BenchData::Kind>(dense - kDense.begin())};
  if (!text.starts_with(kSparse)) {
    return refused(option, text,
                   fmt::format("{}, sparse:DENSITY[,OVERLAP[,PATTERN]]", fmt::join(kDense, ", ")));
  }
  std::string_view rest = text.substr(kSparse.size());
  BenchData data{BenchData::Kind::sparse};
  SLUICE_TRY_ASSIGN(data.sparsity.density, parse_density(option, take_word(rest)));
  if (!rest.empty()) {
    SLUICE_TRY_ASSIGN(data.sparsity.overlap, parse_overlap(option, take_word(rest)));
  }
  if (!rest.empty()) {
    SLUICE_TRY_ASSIGN(data.sparsity.pattern, parse_pattern(option, rest));
  }
  return data;
}

std::string to_text(const Sparsity& sparsity) {
  return fmt::format("{}{},{},{}", kSparse, sparsity.density, name_of(sparsity.overlap),
                     name_of(sparsity.pattern));
}

Tensor tensor_of(const BenchData& data, std::uint64_t count) {
  std::uint64_t width = count;
  if (data.kind == BenchData::Kind::sparse) {
    if (data.sparsity.pattern == Pattern::columns) width = kColumns;
    if (data.sparsity.pattern == Pattern::rows) width = kRow;
  }
  if (count % width != 0) width = count;
  return {.id = 0, .rows = count / width, .cols = width};
}

void make_gradient(const BenchData& data, const Maker& maker, std::span<float> into) {
  SLUICE_ASSERT(maker.period != 0 && maker.rank < maker.workers);
  const Values values(maker);
  switch (data.kind) {
    case BenchData::Kind::uniform:
      for (std::uint64_t i = 0; i < into.size(); ++i) into[i] = values.uniform_at(i);
      return;
    case BenchData::Kind::normal:
      for (std::uint64_t i = 0; i < into.size(); ++i) into[i] = values.normal_at(i);
      return;
    case BenchData::Kind::layers: return make_layers(values, maker, into);
    case BenchData::Kind::sparse: return make_sparse(data.sparsity, values, maker, into);
  }
}

}  // namespace sluice::cli
