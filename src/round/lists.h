// Readers of the answers that are lists: gathered messages and summed blocks.
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
// the stated size; anything else is malformed.
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

// Bytes of a block's body in this form with so many of its integers there.
std::size_t body_size(const Reduction& what, BlockForm form, std::uint32_t set);
// How many integers are there, by the first bytes of a body: at least as many bytes as the body
// would have with none of them.
std::uint32_t integers_set(const Reduction& what, BlockForm form, std::span<const std::byte> body);

struct Block {
  std::uint32_t number = 0;
  BlockForm form = BlockForm::dense;
  std::span<const std::byte> body;
};

// Walks blocks, of an answer or of one worker's contribution: as many as stated, numbers ascending
// and in range, bodies as their form demands.
class BlockReader {
 public:
  BlockReader(const Reduction& what, std::span<const std::byte> bytes)
      : what_(what), rest_(bytes) {}
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
