// Breadth-first search through all that can happen in a world of a model, and backward from its
// ends.
//
// A world has a state to start() from and says is_end() of a state. It lists the actions in a
// state, act()s one out, and describes what happened. Its transfer(state, field) calls field(value,
// bytes) for all that makes a state, to write the values or to set them. kPackedSizeMax bytes, in
// whole words, hold every state of every world of its kind. A world has no state of its own: the
// same action in the same state always gives the same. One thread. Memory grows with the states;
// may throw bad_alloc.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "sim/model.h"
#include "sim/model_traffic.h"

namespace sluice::sim {

// Packed states, each once, numbered in the order they came. Less than 2^32 of them.
class Explored {
 public:
  explicit Explored(std::size_t packed_size) : size_(packed_size), table_(std::size_t{1} << 16) {}

  std::uint32_t count() const { return count_; }
  // An index is below count(). Valid until the next insert().
  const std::uint8_t* at(std::uint32_t index) const { return bytes_.data() + index * size_; }
  bool is_at(std::uint32_t index, const std::uint8_t* packed) const {
    return std::memcmp(at(index), packed, size_) == 0;
  }

  // The number of the state, which is the count before where the state was not there.
  template <std::size_t n>
  std::uint32_t insert(const std::array<std::uint8_t, n>& packed) {
    if (std::size_t{count_} * 2 >= table_.size()) grow();
    std::uint32_t& place = table_[find(packed.data())];
    if (place != 0) return place - 1;
    bytes_.insert(bytes_.end(), packed.data(), packed.data() + size_);
    place = ++count_;
    return count_ - 1;
  }

 private:
  std::uint64_t hash(const std::uint8_t* packed) const {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < size_; i += 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, packed + i, sizeof word);
      value = (value ^ word) * 0x9E3779B97F4A7C15;  // 2^64 over the golden ratio, as Knuth has it
      value ^= value >> 32;
    }
    return value;
  }

  // Where in the table the state is or belongs.
  std::size_t find(const std::uint8_t* packed) const {
    std::size_t place = hash(packed) & (table_.size() - 1);
    while (table_[place] != 0 && !is_at(table_[place] - 1, packed)) {
      place = (place + 1) & (table_.size() - 1);
    }
    return place;
  }

  void grow() {
    table_.assign(table_.size() * 2, 0);
    for (std::uint32_t index = 0; index < count_; ++index) table_[find(at(index))] = index + 1;
  }

  std::size_t size_;
  std::uint32_t count_ = 0;
  std::vector<std::uint8_t> bytes_;
  std::vector<std::uint32_t> table_;  // number + 1, or 0
};

template <class World>
class Search {
 public:
  // States have this size, in whole words; nothing but `checked` is looked at.
  Search(const World& world, std::size_t packed_size, Invariants checked, std::size_t states_max)
      : world_(world), explored_(packed_size), checked_(checked), states_max_(states_max) {
    SLUICE_ASSERT(packed_size % 8 == 0);
  }

  // Once.
  Report run();

 private:
  // Everything one action away from the state. False ends the search.
  bool expand(std::uint32_t index);
  std::optional<std::uint32_t> first_without_end() const;
  void tell(std::uint32_t index, const std::string& last, Invariant violated);

  using State = decltype(std::declval<const World&>().start());
  using Packed = std::array<std::uint8_t, World::kPackedSizeMax>;
  Packed pack(State state) const;
  State unpack(const std::uint8_t* packed) const;

  World world_;
  Explored explored_;
  Invariants checked_;
  std::size_t states_max_;
  std::vector<std::uint32_t> parents_;
  std::vector<std::uint8_t> ends_;      // whether the state is an end
  std::vector<std::uint32_t> targets_;  // of the transitions, state by state
  std::vector<std::size_t> firsts_;     // a state's first transition
  std::vector<ModelAction> actions_;
  Report report_;
};

