#include "catalog/feedbacks.h"

#include <gtest/gtest.h>

#include <string>

#include "catalog/codecs.h"

namespace sluice {
namespace {

std::string refusal(std::string_view spec, std::string_view feedback = "ef") {
  const auto codec = make_codec(spec);
  const Verdict verdict =
      check_feedback(*make_feedback(feedback), codec->codec->traits(4), codec->spec);
  if (verdict) return "";
  EXPECT_EQ(verdict.error().code, Code::invalid_argument);
  return verdict.error().message;
}

TEST(Feedbacks, EveryNameMakesItsKind) {
  for (const FeedbackInfo& info : kFeedbacks) {
    const auto made = make_feedback(info.name);
    ASSERT_TRUE(made.has_value()) << info.name;
    EXPECT_EQ(made->info, &info);
    EXPECT_EQ(made->spec, info.name);
    EXPECT_EQ(made->kind != nullptr, info.make != nullptr);
    EXPECT_FALSE(info.summary.empty());
  }
}

// They are in saved state.
TEST(Feedbacks, IdsStayWhatTheyAre) {
  EXPECT_EQ(make_feedback("none")->info->id, 0u);
  EXPECT_EQ(make_feedback("ef")->info->id, 1u);
  EXPECT_EQ(make_feedback("dgc")->info->id, 2u);
}

TEST(Feedbacks, SpecsAreCanonicalAndOptionsAreParsedLikeACodecs) {
  EXPECT_EQ(make_feedback("dgc:momentum=0.9")->spec, "dgc");
  EXPECT_EQ(make_feedback("dgc:momentum=1/2")->spec, "dgc:momentum=0.5");
  EXPECT_EQ(make_feedback("dgc:momentum=0")->spec, "dgc:momentum=0");
}

TEST(Feedbacks, WhatIsNotAcceptedIsNamedWithWhatIs) {
  struct Case {
    std::string spec;
    std::string words;
  };
  for (const Case& one :
       {Case{"", "unknown feedback ''; accepted: none, ef, dgc"},
        Case{"EF", "unknown feedback 'EF'"}, Case{"ef ", "unknown feedback 'ef '"},
        Case{"none,ef", "unknown feedback 'none,ef'"},
        Case{"ef:", "feedback 'ef' has no option ''; accepted: none"},
        Case{"none:a=1", "feedback 'none' has no option 'a=1'"},
        Case{"dgc:momentum=1.1", "accepted: 0 to 1"}, Case{"dgc:momentum=nan", "accepted: 0 to 1"},
        Case{"dgc:momentum=0,momentum=0", "is given twice"}}) {
    const auto made = make_feedback(one.spec);
    ASSERT_FALSE(made.has_value()) << one.spec;
    EXPECT_EQ(made.error().code, Code::invalid_argument);
    EXPECT_NE(made.error().message.find(one.words), std::string::npos) << made.error().message;
  }
  EXPECT_EQ(feedbacks_accepted(), "none, ef, dgc[:momentum=0.9]");
}

TEST(Feedbacks, EveryKindIsRefusedWhereOneIs) {
  for (const Info& info : kCodecs) {
    EXPECT_EQ(refusal(info.name, "dgc").empty(), refusal(info.name).empty()) << info.name;
  }
  EXPECT_NE(refusal("bf16", "dgc:momentum=0.5").find("feedback 'dgc:momentum=0.5' with codec"),
            std::string::npos);
}

TEST(Feedbacks, NoneIsTakenByEveryCodec) {
  for (const Info& info : kCodecs) {
    const auto codec = make_codec(info.name);
    EXPECT_TRUE(check_feedback(*make_feedback("none"), codec->codec->traits(4), codec->spec))
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
