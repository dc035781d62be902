#include "base/result.h"

namespace sluice {

std::string_view name_of(Code code) {
  switch (code) {
    case Code::ok: return "ok";
    case Code::pending: return "pending";
    case Code::malformed: return "malformed";
    case Code::mismatch: return "mismatch";
    case Code::timeout: return "timeout";
    case Code::lost: return "lost";
    case Code::exhausted: return "exhausted";
    case Code::invalid_argument: return "invalid_argument";
    case Code::unavailable: return "unavailable";
    case Code::io: return "io";
    case Code::out_of_memory: return "out_of_memory";
  }
  return "unknown";
}

}  // namespace sluice
