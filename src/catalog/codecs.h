// The catalogue of codecs: one row each. The command line, the conformance suite, the fuzzers, the
// benchmarks and the docs all walk this table.
//
// Rows live as long as the program. Functions have no state: any thread may call them. They are for
// start-up, and allocate.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "catalog/specs.h"
#include "codec/blocks/blocks.h"
#include "codec/dense/dense.h"
#include "codec/fixed/fixed.h"
#include "codec/info.h"
#include "codec/lhc/lhc.h"
#include "codec/lossless/lossless.h"
#include "codec/thc/thc.h"
#include "codec/tide/tide.h"

namespace sluice {

inline constexpr std::array kCodecs{dense::kF32,   dense::kBf16,    dense::kFp16,
                                    fixed::kInfo,  thc::kInfo,      tide::kInfo,
                                    blocks::kInfo, lossless::kInfo, lhc::kInfo};

consteval bool codecs_are_well_formed() {
  for (std::size_t i = 0; i < kCodecs.size(); ++i) {
    const Info& info = kCodecs[i];
    if (info.id == 0 || info.name.empty() || info.make == nullptr) return false;
    if (info.options.size() > kOptionsMax) return false;
    for (std::size_t j = 0; j < i; ++j) {
      if (kCodecs[j].id == info.id || kCodecs[j].name == info.name) return false;
    }
  }
  return true;
}
static_assert(codecs_are_well_formed(), "codec ids and names must be unique, options few");

// A codec as the user named it.
struct NamedCodec {
  const Info* info = nullptr;  // its row
  std::string spec;  // canonical: name, then the options that differ from the default, in order
  std::unique_ptr<Codec> codec;
};

// SPEC is `name` or `name:key=value,key=value`, of any bytes. Code::invalid_argument names what is
// accepted.
Checked<NamedCodec> make_codec(std::string_view spec);

// What a spec of the catalogue means with a feedback, or without: options that follow it ("auto")
// have their meaning. A spec that is not of the catalogue is given back as it is. Refused: options
// that then contradict each other.
Checked<std::string> settle_spec(std::string_view spec, bool feedback);

// Whether a state that was saved under one spec fits a codec of another: the same name, and the
// same options but for those that only say what is sent (OptionInfo::resumes). False for specs that
// do not parse, unless they are equal.
bool resumes(std::string_view saved, std::string_view spec);

}  // namespace sluice
