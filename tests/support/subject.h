// What the conformance suites run over: every codec of the catalogue on every carrier that needs no
// launcher, and for what no codec of the catalogue does, a fake one.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "carrier/world.h"
#include "codec/codec.h"

namespace sluice::support {

struct Subject {
  std::string_view codec;
  const CarrierInfo* carrier = nullptr;
};

std::vector<Subject> catalogue();             // codecs × carriers
std::vector<Subject> catalogue_and_fake();    // … and the fake codec
std::vector<Subject> each_codec_on_local();   // of these, one subject per codec
std::string name_of(const Subject& subject);  // letters, digits and '_'
void PrintTo(const Subject& subject, std::ostream* out);

std::unique_ptr<Codec> make_codec_of(const Subject& subject);

// The SPECs of all kinds of feedback that remember something; none where the codec takes none.
std::vector<std::string_view> feedbacks_for(const Traits& traits);

// Whether SLUICE_CONFORMANCE=full asks for whole products in place of covering sets and samples.
bool is_full();

class ConformanceTest : public ::testing::TestWithParam<Subject> {
 protected:
  ConformanceTest() : codec_(make_codec_of(GetParam())) {}
  [[nodiscard]] const Codec& codec() const { return *codec_; }
  [[nodiscard]] const CarrierInfo& carrier() const { return *GetParam().carrier; }
  [[nodiscard]] Traits traits() const { return codec_->traits(3); }
  [[nodiscard]] bool takes_feedback() const { return traits().takes_feedback(); }
  [[nodiscard]] std::vector<std::string_view> feedbacks() const { return feedbacks_for(traits()); }

 private:
  std::unique_ptr<Codec> codec_;
};

inline std::string name_of_param(const ::testing::TestParamInfo<Subject>& info) {
  return name_of(info.param);
}

}  // namespace sluice::support
