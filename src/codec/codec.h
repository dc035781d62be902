// A codec turns a chunk into rounds and the answers into the mean chunk.
//
// Numbers of workers are 1 to kWorkersMax everywhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "codec/arena.h"
#include "codec/chunk.h"
#include "codec/exchange.h"

namespace sluice {

// Whether compressing takes something off: ‖x − C(x)‖² ≤ (1 − δ)‖x‖² with δ > 0. Error feedback
// needs it; without it the residual grows.
enum class Contraction : std::uint8_t { always, typical, never };
std::string_view name_of(Contraction contraction);  // lives as long as the program

// What a codec promises among n workers; tests hold it to that (tests/conformance).
struct Traits {
  bool homomorphic = false;  // values are summed by exact integer rounds, never decoded on the way
  bool lossless = false;     // the mean is the true one, rounded once
  bool unbiased = false;     // E[mean] is the true mean, over the codec's randomness
  bool quorum = false;       // right with any set of contributors per part
  bool elementwise = false;  // a coordinate's mean depends on that coordinate alone
  bool rounds_sums = false;  // sums come down rounded, and no worker's residual has what that loses
  bool fuses_feedback = false;  // keeps a residual of plain error feedback itself, the same bits
  bool on_device = false;       // has kernels for a device: takes chunks whose place has a bench
  Contraction contraction = Contraction::never;
  // |mean − true mean| is at most this times the largest |input| of the chunk on any worker, for
  // inputs in the format's normal range; 0: nothing is promised coordinate by coordinate.
  double error_max = 0;
  double silent_below = 0x1p-126;  // a mean may be zero where all inputs are smaller than this
  std::size_t model_size = 0;      // bytes of per-model state
  std::uint32_t tally_count = 0;   // of Chunk::tally

  // Whether error feedback keeps its promise: over all steps, the means times their contributors
  // plus the residuals are what was given, but for float32's roundings.
  [[nodiscard]] bool takes_feedback() const {
    return contraction != Contraction::never && !rounds_sums;
  }
};

// How a tensor is cut and what is kept of it. The same on all ranks.
struct Plan {
  std::uint32_t multiple_of = 1;  // chunks are this many coordinates times something, but the last
  std::uint32_t count_max = 0;    // of one chunk
  std::size_t state_size = 0;     // per tensor
};

// What an exchange on a device takes beside its arena, for who reserves memory ahead of time. At
// most, but for codecs that spread their bits over a model: there it is what few waves exceed.
struct DeviceNeeds {
  std::size_t up = 0;            // bytes of rounds on the device: of its largest leg …
  std::size_t down = 0;          // … and of the answers
  double down_share = 0.5;       // of a round's bytes, up and down together: of any round at most
  std::uint32_t host_lanes = 0;  // of rounds that go through the host
  std::size_t room = 0;          // bytes that it takes of Bench::room
  std::size_t table = 0;         // bytes of its items, tiles and lists in the bench's tables
  std::uint32_t rounds = 0;      // on the device, of all legs together
};

// Immutable; any thread, several at once. It outlives its exchanges. Nothing here fails but
// accepts(), and nothing else allocates.
class Codec {
 public:
  virtual ~Codec() = default;
  [[nodiscard]] virtual Traits traits(std::uint32_t workers) const = 0;
  [[nodiscard]] virtual Plan plan(const Tensor& tensor, std::uint32_t workers) const = 0;
  // Whether these tensors, all that have chosen this codec, can travel among so many workers at
  // all. Asked whenever that set changes, before anything travels; afterwards nothing is refused.
  // The Problem says what would be accepted. May allocate.
  [[nodiscard]] virtual Verdict accepts(std::span<const Tensor> tensors,
                                        std::uint32_t workers) const {
    static_cast<void>(tensors);
    static_cast<void>(workers);
    return Nothing{};
  }
  // For codecs that scale or choose by block, a promise about blocks in which workers have
  // something of Traits::silent_below or more. None comes back as zero for so many steps in a row.
  // 0: nothing is promised.
  [[nodiscard]] virtual std::uint64_t heard_within(std::span<const Tensor> tensors,
                                                   std::uint32_t workers) const {
    static_cast<void>(tensors);
    static_cast<void>(workers);
    return 1;
  }
  // An exchange in the arena, which it ends with: nobody deletes it. Takes all of its memory from
  // the arena and touches none of the chunk's, so it costs little. The chunk fits plan(). With a
  // measuring arena only chunk.extent is filled and null is returned; otherwise never null.
  virtual Exchange* begin(const Chunk& chunk, Arena& arena) const = 0;
  // Of codecs with Traits::on_device, for a chunk on a device. `keeps`: there is feedback.
  [[nodiscard]] virtual DeviceNeeds device_needs(const Extent& extent, bool keeps) const {
    static_cast<void>(extent);
    static_cast<void>(keeps);
    return {};
  }
  // Between steps, nothing in flight: turns the agreed counts of all chunks into the model's state.
  // The spans have Traits::tally_count and model_size elements.
  virtual void end_step(std::span<const std::uint64_t> tally, std::span<std::byte> model) const {
    static_cast<void>(tally);
    static_cast<void>(model);
  }
};

}  // namespace sluice
