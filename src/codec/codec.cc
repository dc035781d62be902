#include "codec/codec.h"

namespace sluice {

std::string_view name_of(Contraction contraction) {
  switch (contraction) {
    case Contraction::always: return "always";
    case Contraction::typical: return "typical";
    case Contraction::never: return "never";
  }
  return "unknown";
}

}  // namespace sluice
