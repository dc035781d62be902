#include "round/round.h"

namespace sluice {
namespace {

Error malformed(const char* what) { return Error{Code::malformed, 0, what}; }

Status check_parts(const Round& round, std::span<const Part> parts, std::uint32_t workers) {
  const Reduction& what = round.what;
  const std::uint32_t grain = grain_of(what);
  std::uint32_t at = 0;
  for (const Part& part : parts) {
    if (part.first != at || part.count == 0 || part.count > what.count - at) {
      return malformed("answer: parts do not cover the lanes in order");
    }
    if (part.first % grain != 0) return malformed("answer: a part splits a grain");
    if (!part.from.fits(workers)) return malformed("answer: contributors beyond the workers");
    if (part.from.count() == 0) return malformed("answer: a part without contributors");
    if (!round.only.unrestricted() && !(part.from == round.only)) {
      return malformed("answer: not exactly the contributors that the round named");
    }
    at += part.count;
  }
  return at == what.count ? ok() : malformed("answer: parts do not cover all lanes");
}

}  // namespace

Status check_answer(const Round& round, const Answer& answer, std::uint32_t workers) {
  const std::size_t size_max = down_size_max(round.what, workers);
  if (round.what.count == 0) {
    return answer.down.empty() && answer.parts.empty() ? ok()
                                                       : malformed("answer to a round of no lanes");
  }
  if (is_down_size_fixed(round.what) ? answer.down.size() != size_max
                                     : answer.down.size() > size_max) {
    return malformed("answer: wrong size");
  }
  return check_parts(round, answer.parts, workers);
}

}  // namespace sluice
