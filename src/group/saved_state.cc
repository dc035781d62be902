// Saving and loading a worker's memory: choices, codec state, model states, feedback's memories.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <unordered_map>

#include "base/bytes.h"
#include "catalog/codecs.h"
#include "group/memory.h"
#include "group/saved_bytes.h"

namespace sluice {
namespace {

using Found = std::optional<std::size_t>;  // a tensor's place in the list that was saved

Problem mismatch(std::string message) { return Problem{Code::mismatch, std::move(message)}; }

std::string name_of_feedback(std::uint32_t id) {
  for (const FeedbackInfo& info : kFeedbacks) {
    if (info.id == id) return fmt::format("kind {} ('{}')", id, info.name);
  }
  return fmt::format("kind {}", id);
}

std::string shown(const Tensor& tensor, bool rows) {
  return fmt::format("{:x} of {} x {}{}", tensor.id, tensor.rows, tensor.cols,
                     rows ? ", in rows" : "");
}
std::string shown(const Saved& saved, std::size_t tensor) {
  const SavedTensor& one = saved.tensors[tensor];
  return fmt::format("{}, codec '{}', {} memories", shown(one.tensor, one.rows),
                     saved.codec_of(tensor).spec, one.keeps() ? one.memories.size() : 0);
}

// What was saved of one of feedback's memories; nothing where there was none.
std::span<const std::byte> memory_of(const SavedTensor& saved, std::size_t which) {
  return saved.memories.empty() ? std::span<const std::byte>{} : saved.memories[which];
}

// With what was saved, or zeros where nothing was.
void fill(std::span<const std::byte> from, std::span<std::byte> into) {
  if (from.empty()) {
    std::fill(into.begin(), into.end(), std::byte{0});
  } else {
    std::copy(from.begin(), from.end(), into.begin());
  }
}

}  // namespace

// What was saved, against the memory that loads it.
class SavedState {
 public:
  SavedState(Memory& memory, std::span<const Saved> states, const Memory::Loading& how)
      : memory_(memory), states_(states), how_(how), places_(memory.tensors_.size()) {}

  [[nodiscard]] Verdict check() {
    for (const Saved& one : states_) SLUICE_TRY(check_like_first(one));
    SLUICE_TRY(how_.is_own ? check_owner() : pick());
    SLUICE_TRY(find_places());
    if (is_whole_) find_resuming();
    for (std::size_t i = how_.first; i < places_.size(); ++i) SLUICE_TRY(check_tensor(i));
    find_models();
    for (std::size_t choice = 0; choice < models_.size(); ++choice) {
      const std::size_t size = memory_.codecs_[choice].model.size();
      if (models_[choice] == nullptr || models_[choice]->model.size() == size) continue;
      return mismatch(fmt::format("saved state: {} bytes of model state; expected {}",
                                  models_[choice]->model.size(), size));
    }
    return Nothing{};
  }

  void load() {
    // What can be refused, which is memory, comes first.
    std::vector<Memory::Stored> made(places_.size());
    for (std::size_t i = how_.first; i < made.size(); ++i) {
      const bool has = !memory_.held_[i].stored.now.empty();
      if (!has && places_[i] && states_.front().tensors[*places_[i]].keeps()) {
        made[i] = memory_.new_stored(memory_.tensors_[i]);
      }
    }
    for (std::size_t i = how_.first; i < made.size(); ++i) {
      Memory::Held& held = memory_.held_[i];
      if (!made[i].now.empty()) held.stored = std::move(made[i]);
      for (std::size_t which = 0; which < held.stored.now.size(); ++which) {
        take_over(i, which, held.stored.now[which]);
      }
      fill(resumes_here(i) ? mine_.front()->tensors[*places_[i]].state
                           : std::span<const std::byte>{},
           held.state);
    }
    for (std::size_t choice = 0; choice < models_.size(); ++choice) {
      auto& model = memory_.codecs_[choice].model;
      if (models_[choice] != nullptr) {
        fill(models_[choice]->model, model);
      } else if (!how_.grows) {
        fill({}, model);
      }
      memory_.codecs_[choice].note_model();
    }
    if (!how_.grows) memory_.forget_step();
  }

 private:
  // Ranks of one job keep the same of the same tensors.
  [[nodiscard]] Verdict check_like_first(const Saved& one) const {
    const std::uint32_t feedback = memory_.feedback_.info->id;
    if (one.feedback != feedback) {
      return mismatch(fmt::format("saved state of feedback {}; accepted: {}",
                                  name_of_feedback(one.feedback), name_of_feedback(feedback)));
    }
    const Saved& first = states_.front();
    if (one.workers != first.workers || one.tensors.size() != first.tensors.size()) {
      return mismatch(fmt::format(
          "saved state of {} tensors of a worker of {}; accepted: {} of {}, as the first",
          one.tensors.size(), one.workers, first.tensors.size(), first.workers));
    }
    for (std::size_t i = 0; i < one.tensors.size(); ++i) {
      const SavedTensor &is = one.tensors[i], &was = first.tensors[i];
      if (is.tensor == was.tensor && is.rows == was.rows && is.keeps() == was.keeps() &&
          one.codec_of(i).spec == first.codec_of(i).spec) {
        continue;
      }
      return mismatch(fmt::format("saved state of rank {}: {}; accepted: {}, as of rank {}",
                                  one.rank, shown(one, i), shown(first, i), first.rank));
    }
    return Nothing{};
  }

