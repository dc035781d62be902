"""How libsluice_cuda.so is found and refused, with a driver and libraries that are stand-ins."""

import os
import pathlib
import unittest

from build_kit import BUILD, LIBRARY, ROOT, Scratch, needs_cuda, run

PROGRAM = """
#include <cstdio>
#include "device/cuda_library.h"
int main() {
  const auto loaded = sluice::device::cuda();
  std::puts(loaded ? (*loaded)->name : loaded.error().message.c_str());
}
"""
DRIVER = """
#include <cstdlib>
extern "C" int cuDriverGetVersion(int* version) {
  *version = std::atoi(std::getenv("STAND_IN_DRIVER"));
  return *version == 0 ? 999 : 0;
}
"""
TABLE = """
#include "device/device_table.h"
namespace {
int count(int* devices) { *devices = DEVICES; return 0; }
sluice::device::Table make() {
  sluice::device::Table table{};
  table.version = sluice::device::kTableVersion + NEWER;
  table.name = NAME;
  table.count = &count;
  return table;
}
}
extern "C" const sluice::device::Table* sluice_cuda_table() {
  static const sluice::device::Table table = make();
  return &table;
}
"""
NAME = "libsluice_cuda.so"


class Loading(Scratch):
    def setUp(self):
        super().setUp()
        self.compile(self.write("program.cc", PROGRAM), "program", BUILD / "libsluice.a",
                     "-lpthread", "-ldl")
        self.driver()

    def compile(self, source, made, *more):
        (self.folder / made).parent.mkdir(parents=True, exist_ok=True)
        self.succeed(run("g++", "-std=c++20", "-O0", "-I", ROOT / "src", source, *more, "-o",
                         self.folder / made))

    def driver(self):
        self.compile(self.write("driver.cc", DRIVER), "driver/libcuda.so.1", "-shared", "-fPIC")

    def library(self, made=NAME, name="stand-in", newer=0, devices=1):
        self.compile(self.write("table.cc", TABLE), made, "-shared", "-fPIC", f"-DNEWER={newer}",
                     f"-DDEVICES={devices}", f'-DNAME="{name}"')

    def said(self, version="13000", program=None, search="", cwd=None, **variables):
        path = ":".join(filter(None, (str(self.folder / "driver") if version else "", search)))
        kept = {k: v for k, v in os.environ.items()
                if k not in ("SLUICE_CUDA_LIBRARY", "LD_LIBRARY_PATH")}
        done = run(program or self.folder / "program", cwd=cwd or self.folder, env={
            **kept, "LD_LIBRARY_PATH": path, "STAND_IN_DRIVER": version, **variables})
        return self.succeed(done).strip()

    def test_it_is_found_beside_the_file_that_asks(self):
        self.library()
        self.assertEqual(self.said(), "stand-in")
        self.assertEqual(self.said("13010", cwd="/"), "stand-in")

    def test_the_variable_comes_first_and_the_loader_last(self):
        self.library("elsewhere/" + NAME, "elsewhere")
        folder = self.folder / "elsewhere"
        self.assertEqual(self.said(search=str(folder)), "elsewhere")
        self.library()
        self.assertEqual(self.said(search=str(folder)), "stand-in")
        self.assertEqual(self.said(SLUICE_CUDA_LIBRARY=str(folder / NAME)), "elsewhere")
        self.assertEqual(self.said(SLUICE_CUDA_LIBRARY=""), "stand-in")

    def test_the_folder_where_one_happens_to_be_is_not_looked_into(self):
        self.library("strange/" + NAME, "strange")
        path = f"{self.folder}:{os.environ['PATH']}"
        said = self.said(program="program", cwd=self.folder / "strange", PATH=path)
        self.assertIn(f"gpu: cannot load {NAME}: ", said)

    def test_old_and_broken_drivers_are_refused_before_the_library_is_looked_for(self):
        self.library()
        self.assertEqual(self.said("12040"), "gpu: the driver supports CUDA 12.4; accepted: NVIDIA"
                                             " driver 580 or newer, which supports CUDA 13")
        self.assertIn("cuDriverGetVersion gives error 999", self.said("0"))

    @unittest.skipIf(any(pathlib.Path(p, "libcuda.so.1").exists()
                         for p in ("/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/lib64")),
                     "this machine has a driver")
    def test_without_a_driver_there_is_no_gpu(self):
        self.library()
        self.assertIn("gpu: no driver: libcuda.so.1: ", self.said(""))
        self.assertNotIn("stand-in", self.said("", SLUICE_CUDA_LIBRARY="emulated"))
        self.assertNotIn("gpu:", self.said("", SLUICE_CUDA_LIBRARY="emulated"))

    def test_what_cannot_be_used_is_refused_with_its_path(self):
        file = str(self.folder / NAME)
        self.write(NAME, "no library")
        self.assertIn(f"gpu: cannot load {file}: ", self.said())
        self.library(newer=1)
        self.assertIn(f"gpu: {file} has a table of version ", self.said())
        self.library(devices=0)
        self.assertEqual(self.said(), f"gpu: {file} finds 0 devices; accepted: one at least")
        self.assertIn("gpu: libm.so.6 has no sluice_cuda_table",
                      self.said(SLUICE_CUDA_LIBRARY="libm.so.6"))

    @needs_cuda
    def test_the_real_one_with_a_driver_that_is_none_says_so(self):
        said = self.said(SLUICE_CUDA_LIBRARY=str(LIBRARY))
        self.assertIn(f"gpu: {LIBRARY} cannot count devices: ", said)


if __name__ == "__main__":
    unittest.main()
