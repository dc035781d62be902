#include "catalog/carriers.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace sluice {
namespace {

TEST(Carriers, EveryRowIsFoundByItsNameAndMakesAWorld) {
  std::set<std::string_view> names;
  for (const CarrierInfo& info : kCarriers) {
    const auto found = find_carrier(info.name);
    ASSERT_TRUE(found.has_value()) << info.name;
    EXPECT_EQ((*found)->name, info.name);
    EXPECT_FALSE((*found)->summary.empty());
    EXPECT_GE((*found)->workers_max, 1u);
    names.insert(info.name);
    if (info.launched != nullptr) continue;  // Its workers are other processes.
    WorldOptions options;
    options.workers = 2;
    const auto world = (*found)->make_world(options);
    ASSERT_TRUE(world.has_value()) << world.error().message;
    EXPECT_NE(&(*world)->port(0), &(*world)->port(1));
  }
  EXPECT_EQ(names.size(), kCarriers.size());
}

TEST(Carriers, AnUnknownNameIsNamedWithWhatIsAccepted) {
  for (const std::string name : {"", "Local", "local ", "tcp"}) {
    const auto found = find_carrier(name);
    ASSERT_FALSE(found.has_value()) << name;
    EXPECT_EQ(found.error().code, Code::invalid_argument);
    EXPECT_NE(found.error().message.find("unknown carrier '" + name + "'"), std::string::npos);
    EXPECT_NE(found.error().message.find("local"), std::string::npos);
  }
}

}  // namespace
}  // namespace sluice
