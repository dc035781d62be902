// What one worker keeps between steps: the codecs that its tensors may choose and which they have
// chosen, feedback's memories, codec state per tensor and per model, and the counts of the step in
// hand. Cuts tensors into chunks.
//
// Between steps a memory belongs to one thread. Chunks of one step may be worked on by several:
// they never share a byte of it but the counts, which each hands over by count(). Indices of
// tensors and choices are in range; only add, choose and offer check them. "Refused" is
// Code::invalid_argument, which names the value and what is accepted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/result.h"
#include "catalog/feedbacks.h"
#include "codec/codec.h"
#include "feedback/keeping.h"
#include "group/group_options.h"
#include "group/tally.h"
#include "round/carrier.h"

namespace sluice {

class Memory {
  struct Token {};  // lets make() alone call the constructor

 public:
  Memory(Token, const GroupOptions& options, NamedFeedback feedback);

  static Checked<std::unique_ptr<Memory>> make(const GroupOptions& options);

  // The choice of `f32`, which every memory has: what is measured or shares an exchange is exact.
  static constexpr Choice kExact = 0;

  // A codec that tensors may choose from now on. The same spec again is the same number: `spec`
  // names codec and options in digests and saved state, where options that follow the feedback have
  // their meaning. Between steps; the codec is shared with whoever made it.
  Checked<Choice> offer(std::string_view spec, std::shared_ptr<const Codec> codec);

  // Which tensors get feedback's memories: those whose codec loses something, or all of them, which
  // only matters where a carrier may leave a worker out: an exact codec empties them otherwise.
  enum class Keeps : std::uint8_t { lossy, all };
  // More tensors, between steps, the same on every rank. All or nothing. Refused: what the codec
  // refuses, with the tensors that have chosen it before; feedback that it does not take.
  Verdict add(std::span<const Tensor> tensors, Choice choice, Keeps keeps = Keeps::lossy);
  // Tensors whose entries bring some of their rows, as many as the step has, the same on all ranks
  // (sparse gradients). They keep nothing: no feedback, a fresh codec state every time. Refused:
  // codecs with memory of a model, too.
  Verdict add_rows(std::span<const Tensor> tensors, Choice choice);
  // Between steps, the same on every rank. All or nothing; refused as when they are added, and also
  // where a codec refuses the tensors that are left to it. Feedback's memories stay. Of tensors
  // that had another choice codec state starts anew, and so does the model state of the codecs that
  // they leave and come to: its budget is over other tensors.
  Verdict choose(std::span<const std::uint32_t> tensors, Choice choice);

  [[nodiscard]] const GroupOptions& options() const { return options_; }
  [[nodiscard]] std::span<const Tensor> tensors() const { return tensors_; }
  [[nodiscard]] Choice choice(std::size_t tensor) const { return held_[tensor].choice; }
  [[nodiscard]] bool brings_rows(std::size_t tensor) const { return held_[tensor].rows; }
  [[nodiscard]] std::size_t codec_count() const { return codecs_.size(); }
  [[nodiscard]] const Codec& codec(Choice choice) const { return *codecs_[choice].codec; }
  [[nodiscard]] const std::string& spec(Choice choice) const { return codecs_[choice].spec; }
  // The spec that a topic names; empty if there is none.
  [[nodiscard]] std::string_view spec_named(std::uint32_t name) const;
  // The choice of that spec; codec_count() if there is none.
  [[nodiscard]] Choice find(std::string_view spec) const;
  // The specs that tensors have chosen, for a person.
  [[nodiscard]] std::string specs() const;

  // Coordinates per chunk. Chunks follow the tensor and its codec's plan, never threads or buckets.
  [[nodiscard]] std::uint32_t chunk_count(std::size_t tensor) const {
    return chunk_count(tensors_[tensor], choice(tensor));
  }
  [[nodiscard]] std::uint32_t chunk_count(const Tensor& tensor, Choice choice) const;
  // And per chunk of the host's; on a device a chunk is several of them (Chunk::share).
  [[nodiscard]] std::uint32_t share_count(const Tensor& tensor, Choice choice) const;