  [[nodiscard]] Verdict check_owner() {
    const GroupOptions& here = memory_.options_;
    const Saved& saved = states_.front();
    if (saved.rank != here.rank || saved.workers != here.workers) {
      return mismatch(fmt::format("saved state of worker {} of {}; accepted: of worker {} of {}",
                                  saved.rank, saved.workers, here.rank, here.workers));
    }
    return pick();
  }

  // The states this worker takes over: its own, or of another number of workers every so-many-th.
  [[nodiscard]] Verdict pick() {
    const GroupOptions& here = memory_.options_;
    const std::uint32_t workers = states_.front().workers;
    std::map<std::uint32_t, const Saved*> by_rank;
    std::string ranks;
    for (const Saved& one : states_) by_rank[one.rank] = &one;
    for (const auto& [rank, one] : by_rank) {
      ranks += fmt::format("{}{}", ranks.empty() ? "" : ", ", rank);
      const bool is_mine =
          workers == here.workers ? rank == here.rank : rank % here.workers == here.rank;
      if (is_mine) mine_.push_back(one);
    }
    is_whole_ = workers == here.workers;
    if (is_whole_ && mine_.empty()) {
      return mismatch(
          fmt::format("saved state of rank {}; accepted: that of rank {}, or those of all ranks",
                      ranks, here.rank));
    }
    if (!is_whole_ && (by_rank.size() != workers || by_rank.rbegin()->first != workers - 1)) {
      return mismatch(
          fmt::format("saved states of ranks [{}] of {}; this job has {} ranks; accepted: "
                      "the states of all {}, as a list",
                      ranks, workers, here.workers, workers));
    }
    return Nothing{};
  }

  [[nodiscard]] Verdict find_places() {
    const auto& saved = states_.front().tensors;
    if (!how_.grows && saved.size() != places_.size()) {
      return mismatch(
          fmt::format("saved state of {} tensors; accepted: {}", saved.size(), places_.size()));
    }
    std::unordered_map<std::uint64_t, std::size_t> by_id;
    for (std::size_t i = 0; i < saved.size(); ++i) by_id.emplace(saved[i].tensor.id, i);
    for (std::size_t i = 0; i < places_.size(); ++i) {
      const Tensor& mine = memory_.tensors_[i];
      const bool rows = memory_.held_[i].rows;
      const auto found = by_id.find(mine.id);
      const bool is_there = found != by_id.end() && (!how_.is_own || found->second == i);
      if (!is_there && !how_.grows) {
        return mismatch(fmt::format("saved state: tensor {} is {}; accepted: {}", i,
                                    shown(saved[i].tensor, saved[i].rows), shown(mine, rows)));
      }
      // What brings rows keeps nothing, whatever it was before.
      if (is_there && (how_.is_own || !rows)) places_[i] = found->second;
    }
    return Nothing{};
  }

  [[nodiscard]] Verdict check_tensor(std::size_t index) const {
    if (!places_[index]) return Nothing{};
    const Tensor& mine = memory_.tensors_[index];
    const Memory::Held& held = memory_.held_[index];
    const SavedTensor& any = states_.front().tensors[*places_[index]];
    if (!(any.tensor == mine) || any.rows != held.rows) {
      return mismatch(fmt::format("saved state: tensor {} is {}; accepted: {}", index,
                                  shown(any.tensor, any.rows), shown(mine, held.rows)));
    }
    if (resumes_here(index)) {
      const std::size_t size = mine_.front()->tensors[*places_[index]].state.size();
      if (size != held.state.size()) {
        return mismatch(fmt::format("saved state: tensor {} has {} state bytes; expected {}", index,
                                    size, held.state.size()));
      }
    }
    const std::size_t wanted = held.rows ? 0 : memory_.memory_names().size();
    for (const Saved* one : mine_) {
      const SavedTensor& saved = one->tensors[*places_[index]];
      for (const auto memory : saved.memories) {
        if (saved.memories.size() == wanted && memory.size() == mine.count() * sizeof(float))
          continue;
        return mismatch(fmt::format(
            "saved state: tensor {} has {} memories, one of {} coordinates; expected {} of {}",
            index, saved.memories.size(), memory.size() / sizeof(float), wanted, mine.count()));
      }
    }
    return check_sums(index, wanted);
  }

