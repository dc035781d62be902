#include "log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <string>
#include <thread>

#include "carrier/stream/socket.h"

namespace sluice::daemon {
namespace {

using Descriptor = stream::Socket;  // closes itself
using std::chrono::milliseconds;

struct Pipe {
  Pipe() {
    std::array<int, 2> ends{};
    EXPECT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
    out = Descriptor(ends[0]);
    in = Descriptor(ends[1]);
  }
  // All bytes, until the other end is closed.
  std::string read_all() const {
    std::string text;
    std::array<char, 65536> buffer{};
    ssize_t size = 0;
    while ((size = read(out.descriptor(), buffer.data(), buffer.size())) > 0) {
      text.append(buffer.data(), static_cast<std::size_t>(size));
    }
    return text;
  }
  Descriptor out;
  Descriptor in;
};

// Says lines until one is lost: the pipe is full, and so is the queue.
std::uint64_t fill(Log& log) {
  std::uint64_t count = 0;
  while (log.lost() == 0) log.say(fmt::format("line {} {}", count++, std::string(200, 'x')));
  return count;
}

std::size_t count_of(const std::string& text, const std::string& what) {
  std::size_t count = 0;
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

TEST(Log, LinesComeWholeInOrderAndWithTheName) {
  Pipe pipe;
  {
    Log log(pipe.in.descriptor());
    log.say("one");
    log.say("two");
    EXPECT_TRUE(log.flush(milliseconds(60'000)));
    EXPECT_EQ(log.lost(), 0u);
  }
  pipe.in = Descriptor();
  EXPECT_EQ(pipe.read_all(), "sluiced: one\nsluiced: two\n");
}

TEST(Log, LongLinesAreCut) {
  Pipe pipe;
  {
    Log log(pipe.in.descriptor());
    log.say(std::string(100'000, 'y'));
  }
  pipe.in = Descriptor();
  EXPECT_EQ(pipe.read_all(), "sluiced: " + std::string(kLogLineSizeMax, 'y') + "\n");
}

TEST(Log, WithoutAReaderLinesAreLostAndCountedAndNobodyWaits) {
  Pipe pipe;
  Log log(pipe.in.descriptor());
  const std::uint64_t said = fill(log);
  EXPECT_GE(said, kLogLinesMax);
  for (int i = 0; i < 4; ++i) log.say("lost");
  EXPECT_EQ(log.lost(), 5u);
  EXPECT_FALSE(log.flush(milliseconds(0))) << "nothing is read";
  pipe.out = Descriptor();  // lets the thread go
  EXPECT_TRUE(log.flush(milliseconds(60'000)));
}

TEST(Log, OneLineSaysHowManyWereLostWhereTheyAreMissing) {
  Pipe pipe;
  Log log(pipe.in.descriptor());
  const std::uint64_t said = fill(log);
  log.say("lost");
  log.say("lost");
  std::string text;
  std::thread reader([&] { text = pipe.read_all(); });
  EXPECT_TRUE(log.flush(milliseconds(60'000)));
  log.say("after");
  EXPECT_TRUE(log.flush(milliseconds(60'000)));
  pipe.in = Descriptor();
  reader.join();
  EXPECT_EQ(count_of(text, "sluiced: line "), said - 1);
  const std::string words = "x\nsluiced: 3 lines of this log were lost: nobody read them in time\n";
  EXPECT_EQ(count_of(text, words), 1u);
  EXPECT_TRUE(text.ends_with(words + "sluiced: after\n")) << text.substr(text.size() - 300);
  EXPECT_EQ(log.lost(), 3u);
}

TEST(Log, WhatIsSaidWhileLinesAreLostStandsBehindTheirNumber) {
  Pipe pipe;
  Log log(pipe.in.descriptor());
  std::uint64_t said = fill(log);
  std::string text;
  std::thread reader([&] { text = pipe.read_all(); });
  for (bool is_lost = true; is_lost; ++said) {
    const std::uint64_t before = log.lost();
    log.say("line behind");
    is_lost = log.lost() != before;
  }
  EXPECT_TRUE(log.flush(milliseconds(60'000)));
  pipe.in = Descriptor();
  reader.join();
  EXPECT_EQ(count_of(text, "sluiced: line "), said - log.lost());
  EXPECT_TRUE(text.ends_with(" lost: nobody read them in time\nsluiced: line behind\n"));
}

TEST(Log, AFailingDescriptorLosesLinesAndNothingElse) {
  Pipe pipe;
  pipe.out = Descriptor();
  Log log(pipe.in.descriptor());
  log.say("nobody is there");
  EXPECT_TRUE(log.flush(milliseconds(60'000)));
  EXPECT_EQ(log.lost(), 1u);
}

}  // namespace
}  // namespace sluice::daemon
