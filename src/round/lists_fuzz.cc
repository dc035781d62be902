// Any bytes as messages, blocks and partial results: read or malformed, never beyond a buffer.
#include "round/lists.h"

#include <fuzzer/FuzzedDataProvider.h>

#include <vector>

#include "base/aligned_buffer.h"
#include "base/assert.h"
#include "base/bytes.h"
#include "round/block_sum.h"
#include "round/combine.h"

namespace {

using namespace sluice;
using Bytes = std::vector<std::uint8_t>;

Reduction reduction_from(FuzzedDataProvider& data) {
  Reduction what;
  what.op = static_cast<Op>(data.ConsumeIntegralInRange<std::uint8_t>(0, 7));
  what.bits = data.PickValueInArray<std::uint8_t>({1, 3, 8, 16, 32, 64});
  if (what.op == Op::lane_sum) {
    what.down = static_cast<Down>(data.ConsumeIntegralInRange<std::uint8_t>(0, 2));
  }
  what.count = data.ConsumeIntegralInRange<std::uint32_t>(1, 100);
  what.grain = 8 * data.ConsumeIntegralInRange<std::uint32_t>(0, 5);
  return what;
}

void read_messages(const Reduction& what, std::uint32_t workers, std::span<const std::byte> list,
                   std::uint64_t members) {
  WorkerSet from(workers);
  for (std::uint32_t rank = 0; rank < workers; ++rank) {
    if ((members >> (rank % 64) & 1) != 0) from.insert(rank);
  }
  const Part part{0, what.count, from.view()};
  MessageReader reader(what, {list, {&part, 1}});
  std::uint32_t count = 0;
  while (true) {
    const auto message = reader.next();
    if (!message) {
      SLUICE_ASSERT(message.error().code == Code::malformed);
      return;
    }
    if (!*message) break;
    SLUICE_ASSERT((*message)->rank < workers && (*message)->bytes.size() <= what.count);
    ++count;
  }
  SLUICE_ASSERT(count == from.view().count());
}

// Written again, a block is no longer than it was and has the same integers.
void check_forms(const Reduction& what, const Block& block) {
  std::vector<std::byte> integers(std::size_t{what.grain} * what.bits / 8);
  add_block(what, block, integers);
  std::vector<std::byte> list(kBlockListHeader + block_size_max(what));
  store_le(std::span(list), 0, std::uint32_t{1});
  const auto to = std::span(list).subspan(kBlockListHeader);
  const std::size_t size = write_block(what, block.number, integers, to);
  SLUICE_ASSERT(size <= kBlockHeader + block.body.size());
  BlockReader reader(what, std::span(list).first(kBlockListHeader + size));
  const auto again = reader.next();
  SLUICE_ASSERT(again && *again && (*again)->number == block.number);
  std::vector<std::byte> same(integers.size());
  add_block(what, **again, same);
  SLUICE_ASSERT(same == integers);
}

void read_blocks(const Reduction& what, std::span<const std::byte> list) {
  BlockReader reader(what, list);
  while (true) {
    const auto block = reader.next();
    if (!block || !*block) return;
    SLUICE_ASSERT((*block)->number < block_count(what));
    SLUICE_ASSERT((*block)->body.size() + kBlockHeader <= block_size_max(what));
    check_forms(what, **block);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  FuzzedDataProvider data(bytes, size);
  const Reduction what = reduction_from(data);
  const auto workers = data.ConsumeIntegralInRange<std::uint32_t>(1, 130);
  const auto contributors = data.ConsumeIntegralInRange<std::uint32_t>(1, workers);
  const auto members = data.ConsumeIntegral<std::uint64_t>();
  if (!check(what, workers)) return 0;

  std::vector<Bytes> lists;
  std::vector<std::span<const std::byte>> partials;
  const auto list_count = data.ConsumeIntegralInRange<std::size_t>(1, 6);
  lists.reserve(list_count);
  for (std::size_t i = 0; i < list_count; ++i) {
    const auto most = partial_size_max(what, workers, what.count) + 1;
    lists.push_back(i + 1 == list_count ? data.ConsumeRemainingBytes<std::uint8_t>()
                                        : data.ConsumeBytes<std::uint8_t>(
                                              data.ConsumeIntegralInRange<std::size_t>(0, most)));
    // Sums of lanes have one size; let most inputs get past that check.
    if (!is_list(what.op) && !is_float_sum(what.op) && members % 8 != 0) {
      lists.back().resize(most - 1);
    }
    partials.push_back(std::as_bytes(std::span(lists.back())));
  }
  if (what.op == Op::gather) read_messages(what, workers, partials.back(), members);
  if (what.op == Op::block_sum) read_blocks(what, partials.back());

  AlignedBuffer scratch(scratch_size(what));
  std::vector<std::byte> down(down_size_max(what, workers));
  const auto used =
      combine_root(what, workers, contributors, what.count, partials, scratch.bytes(), down);
  SLUICE_ASSERT(used ? *used <= down.size() : used.error().code == Code::malformed);
  return 0;
}