  // The chunk at `offset` of a tensor, with all that belongs to it but feedback; spans as given, of
  // the chunk alone. Counts go to `tally`.
  Chunk chunk(std::uint64_t step, std::size_t tensor, std::uint64_t offset,
              std::span<const float> gradient, std::span<float> mean, Tally& tally);
  // What feedback keeps of that chunk, which is about to begin: with keep_before it is copied.
  Kept kept(std::size_t tensor, std::uint64_t offset, std::uint32_t count);
  // How it is kept, for measuring: nothing where the tensor has no memories.
  [[nodiscard]] Kept kind(std::size_t tensor) const;
  [[nodiscard]] const NamedFeedback& feedback() const { return feedback_; }
  // The same of a tensor that brings rows: `all` is what its entry brought, `state` the entry's,
  // zero at first and as large as the codec's plan of `all` says.
  Chunk chunk_of_rows(std::uint64_t step, std::size_t tensor, const Tensor& all,
                      std::uint64_t offset, std::span<const float> gradient, std::span<float> mean,
                      std::span<std::byte> state, Tally& tally) const;
  // Name a chunk that travels through a choice, as one number and in parts. The same on every rank.
  // They do not include the sequence number. All changes of choices so far are in them: budgets
  // depend on these.
  [[nodiscard]] std::uint64_t digest(const Chunk& chunk, Choice choice) const;
  [[nodiscard]] Topic topic(const Chunk& chunk, std::uint64_t step, Choice choice) const;

  // Any thread: adds counts to the step's.
  void count(const Tally& tally);
  // A codec's counts of all steps that have ended.
  [[nodiscard]] std::span<const std::uint64_t> totals(Choice choice) const {
    return codecs_[choice].totals;
  }
  // Nothing in flight: turns the counts into the models' states.
  void end_step();
  // Instead of end_step(): the step's result is thrown away by the user, so what feedback booked as
  // sent comes back. Needs options.keep_before. Code::io: the device failed, and the step is still
  // there to be undone.
  Verdict undo_step();
  // A step of a job of one worker: the gradient becomes what its codec would have been given, as if
  // all of that had been sent. What is not finite enters no memory.
  void pay(std::size_t tensor, std::span<float> gradient);

  // Feedback's memories of a whole tensor, by memory_names(); all empty where it has none.
  [[nodiscard]] std::span<const std::string_view> memory_names() const {
    return feedback_.info->memories;
  }
  [[nodiscard]] Memories memories(std::size_t tensor);
  // The first of them: what was given and not yet sent.
  [[nodiscard]] std::span<float> residual(std::size_t tensor) { return memories(tensor)[0]; }
  [[nodiscard]] std::span<const float> residual(std::size_t tensor) const;
  [[nodiscard]] std::span<std::byte> state(std::size_t tensor) { return held_[tensor].state; }
  [[nodiscard]] std::span<std::byte> model(Choice choice) { return codecs_[choice].model; }

  // Where feedback's memories are; null: on the host. On a device those above are an image of them,
  // as it was at the last fetch(); show() makes the device's like the image. Between steps. Both do
  // nothing where there is no device. Code::io: the device failed.
  [[nodiscard]] const device::Accelerator* accelerator() const { return options_.accelerator; }
  Verdict fetch();
  Verdict show();

  // Choices, codec state, model states and feedback's memories, between steps, as the bytes of
  // group/saved_bytes.h; on a device after fetch(). The first gives their number, and writes them
  // if there is room.
  std::size_t save(std::span<std::byte> room) const;
  [[nodiscard]] std::vector<std::byte> save() const;
  // Refuses what another rank, number of workers, feedback or list of tensors saved, and bytes that
  // are damaged; on refusal nothing has changed. Choices stay as they are here. Of a tensor that
  // another codec saved (catalog's resumes() says which is another) codec state starts anew, as
  // after choose().
  Verdict load(std::span<const std::byte> saved);