template <class World>
typename Search<World>::Packed Search<World>::pack(State state) const {
  Packed packed{};
  std::uint8_t* to = packed.data();
  world_.transfer(state, [&to](const auto& value, unsigned bytes) {
    const auto number = static_cast<std::uint64_t>(value);
    SLUICE_DASSERT(number >> (8 * bytes) == 0);
    for (unsigned i = 0; i < bytes; ++i) *to++ = static_cast<std::uint8_t>(number >> (8 * i));
  });
  return packed;
}

template <class World>
typename Search<World>::State Search<World>::unpack(const std::uint8_t* packed) const {
  State state = world_.start();
  world_.transfer(state, [&packed](auto& value, unsigned bytes) {
    std::uint32_t read = 0;
    for (unsigned i = 0; i < bytes; ++i) read |= std::uint32_t{*packed++} << (8 * i);
    value = static_cast<std::remove_reference_t<decltype(value)>>(read);
  });
  return state;
}

template <class World>
bool Search<World>::expand(std::uint32_t index) {
  const State state = unpack(explored_.at(index));
  world_.list_actions(state, actions_);
  for (const ModelAction& action : actions_) {
    State next = state;
    const std::optional<Invariant> violated = world_.act(next, action);
    ++report_.transitions;
    if (violated.has_value()) {
      tell(index, world_.describe(state, action, next), *violated);
      return false;
    }
    const std::uint32_t target = explored_.insert(pack(next));
    targets_.push_back(target);
    if (target < parents_.size()) continue;
    parents_.push_back(index);
    ends_.push_back(world_.is_end(next) ? 1 : 0);
    if (explored_.count() >= states_max_) return false;
  }
  return true;
}

// The way to the state and what is last. Actions are not kept with the states but found again.
template <class World>
void Search<World>::tell(std::uint32_t index, const std::string& last, Invariant violated) {
  std::vector<std::uint32_t> way{index};
  while (way.back() != 0) way.push_back(parents_[way.back()]);
  std::reverse(way.begin(), way.end());
  for (std::size_t i = 1; i < way.size(); ++i) {
    const State before = unpack(explored_.at(way[i - 1]));
    std::vector<ModelAction> actions;
    world_.list_actions(before, actions);
    for (const ModelAction& action : actions) {
      State after = before;
      world_.act(after, action);
      if (!explored_.is_at(way[i], pack(after).data())) continue;
      report_.trace.push_back(world_.describe(before, action, after));
      break;
    }
    SLUICE_ASSERT(report_.trace.size() == i);
  }
  report_.trace.push_back(last);
  report_.violated = violated;
}

// Backward reachability over transitions that are kept forward: states whose successor can come to
// an end can, until nothing changes. Ends come late in the search, so few passes do.
template <class World>
std::optional<std::uint32_t> Search<World>::first_without_end() const {
  std::vector<std::uint8_t> reaches = ends_;
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t i = reaches.size(); i-- > 0;) {
      if (reaches[i] != 0) continue;
      for (std::size_t t = firsts_[i]; t < firsts_[i + 1] && reaches[i] == 0; ++t) {
        reaches[i] = reaches[targets_[t]];
      }
      changed = changed || reaches[i] != 0;
    }
  }
  const auto stuck = std::find(reaches.begin(), reaches.end(), 0);
  if (stuck == reaches.end()) return std::nullopt;
  return static_cast<std::uint32_t>(stuck - reaches.begin());
}

template <class World>
Report Search<World>::run() {
  explored_.insert(pack(world_.start()));
  parents_.push_back(0);
  ends_.push_back(0);
  bool goes_on = true;
  for (std::uint32_t index = 0; goes_on && index < explored_.count(); ++index) {
    firsts_.push_back(targets_.size());
    goes_on = expand(index);
  }
  firsts_.push_back(targets_.size());
  report_.states = explored_.count();
  report_.exhausted = goes_on;
  if (goes_on && (checked_ & only(Invariant::liveness)) != 0) {
    const std::optional<std::uint32_t> stuck = first_without_end();
    if (stuck.has_value()) tell(*stuck, "and not all can come to their end", Invariant::liveness);
  }
  return report_;
}

}  // namespace sluice::sim