  // No memory may become infinite.
  [[nodiscard]] Verdict check_sums(std::size_t index, std::size_t memory_count) const {
    if (mine_.size() < 2) return Nothing{};
    AlignedVector<float> sums(memory_.tensors_[index].count());
    for (std::size_t which = 0; which < memory_count; ++which) {
      take_over(index, which, sums);
      if (std::all_of(sums.begin(), sums.end(), [](float one) { return std::isfinite(one); }))
        continue;
      return mismatch(
          fmt::format("saved state: tensor {} has memories whose sum over ranks is not finite; "
                      "accepted: finite ones",
                      index));
    }
    return Nothing{};
  }

  // One of feedback's memories: this worker's, or the sum of several workers' in order of rank.
  void take_over(std::size_t index, std::size_t which, std::span<float> into) const {
    const Found place = places_[index];
    const bool has = place && !mine_.empty();
    fill(has ? memory_of(mine_.front()->tensors[*place], which) : std::span<const std::byte>{},
         std::as_writable_bytes(into));
    for (std::size_t k = 1; has && k < mine_.size(); ++k) {
      const auto more = memory_of(mine_[k]->tensors[*place], which);
      for (std::size_t at = 0; at < more.size(); at += sizeof(float)) {
        into[at / sizeof(float)] += load_le<float>(more, at);
      }
    }
  }

  // Which codecs that saved can be gone on with by which of those here.
  void find_resuming() {
    for (const SavedCodec& codec : mine_.front()->codecs) {
      std::vector<bool>& row = resuming_.emplace_back();
      for (const Memory::Offered& of : memory_.codecs_) {
        row.push_back(of.tensor_count != 0 && resumes(codec.spec, of.spec));
      }
    }
  }
  [[nodiscard]] bool resumes_here(std::size_t tensor) const {
    return is_whole_ && places_[tensor] &&
           resuming_[mine_.front()->tensors[*places_[tensor]].codec][memory_.held_[tensor].choice];
  }

  // A model's state is about the tensors that had the codec: it goes on if these are the same, as
  // far as they are known.
  void find_models() {
    models_.resize(memory_.codecs_.size());
    for (std::size_t i = 0; i < places_.size(); ++i) {
      if (resumes_here(i)) models_[memory_.held_[i].choice] = codec_of(i);
    }
    for (std::size_t i = 0; i < places_.size(); ++i) {
      const SavedCodec* const partner = codec_of(i);
      for (std::size_t choice = 0; choice < models_.size(); ++choice) {
        const bool is_mine = memory_.held_[i].choice == choice;
        if (is_mine != (models_[choice] == partner)) models_[choice] = nullptr;
      }
    }
  }
  [[nodiscard]] const SavedCodec* codec_of(std::size_t tensor) const {
    if (!is_whole_ || !places_[tensor]) return nullptr;
    return &mine_.front()->codec_of(*places_[tensor]);
  }

  Memory& memory_;
  std::span<const Saved> states_;
  const Memory::Loading& how_;
  std::vector<const Saved*> mine_;           // that are taken over, in order of rank
  bool is_whole_ = false;                    // this very worker's: codec state goes on, too
  std::vector<Found> places_;                // by tensor
  std::vector<std::vector<bool>> resuming_;  // by saved codec, then by choice
  std::vector<const SavedCodec*> models_;    // by choice; null: starts anew
};

std::size_t Memory::save(std::span<std::byte> room) const {
  Saved saved{options_.rank, options_.workers, feedback_.info->id, feedback_.spec, {}, {}};
  std::vector<std::optional<std::uint32_t>> places(codecs_.size());
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const Held& held = held_[i];
    const Offered& codec = codecs_[held.choice];
    if (!places[held.choice]) {
      places[held.choice] = static_cast<std::uint32_t>(saved.codecs.size());
      saved.codecs.push_back({codec.spec, codec.model});
    }
    SavedTensor& one = saved.tensors.emplace_back(
        SavedTensor{tensors_[i], *places[held.choice], held.rows, held.state, {}});
    for (const auto& memory : held.stored.now) {
      one.memories.push_back(std::as_bytes(std::span(memory)));
    }
  }
  return write_saved(saved, room);
}

std::vector<std::byte> Memory::save() const {
  std::vector<std::byte> bytes(save({}));
  save(bytes);
  return bytes;
}

Verdict Memory::load(std::span<const std::byte> saved) {
  return load({&saved, 1}, {.is_own = true});
}

Verdict Memory::load(std::span<const std::span<const std::byte>> saved, const Loading& how) {
  std::vector<Saved> states;
  for (const auto bytes : saved) {
    SLUICE_TRY_ASSIGN(Saved one, parse_saved(bytes));
    states.push_back(std::move(one));
  }
  SLUICE_ASSERT(!states.empty());
  SavedState state(*this, states, how);
  SLUICE_TRY(state.check());
  state.load();
  return Nothing{};
}

}  // namespace sluice