  struct Loading {
    std::size_t first = 0;  // Tensors before this one stay as they are.
    // More tensors will come, in the middle of a step, too. What was saved of them waits, and a
    // tensor that was not saved starts anew. Counts of the step stay.
    bool grows = false;
    // Another rank's is refused, that of another number of workers, and another order of tensors.
    bool is_own = false;
  };
  // The same from at least one state, of which this worker takes its own. Of a job with another
  // number of workers there are the states of all: a worker takes every so-many-th, and the sum of
  // feedback's memories over all workers is kept; codec and model state start anew.
  Verdict load(std::span<const std::span<const std::byte>> saved, const Loading& how);

 private:
  friend class SavedState;

  // A codec of the table.
  struct Offered {
    std::string spec;
    std::shared_ptr<const Codec> codec;
    std::uint64_t identity = 0;
    bool on_device = false;        // has kernels
    std::uint32_t name = 0;        // of the spec, for those who have another
    std::size_t tensor_count = 0;  // that have chosen it
    std::vector<std::byte> model;
    std::uint64_t model_digest = 0;  // 0 of a new one
    std::vector<std::uint64_t> tally;
    std::vector<std::uint64_t> totals;

    // After every change of the model, which decides what travels.
    void note_model();
  };
  // Feedback's memories of a tensor.
  struct Stored {
    std::vector<AlignedVector<float>> now;
    std::vector<AlignedVector<float>> before;  // as they were before the step, with keep_before
    // On a device both are there, `before` is empty and `now` is an image.
    device::DeviceMemory there = {};
    device::DeviceMemory there_before = {};
  };
  // What is held of a tensor.
  struct Held {
    Choice choice = 0;
    bool rows = false;
    std::vector<std::uint8_t> in_step = {};  // by chunk: whether `before` is of this step
    std::vector<std::byte> state = {};
    Stored stored = {};
  };

  Verdict add(std::span<const Tensor> tensors, const Held& like, bool keeps);
  // Forgets what tensors from this one on keep.
  void cut(std::size_t count);
  Verdict add_ids();
  void move(std::span<const Choice> after, Choice choice);
  Verdict check_choice(Choice choice) const;
  Verdict check_kind(Choice choice, bool rows) const;
  [[nodiscard]] Verdict check_device(const Traits& traits, std::string_view spec) const;
  // Whether a codec takes the tensors that have these choices.
  Verdict check_accepts(Choice choice, std::span<const Choice> choices) const;
  [[nodiscard]] std::vector<Choice> choices() const;
  [[nodiscard]] std::vector<std::byte> new_state(std::size_t tensor, Choice choice) const;
  [[nodiscard]] Stored new_stored(const Tensor& tensor) const;
  Status copy_back(std::size_t tensor, std::uint64_t first, std::uint64_t count);
  Kept kept_there(Kept kept, Held& held, std::uint64_t offset, bool is_first);

  // Nothing of a step has been counted or begun.
  void forget_step();
  [[nodiscard]] std::vector<std::uint8_t> new_marks(std::size_t tensor, Choice choice) const;

  // How a topic names a codec.
  [[nodiscard]] std::uint32_t name_of(const Offered& offered) const {
    return offered.name ^ static_cast<std::uint32_t>(moves_ >> 32);
  }

  GroupOptions options_;
  NamedFeedback feedback_;
  std::deque<Offered> codecs_;  // whose specs stay where they are
  std::vector<Tensor> tensors_;
  std::unordered_set<std::uint64_t> ids_;  // of the first so many tensors
  std::vector<Held> held_;
  std::uint64_t moves_ = 0;  // digest of the choices that tensors have moved to
};

}  // namespace sluice
