#include "tests/support/pairwise.h"

#include <algorithm>

#include "base/assert.h"

namespace sluice::support {
namespace {

constexpr std::size_t kOpen = ~std::size_t{0};  // a factor of a row without a value yet

class Cover {
 public:
  Cover(std::span<const std::size_t> value_counts, const Forbidden& forbidden)
      : value_counts_(value_counts.begin(), value_counts.end()), forbidden_(forbidden) {
    std::size_t at = 0;
    for (const std::size_t count : value_counts_) {
      SLUICE_ASSERT(count > 0);
      offsets_.push_back(at);
      at += count;
    }
    width_ = at;
    covered_.resize(width_ * width_);
  }

  std::vector<Row> rows() {
    std::vector<Row> rows;
    for (Row row = seed(); !row.empty(); row = seed()) {
      fill(row);
      count(row, 1);
      rows.push_back(row);
    }
    for (Row& row : rows) cheapen(row);
    std::erase_if(rows, [this](const Row& row) { return drop_if_redundant(row); });
    return rows;
  }

 private:
  std::uint32_t& times(std::size_t a, std::size_t x, std::size_t b, std::size_t y) {
    return covered_[(offsets_[a] + x) * width_ + offsets_[b] + y];
  }
  [[nodiscard]] bool excludes(std::size_t a, std::size_t x, std::size_t b, std::size_t y) const {
    return a < b ? forbidden_(a, x, b, y) : forbidden_(b, y, a, x);
  }

  // A row with the first pair that is not covered yet; empty when there is none.
  Row seed() {
    for (std::size_t a = 0; a < value_counts_.size(); ++a) {
      for (std::size_t b = a + 1; b < value_counts_.size(); ++b) {
        for (std::size_t x = 0; x < value_counts_[a]; ++x) {
          for (std::size_t y = 0; y < value_counts_[b]; ++y) {
            if (times(a, x, b, y) != 0 || excludes(a, x, b, y)) continue;
            Row row(value_counts_.size(), kOpen);
            row[a] = x;
            row[b] = y;
            return row;
          }
        }
      }
    }
    return {};
  }

  // How many pairs the value would cover first; -1 if the row excludes it.
  int gain(const Row& row, std::size_t factor, std::size_t value) {
    int sum = 0;
    for (std::size_t other = 0; other < row.size(); ++other) {
      if (other == factor || row[other] == kOpen) continue;
      if (excludes(factor, value, other, row[other])) return -1;
      sum += times(factor, value, other, row[other]) == 0 ? 1 : 0;
    }
    return sum;
  }

  void fill(Row& row) {
    for (std::size_t factor = 0; factor < row.size(); ++factor) {
      if (row[factor] != kOpen) continue;
      int best = -1;
      for (std::size_t value = 0; value < value_counts_[factor]; ++value) {
        const int now = gain(row, factor, value);
        if (now <= best) continue;
        best = now;
        row[factor] = value;
      }
      SLUICE_ASSERT(row[factor] != kOpen);  // Nothing goes with the pair: forbid the pair itself.
    }
  }

  void count(const Row& row, std::uint32_t change) {
    for (std::size_t a = 0; a < row.size(); ++a) {
      for (std::size_t b = 0; b < row.size(); ++b) {
        if (a != b) times(a, row[a], b, row[b]) += change;
      }
    }
  }

  // Puts value 0 wherever the other rows cover all that the row's own value does.
  void cheapen(Row& row) {
    for (std::size_t factor = 0; factor < row.size(); ++factor) {
      Row other = row;
      other[factor] = 0;
      if (row[factor] == 0 || !is_allowed(other, forbidden_)) continue;
      bool needed = false;
      for (std::size_t b = 0; b < row.size(); ++b) {
        needed = needed || (b != factor && times(factor, row[factor], b, row[b]) == 1);
      }
      if (needed) continue;
      count(row, ~std::uint32_t{0});
      count(other, 1);
      row = other;
    }
  }

  bool drop_if_redundant(const Row& row) {
    for (std::size_t a = 0; a < row.size(); ++a) {
      for (std::size_t b = a + 1; b < row.size(); ++b) {
        if (times(a, row[a], b, row[b]) == 1) return false;
      }
    }
    count(row, ~std::uint32_t{0});
    return true;
  }

  std::vector<std::size_t> value_counts_;
  const Forbidden& forbidden_;
  std::vector<std::size_t> offsets_;
  std::size_t width_ = 0;
  std::vector<std::uint32_t> covered_;
};

}  // namespace

std::vector<Row> covering_rows(std::span<const std::size_t> value_counts,
                               const Forbidden& forbidden) {
  return Cover(value_counts, forbidden).rows();
}

bool is_allowed(const Row& row, const Forbidden& forbidden) {
  for (std::size_t a = 0; a < row.size(); ++a) {
    for (std::size_t b = a + 1; b < row.size(); ++b) {
      if (forbidden(a, row[a], b, row[b])) return false;
    }
  }
  return true;
}

void each_row(std::span<const std::size_t> value_counts, const Forbidden& forbidden,
              const std::function<void(const Row&)>& each) {
  Row row(value_counts.size(), 0);
  while (true) {
    if (is_allowed(row, forbidden)) each(row);
    std::size_t factor = row.size();
    while (factor > 0 && ++row[factor - 1] == value_counts[factor - 1]) row[--factor] = 0;
    if (factor == 0) return;
  }
}

}  // namespace sluice::support
