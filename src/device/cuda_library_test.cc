#include "device/cuda_library.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <thread>

namespace sluice::device {
namespace {

// Some library that every machine has and that is neither a driver nor ours.
constexpr const char* kOther = "libm.so.6";

// An environment with SLUICE_CUDA_LIBRARY alone; null: without.
Environment with_library(const char* value) {
  return [value](const char* name) {
    return std::string(name) == "SLUICE_CUDA_LIBRARY" ? value : nullptr;
  };
}

template <class T>
std::string refusal(const Checked<T>& result) {
  EXPECT_FALSE(result);
  if (result) return "";
  EXPECT_EQ(result.error().code, Code::unavailable);
  return result.error().message;
}

void expect_in(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

const char* describe(int error) { return error == 7 ? "a word for seven" : "another"; }

Table table_with(int (*count)(int* devices)) {
  Table table{};
  table.version = kTableVersion;
  table.name = "a test's";
  table.describe = &describe;
  table.count = count;
  return table;
}

int two_devices(int* devices) {
  *devices = 2;
  return 0;
}

TEST(CudaLibrary, DriversFromCuda13OnAreAccepted) {
  for (const int version : {13000, 13010, 13020, 14000}) {
    EXPECT_TRUE(check_driver_version(version)) << version;
  }
}

TEST(CudaLibrary, OlderDriversAreRefusedWithWhatTheySupport) {
  EXPECT_EQ(refusal(check_driver_version(12080)),
            "gpu: the driver supports CUDA 12.8; accepted: NVIDIA driver 580 or newer, which "
            "supports CUDA 13");
  expect_in(refusal(check_driver_version(12990)), "CUDA 12.99;");
  expect_in(refusal(check_driver_version(11000)), "CUDA 11.0;");
  expect_in(refusal(check_driver_version(0)), "CUDA 0.0;");
}

TEST(CudaLibrary, WithoutADriverItSaysWhichFileIsMissing) {
  const std::string said = refusal(check_driver("/nowhere/libcuda.so.1"));
  expect_in(said, "gpu: no driver: /nowhere/libcuda.so.1: ");
  expect_in(said, "accepted: NVIDIA driver 580 or newer");
}

TEST(CudaLibrary, WhatIsNoDriverIsRefused) {
  expect_in(refusal(check_driver(kOther)), "gpu: libm.so.6 has no cuDriverGetVersion;");
}

TEST(CudaLibrary, AMissingLibraryIsNamedWithThePlacesForIt) {
  const std::string said = refusal(open_cuda_library("/nowhere/libsluice_cuda.so"));
  expect_in(said, "gpu: cannot load /nowhere/libsluice_cuda.so: ");
  expect_in(said, "beside libsluice.so or named by SLUICE_CUDA_LIBRARY");
}

TEST(CudaLibrary, ALibraryWithoutATableIsRefused) {
  EXPECT_EQ(refusal(open_cuda_library(kOther)),
            "gpu: libm.so.6 has no sluice_cuda_table; accepted: a libsluice_cuda.so");
}

TEST(CudaLibrary, ATableOfThisVersionWithDevicesIsAccepted) {
  const Table table = table_with(&two_devices);
  const auto checked = check_table(&table, "x.so");
  ASSERT_TRUE(checked);
  EXPECT_EQ(*checked, &table);
}

TEST(CudaLibrary, ATableOfAnotherVersionIsNotCalled) {
  Table table{};  // Its functions are null.
  table.version = kTableVersion + 1;
  EXPECT_EQ(refusal(check_table(&table, "x.so")),
            "gpu: x.so has a table of version " + std::to_string(kTableVersion + 1) +
                "; accepted: " + std::to_string(kTableVersion) +
                ", as this version of Sluice has it");
}

TEST(CudaLibrary, NoTableNoDevicesAndErrorsAreRefused) {
  EXPECT_EQ(refusal(check_table(nullptr, "x.so")), "gpu: x.so has no table");
  const Table failing = table_with([](int*) { return 7; });
  EXPECT_EQ(refusal(check_table(&failing, "x.so")),
            "gpu: x.so cannot count devices: a word for seven (error 7)");
  const Table empty = table_with([](int* devices) {
    *devices = 0;
    return 0;
  });
  EXPECT_EQ(refusal(check_table(&empty, "x.so")),
            "gpu: x.so finds 0 devices; accepted: one at least");
}

TEST(CudaLibrary, TheEmulatedDeviceNeedsNoDriver) {
  const auto loaded = load_cuda(with_library("emulated"));
  ASSERT_TRUE(loaded);
  EXPECT_EQ(*loaded, &emulated());
}

TEST(CudaLibrary, TheDriverIsLookedForBeforeTheLibrary) {
  const Verdict driver = check_driver("libcuda.so.1");
  const std::string said = refusal(load_cuda(with_library("/nowhere/libsluice_cuda.so")));
  if (driver) {
    expect_in(said, "/nowhere/libsluice_cuda.so");
  } else {
    EXPECT_EQ(said, driver.error().message);
  }
}

void expect_same(const Checked<const Table*>& a, const Checked<const Table*>& b) {
  ASSERT_EQ(a.has_value(), b.has_value());
  if (a) {
    EXPECT_EQ(*a, *b);
  } else {
    EXPECT_EQ(a.error().message, b.error().message);
  }
}

TEST(CudaLibrary, AnEmptyVariableCountsAsNotSet) {
  expect_same(load_cuda(with_library("")), load_cuda(with_library(nullptr)));
}

TEST(CudaLibrary, AllThreadsGetTheSameAnswer) {
  const auto mine = cuda();
  std::array<std::thread, 4> threads;
  for (std::thread& thread : threads) {
    thread = std::thread([&mine] { expect_same(cuda(), mine); });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(CudaLibrary, TheRealOneCountsItsDevices) {
  const auto loaded = cuda();
  if (!loaded) GTEST_SKIP() << loaded.error().message;
  int devices = 0;
  ASSERT_EQ((*loaded)->count(&devices), 0);
  EXPECT_GE(devices, 1);
}

}  // namespace
}  // namespace sluice::device
