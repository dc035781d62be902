// The C functions about the library itself, its catalogue and codecs.
#include <deque>
#include <string>

#include "abi/edge.h"
#include "base/limits.h"
#include "catalog/carriers.h"
#include "kernels/level.h"

namespace {

using namespace sluice;  // NOLINT(google-build-using-namespace): the file is the C edge of it

constexpr const char* kNoText = nullptr;

// Null-terminated copies of a catalogue's names, made once.
template <class Rows>
const std::vector<std::string>& names_of(const Rows& rows) {
  static const std::vector<std::string> names = [&] {
    std::vector<std::string> made;
    made.reserve(rows.size());
    for (const auto& row : rows) made.emplace_back(row.name);
    return made;
  }();
  return names;
}

const char* name_at(const std::vector<std::string>& names, std::size_t index) {
  return index < names.size() ? names[index].c_str() : nullptr;
}

// What C may read of a codec. Deques, because pointers into them are handed out while they grow.
class CodecPage {
 public:
  explicit CodecPage(const Info& info) : summary_(keep(info.summary)) {
    options_.reserve(info.options.size());
    for (const OptionInfo& option : info.options) options_.push_back(describe_to_c(option));
  }

  [[nodiscard]] const char* summary() const { return summary_; }
  [[nodiscard]] const std::vector<sluice_codec_option>& options() const { return options_; }

 private:
  const char* keep(std::string_view text) { return texts_.emplace_back(text).c_str(); }

  sluice_codec_option describe_to_c(const OptionInfo& option) {
    std::vector<const char*>& choices = choices_.emplace_back();
    for (const std::string_view choice : option.choices) choices.push_back(keep(choice));
    return {.key = keep(option.key),
            .help = keep(option.help),
            .text = keep(describe(option)),
            .kind = static_cast<std::uint32_t>(option.kind),
            .multiple_of = option.multiple_of,
            .preset = option.preset,
            .minimum = option.minimum,
            .maximum = option.maximum,
            .choices = choices.empty() ? nullptr : choices.data(),
            .choice_count = choices.size()};
  }

  std::deque<std::string> texts_;
  std::deque<std::vector<const char*>> choices_;
  const char* summary_;
  std::vector<sluice_codec_option> options_;
};

// Made once; nullptr beyond the catalogue.
const CodecPage* page_at(std::size_t index) {
  static const std::deque<CodecPage> pages = [] {
    std::deque<CodecPage> made;
    for (const Info& info : kCodecs) made.emplace_back(info);
    return made;
  }();
  return index < pages.size() ? &pages[index] : nullptr;
}

}  // namespace

extern "C" {

const char* sluice_version(void) { return SLUICE_VERSION; }

uint32_t sluice_abi_version(void) { return SLUICE_ABI_VERSION; }

sluice_code sluice_check_environment(void) {
  return sluice::abi::call({__func__}, [] { return check_forced_level(); });
}

const char* sluice_kernel_level(void) {
  return sluice::abi::value("scalar", [] { return name_of(kernel_level()).data(); });
}

size_t sluice_codec_count(void) { return kCodecs.size(); }

const char* sluice_codec_name(size_t index) {
  return sluice::abi::value(kNoText, [&] { return name_at(names_of(kCodecs), index); });
}

const char* sluice_codec_summary(size_t index) {
  return sluice::abi::value(kNoText, [&] {
    const CodecPage* const page = page_at(index);
    return page == nullptr ? kNoText : page->summary();
  });
}

const sluice_codec_option* sluice_codec_options(size_t index, size_t* count) {
  if (count == nullptr) return nullptr;
  *count = 0;
  const CodecPage* const none = nullptr;
  const CodecPage* const page = sluice::abi::value(none, [&] { return page_at(index); });
  if (page == nullptr || page->options().empty()) return nullptr;
  *count = page->options().size();
  return page->options().data();
}

size_t sluice_carrier_count(void) { return kCarriers.size(); }

const char* sluice_carrier_name(size_t index) {
  return sluice::abi::value(kNoText, [&] { return name_at(names_of(kCarriers), index); });
}

sluice_code sluice_codec_make(const char* spec, sluice_codec** codec) {
  return sluice::abi::call({__func__}, [&]() -> Verdict {
    SLUICE_TRY(sluice::abi::check_pointers({{spec, "spec"}, {codec, "codec"}}));
    SLUICE_TRY_ASSIGN(NamedCodec named, make_codec(spec));
    auto made = std::make_unique<sluice_codec>();
    made->named = std::make_shared<const NamedCodec>(std::move(named));
    *codec = made.release();
    return Nothing{};
  });
}

void sluice_codec_free(sluice_codec* codec) { std::unique_ptr<sluice_codec>{codec}; }

const char* sluice_codec_spec(const sluice_codec* codec) {
  return codec == nullptr ? nullptr : codec->named->spec.c_str();
}

sluice_code sluice_codec_traits(const sluice_codec* codec, uint32_t workers,
                                sluice_traits* traits) {
  return sluice::abi::call({__func__}, [&]() -> Verdict {
    SLUICE_TRY(sluice::abi::check_pointers({{codec, "codec"}}));
    if (workers < 1 || workers > kWorkersMax) {
      return sluice::abi::invalid("workers is " + std::to_string(workers) +
                                  "; accepted: 1 to 4096");
    }
    const Traits from = codec->named->codec->traits(workers);
    const sluice_traits shown{sizeof(sluice_traits),
                              from.homomorphic,
                              from.lossless,
                              from.unbiased,
                              from.quorum,
                              from.takes_feedback(),
                              0};
    return sluice::abi::write_sized("traits", shown, traits);
  });
}

sluice_code sluice_widen(const char* format, const void* from, uint64_t count, float* to) {
  return sluice::abi::call({__func__}, [&]() -> Verdict {
    SLUICE_TRY_ASSIGN(const floats::Format parsed, sluice::abi::half_from(format));
    SLUICE_TRY(sluice::abi::check_array(from, count, "from"));
    SLUICE_TRY(sluice::abi::check_array(to, count, "to"));
    const auto size = static_cast<std::size_t>(count);
    floats::decode(parsed, {static_cast<const std::byte*>(from), 2 * size}, {to, size});
    return Nothing{};
  });
}

sluice_code sluice_shorten(const char* format, const float* from, uint64_t count, void* to) {
  return sluice::abi::call({__func__}, [&]() -> Verdict {
    SLUICE_TRY_ASSIGN(const floats::Format parsed, sluice::abi::half_from(format));
    SLUICE_TRY(sluice::abi::check_array(from, count, "from"));
    SLUICE_TRY(sluice::abi::check_array(to, count, "to"));
    const auto size = static_cast<std::size_t>(count);
    floats::encode(parsed, {from, size}, 1.0f, {static_cast<std::byte*>(to), 2 * size});
    return Nothing{};
  });
}

}  // extern "C"
