// Suites in which other carriers must give every codec the bits of `local`.
#pragma once

#include "carrier/world.h"
#include "tests/support/arrangement.h"
#include "tests/support/subject.h"

namespace sluice::support {

class LikeLocalTest : public ConformanceTest {
 protected:
  // On this carrier and in this way the scenario ends as it does on `local`.
  void check(const Scenario& scenario, const Way& way, const CarrierInfo& other);
};

}  // namespace sluice::support
