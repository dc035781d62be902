#include "group/tally.h"

#include "group/memory.h"

namespace sluice {

void Tally::reset(const Memory& memory) {
  std::size_t end = 0;
  ends_.clear();
  for (Choice choice = 0; choice < memory.codec_count(); ++choice) {
    end += memory.totals(choice).size();
    ends_.push_back(end);
  }
  counts_.assign(end, 0);
}

}  // namespace sluice
