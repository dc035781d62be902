// The golden frames of tests/data/wire, for the tests here. make_wire_golden.py there wrote them
// from docs/wire-format.md and shares nothing with the library.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <fstream>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/hex.h"

// The build says where; a header must compile without it as well.
#ifndef SLUICE_TEST_DATA
#define SLUICE_TEST_DATA "tests/data"
#endif

namespace sluice::wire {

using Datagram = std::vector<std::byte>;

using support::hex;

// "-" stands for no bytes.
inline Datagram from_hex(std::string_view text) {
  Datagram bytes;
  if (text == "-") return bytes;
  EXPECT_EQ(text.size() % 2, 0u);
  for (std::size_t i = 0; i + 1 < text.size(); i += 2) {
    bytes.push_back(
        static_cast<std::byte>(std::stoul(std::string(text.substr(i, 2)), nullptr, 16)));
  }
  return bytes;
}

inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// The lines of a file, each split at its first blanks into this many pieces.
inline std::vector<std::vector<std::string>> golden_lines(const std::string& name,
                                                          std::size_t pieces) {
  std::ifstream file(std::string(SLUICE_TEST_DATA) + "/wire/" + name);
  EXPECT_TRUE(file.good()) << name;
  std::vector<std::vector<std::string>> lines;
  for (std::string line; std::getline(file, line);) {
    std::vector<std::string> split;
    while (split.size() + 1 < pieces) {
      const std::size_t blank = line.find(' ');
      EXPECT_NE(blank, std::string::npos) << name;
      split.push_back(line.substr(0, blank));
      line.erase(0, blank + 1);
    }
    split.push_back(line);
    lines.push_back(split);
  }
  EXPECT_FALSE(lines.empty()) << name;
  return lines;
}

inline std::map<std::string, Datagram> good_frames() {
  std::map<std::string, Datagram> frames;
  for (const auto& line : golden_lines("good.txt", 2)) frames[line[0]] = from_hex(line[1]);
  return frames;
}

}  // namespace sluice::wire
