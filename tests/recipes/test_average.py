"""examples/average.c: compiled as docs/c-api.md says, run on every carrier; and quickstart.py."""

import os
import re
import shutil
import sys
import unittest

from recipes_kit import ROOT, RecipeTest, needs

LIBRARY = os.environ.get("SLUICE_LIBRARY", str(ROOT / "build/release/libsluice.so"))
LINE = r"rank (\d+) of 4: mean (\S+), (\S+) bits up and (\S+) down per coordinate\n"


@unittest.skipUnless(os.path.isfile(LIBRARY), f"there is no {LIBRARY}")
class Average(RecipeTest):
    def setUp(self):
        super().setUp()
        folder = os.path.dirname(os.path.abspath(LIBRARY))
        self.run_command("cc", "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Wstrict-prototypes",
                         "-Werror", f"-I{ROOT}/include", str(ROOT / "examples/average.c"),
                         f"-L{folder}", "-lsluice", f"-Wl,-rpath,{folder}",
                         "-o", self.path("average"))

    def check(self, out, ranks):
        found = re.findall(LINE, out)
        self.assertEqual(sorted(int(rank) for rank, *_ in found), ranks, out)
        self.assertEqual(len({tuple(rest) for _, *rest in found}), 1, out)  # the same on all ranks
        self.assertAlmostEqual(float(found[0][1]), 2.5, delta=0.05)
        self.assertLess(float(found[0][2]), 4.5)

    def test_local(self):
        self.check(self.run_command(self.path("average"), "local"), [0])

    @unittest.skipUnless(shutil.which("mpirun"), "mpirun is not installed (Debian: openmpi-bin)")
    def test_mpi(self):
        self.check(self.run_command("mpirun", "--oversubscribe", "-n", "4", self.path("average"),
                                    "mpi"), [0, 1, 2, 3])


@needs("numpy")
@unittest.skipUnless(os.path.isfile(LIBRARY), f"there is no {LIBRARY}")
class Quickstart(RecipeTest):
    def test_quickstart(self):
        out = self.run_command(
            sys.executable, str(ROOT / "tests/recipes/quickstart.py"),
            variables={"SLUICE_LIBRARY": LIBRARY, "PYTHONPATH": str(ROOT / "python")})
        found = re.search(r"error energy ([0-9.]+) of the mean's", out)
        self.assertTrue(found, out)
        self.assertLess(float(found[1]), 0.02)


if __name__ == "__main__":
    unittest.main()
