#include "reload.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace sluice::daemon {
namespace {

using Lines = std::vector<std::string>;

Options running() {
  Options options;
  options.config = "/etc/x.conf";
  return options;
}

TEST(Reload, NothingChangesAndSaysSo) {
  const Reload result = reload(running(), running());
  EXPECT_EQ(result.lines, Lines{"read /etc/x.conf again: nothing changes"});
}

TEST(Reload, WhatCanChangeChangesAndIsNamed) {
  Options wanted = running();
  wanted.jobs_max = 1;
  wanted.slots_max = 2;
  wanted.memory_max = 3;
  wanted.lease_seconds = 4;
  wanted.drain_seconds = 5;
  wanted.wait_log_seconds = 6;
  const Reload result = reload(running(), wanted);
  EXPECT_EQ(result.lines,
            Lines{"read /etc/x.conf again: jobs-max 64 -> 1, slots-max 8192 -> 2, memory-max "
                  "1073741824 -> 3, lease 60 -> 4, drain 30 -> 5, wait-log 5 -> 6"});
  EXPECT_EQ(result.options.jobs_max, 1u);
  EXPECT_EQ(result.options.slots_max, 2u);
  EXPECT_EQ(result.options.memory_max, 3u);
  EXPECT_EQ(result.options.lease_seconds, 4u);
  EXPECT_EQ(result.options.drain_seconds, 5u);
  EXPECT_EQ(result.options.wait_log_seconds, 6u);
}

TEST(Reload, WhatCannotChangeStaysAndIsNamedEveryTime) {
  Options wanted = running();
  wanted.listen = "a:1";
  wanted.http = "b:2";
  wanted.frame_size = 2000;
  wanted.lease_seconds = 7;
  const Lines refusals{"listen stays 0.0.0.0:48864: a:1 needs a restart",
                       "http stays off: b:2 needs a restart",
                       "frame-size stays 9000: 2000 needs a restart"};
  Reload result = reload(running(), wanted);
  EXPECT_EQ(result.lines[0], "read /etc/x.conf again: lease 60 -> 7");
  EXPECT_EQ(Lines(result.lines.begin() + 1, result.lines.end()), refusals);
  EXPECT_EQ(result.options.listen, running().listen);
  EXPECT_EQ(result.options.http, running().http);
  EXPECT_EQ(result.options.frame_size, running().frame_size);
  result = reload(result.options, wanted);
  EXPECT_EQ(result.lines[0], "read /etc/x.conf again: nothing changes");
  EXPECT_EQ(result.lines.size(), 4u);
}

}  // namespace
}  // namespace sluice::daemon
