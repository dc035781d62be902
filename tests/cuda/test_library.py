"""libsluice_cuda.so from outside: what it shows, what it asks for, how large it is."""

import re
import unittest

from build_kit import LIBRARY, Scratch, configured, needs_cuda, run

SHOWN = ["sluice_cuda_table"]
NEEDED = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1",
          "ld-linux-x86-64.so.2"}
SIZE_MAX = 15_000_000
ARCHITECTURES = 6  # of a wheel; tests are compiled for fewer


@needs_cuda
class Library(Scratch):
    def test_it_shows_one_function(self):
        lines = self.succeed(run("nm", "-D", "--defined-only", LIBRARY)).splitlines()
        self.assertEqual([line.split()[-1] for line in lines], SHOWN)

    def test_it_asks_for_the_c_library_alone(self):
        entries = self.succeed(run("readelf", "-d", LIBRARY))
        self.assertEqual(set(re.findall(r"\(NEEDED\).*\[(.*)\]", entries)) - NEEDED, set())

    def test_it_is_small_with_code_for_all_architectures(self):
        size = LIBRARY.stat().st_size
        sections = self.succeed(run("readelf", "-SW", LIBRARY))
        kernels = int(re.search(r"\.nv_fatbin\s+PROGBITS\s+\w+ \w+ (\w+)", sections).group(1), 16)
        # As if all were code for GPUs, though some is PTX, of which there is one.
        whole = size + kernels * (ARCHITECTURES / len(configured()["architectures"]) - 1)
        self.assertLessEqual(max(size, whole), SIZE_MAX)


if __name__ == "__main__":
    unittest.main()
