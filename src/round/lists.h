// Readers of the answers that are lists: gathered messages and summed blocks.
//
// A reader is a value for one thread that never allocates. It keeps no reference to the reduction,
// which has passed check(). It and all that it returns point into the bytes it was given: they
// outlive it. The bytes may be anybody's. After an error nobody asks it again; at the end it keeps
// saying so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/result.h"
#include "round/round.h"

namespace sluice {

struct Message {
  std::uint32_t rank = 0;
  std::span<const std::byte> bytes;
};

// Walks the answer of a gather. Accepts exactly the counted workers, ranks ascending, each within
// the stated size; anything else is Code::malformed. Messages may be empty. What they say is not
// checked.
class MessageReader {
 public:
  MessageReader(const Reduction& what, const Answer& answer)
      : size_max_(what.count),
        rest_(answer.down),
        from_(answer.parts.empty() ? Workers{} : answer.parts.front().from) {}
  // The next message, nothing at the end.
  Result<std::optional<Message>> next();

 private:
  std::size_t size_max_;
  std::span<const std::byte> rest_;
  Workers from_;
  std::int64_t rank_last_ = -1;
  std::uint32_t seen_ = 0;
};

enum class BlockForm : std::uint8_t { dense, bitmap, pairs };

// Bytes of a block's body in this form with so many of its integers there. A form that is none
// asserts, here and below.
std::size_t body_size(const Reduction& what, BlockForm form, std::uint32_t set);
// How many integers are there, as the first bytes of a body say; untrusted. `body` has at least the
// bytes of a body without integers: the caller's promise.
std::uint32_t integers_set(const Reduction& what, BlockForm form, std::span<const std::byte> body);

struct Block {
  std::uint32_t number = 0;
  BlockForm form = BlockForm::dense;
  std::span<const std::byte> body;
};

// Walks blocks, of an answer or of one worker's contribution. Accepts as many as stated, numbers
// ascending and in range, bodies as their form demands; anything else is Code::malformed.
class BlockReader {
 public:
  BlockReader(const Reduction& what, std::span<const std::byte> bytes)
      : what_(what), rest_(bytes) {}
  // The next block, nothing at the end.
  Result<std::optional<Block>> next();

 private:
  // The body at the front of `bytes`.
  [[nodiscard]] Result<std::span<const std::byte>> body(std::uint8_t form,
                                                        std::span<const std::byte> bytes) const;

  Reduction what_;
  std::span<const std::byte> rest_;
  std::optional<std::uint32_t> left_;  // nothing before the list's header is read
  std::int64_t number_last_ = -1;
};

}  // namespace sluice
