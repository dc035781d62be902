#include "tests/support/subject.h"

#include <cctype>
#include <cstdlib>
#include <ostream>

#include "base/assert.h"
#include "catalog/carriers.h"
#include "catalog/codecs.h"
#include "catalog/feedbacks.h"
#include "tests/support/fake_codec.h"

namespace sluice::support {
namespace {

// Those whose workers are all in this process; the others need a launcher.
std::vector<const CarrierInfo*> carriers() {
  std::vector<const CarrierInfo*> found;
  for (const CarrierInfo& carrier : kCarriers) {
    if (carrier.launched == nullptr) found.push_back(&carrier);
  }
  return found;
}

}  // namespace

std::vector<Subject> catalogue() {
  std::vector<Subject> subjects;
  for (const Info& codec : kCodecs) {
    for (const CarrierInfo* carrier : carriers()) subjects.push_back({codec.name, carrier});
  }
  return subjects;
}

std::vector<Subject> catalogue_and_fake() {
  std::vector<Subject> subjects = catalogue();
  for (const CarrierInfo* carrier : carriers()) subjects.push_back({kFakeName, carrier});
  return subjects;
}

std::vector<Subject> each_codec_on_local() {
  std::vector<Subject> subjects = catalogue_and_fake();
  std::erase_if(subjects, [](const Subject& one) { return one.carrier->name != "local"; });
  return subjects;
}

std::string name_of(const Subject& subject) {
  std::string name = std::string(subject.codec) + "_" + std::string(subject.carrier->name);
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return name;
}

void PrintTo(const Subject& subject, std::ostream* out) { *out << name_of(subject); }

std::unique_ptr<Codec> make_codec_of(const Subject& subject) {
  if (subject.codec == kFakeName) return make_fake_codec();
  auto made = make_codec(subject.codec);
  SLUICE_ASSERT(made.has_value());
  return std::move(made->codec);
}

std::vector<std::string_view> feedbacks_for(const Traits& traits) {
  if (!traits.takes_feedback()) return {kNoFeedback.name};
  std::vector<std::string_view> names;
  for (const FeedbackInfo& info : kFeedbacks) {
    if (!info.memories.empty()) names.push_back(info.name);
  }
  return names;
}

bool is_full() {
  const char* const value = std::getenv("SLUICE_CONFORMANCE");
  return value != nullptr && std::string_view(value) == "full";
}

}  // namespace sluice::support
