#include "catalog/feedbacks.h"

#include <gtest/gtest.h>

#include <string>

#include "catalog/codecs.h"

namespace sluice {
namespace {

std::string refusal(std::string_view spec) {
  const auto codec = make_codec(spec);
  const Verdict verdict = check_feedback(FeedbackKind::ef, codec->codec->traits(4), codec->spec);
  if (verdict) return "";
  EXPECT_EQ(verdict.error().code, Code::invalid_argument);
  return verdict.error().message;
}

TEST(Feedbacks, NoneIsTakenByEveryCodec) {
  for (const Info& info : kCodecs) {
    const auto codec = make_codec(info.name);
    EXPECT_TRUE(check_feedback(FeedbackKind::none, codec->codec->traits(4), codec->spec))
        << info.name;
  }
}

TEST(Feedbacks, ARefusalNamesTheCodecItsFaultAndAllThatAreAccepted) {
  struct Case {
    std::string spec;
    std::string fault;
  };
  for (const Case& one :
       {Case{"bf16", "come back rounded"}, Case{"fp16", "come back rounded"},
        Case{"thc:down=round", "come back rounded"}, Case{"thc:bits=1", "never a contraction"},
        Case{"lhc", "never a contraction"}}) {
    const std::string message = refusal(one.spec);
    EXPECT_NE(message.find("'" + one.spec + "'"), std::string::npos) << message;
    EXPECT_NE(message.find(one.fault), std::string::npos) << message;
    EXPECT_NE(message.find("accepted: feedback none"), std::string::npos) << message;
    for (const Info& info : kCodecs) {
      const bool taken = refusal(info.name).empty();
      EXPECT_EQ(message.find(" " + std::string(info.name) + ",") != std::string::npos ||
                    message.find(" " + std::string(info.name) + " ") != std::string::npos,
                taken)
          << info.name << ": " << message;
    }
  }
}

TEST(Feedbacks, CodecsThatLoseNothingOnTheWayDownAreTaken) {
  for (const char* spec : {"f32", "fixed", "blocks", "thc", "thc:down=narrow", "tide:down=narrow",
                           "tide:down=full", "lossless"}) {
    EXPECT_EQ(refusal(spec), "");
  }
}

}  // namespace
}  // namespace sluice
