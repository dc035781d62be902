"""examples/average.c: compiled as docs/c-api.md says, run on every carrier; examples/collectives.c;
examples/average_mpi.c: compiled in the ways that MPI programs are; and quickstart.py."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import unittest

from mpi_kit import INCLUDE, LIBRARY, LIBRARY_FOLDER, MPIRUN, SHARED, STRICT, needs_mpi
from recipes_kit import ROOT, RecipeTest, needs

STATIC = os.path.join(LIBRARY_FOLDER, "libsluice.a")
OPENED = str(ROOT / "tests/recipes/opened.c")
LINE = r"rank (\d+) of 4: mean (\S+), (\S+) bits up and (\S+) down per coordinate\n"


@unittest.skipUnless(os.path.isfile(LIBRARY), f"there is no {LIBRARY}")
class Average(RecipeTest):
    def setUp(self):
        super().setUp()
        self.run_command("cc", *STRICT, INCLUDE, str(ROOT / "examples/average.c"), *SHARED, "-o",
                         self.path("average"))

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
        self.check(self.run_command(*MPIRUN, "-n", "4", self.path("average"), "mpi"),
                   [0, 1, 2, 3])


@unittest.skipUnless(os.path.isfile(LIBRARY), f"there is no {LIBRARY}")
class Collectives(RecipeTest):
    def test_means_and_buckets(self):
        program = self.path("collectives")
        self.run_command("cc", *STRICT, INCLUDE, str(ROOT / "examples/collectives.c"), *SHARED,
                         "-lpthread", "-o", program)
        out = self.run_command(program)
        means = re.findall(r"^rank (\d) of 2: mean (\S+)$", out, re.MULTILINE)
        self.assertEqual([rank for rank, _ in means], ["0", "1"], out)
        self.assertEqual(means[0][1], means[1][1], out)
        self.assertAlmostEqual(float(means[0][1]), 1.5, delta=0.05)
        for rank in "01":
            buckets = re.findall(rf"^rank {rank}: bucket (\d) is there$", out, re.MULTILINE)
            self.assertEqual(buckets, list("012345"), out)


@needs_mpi
class AverageMpi(RecipeTest):
    """A program that names MPI_COMM_WORLD may have MPI's object in itself or not, and look it up
    early or late, as it was compiled and linked."""

    SOURCE = str(ROOT / "examples/average_mpi.c")
    LINE = re.compile(r"rank (\d+) of (\d+): mean (\S+), exactly (\S+);"
                      r" largest of any rank (\S+)\n")

    def check(self, *command, variables=None):
        """Compiles and links, then averages on 1, 2 and 4 ranks."""
        program = self.path("average_mpi")
        self.run_command(*command, "-o", program)
        for ranks in (1, 2, 4):
            out = self.run_command(*MPIRUN, "-n", str(ranks), program, variables=variables)
            found = self.LINE.findall(out)
            self.assertEqual(len(found), len(out.splitlines()), out)
            self.assertEqual(sorted(int(rank) for rank, *_ in found), list(range(ranks)), out)
            for _, size, mean, exact, largest in found:
                self.assertEqual((int(size), float(exact)), (ranks, (ranks + 1) / 2), out)
                self.assertAlmostEqual(float(mean), float(exact), delta=0.01)
                self.assertEqual(mean, largest, out)  # the same on all ranks
        return program

    def symbols(self, program):
        return subprocess.run(["nm", "-D", program], capture_output=True, text=True,
                              check=True).stdout

    def test_mpicc(self):
        program = self.check("mpicc", *STRICT, INCLUDE, self.SOURCE, *SHARED)
        # Or this would not be the case that it is meant to be.
        self.assertRegex(self.symbols(program), r" B ompi_mpi_comm_world\b")

    def test_mpicc_without_pie(self):
        self.check("mpicc", "-O2", "-fno-pie", "-no-pie", INCLUDE, self.SOURCE, *SHARED)

    def test_mpicc_position_independent(self):
        program = self.check("mpicc", "-fPIC", INCLUDE, self.SOURCE, *SHARED,
                             "-Wl,-z,nocopyreloc")
        self.assertRegex(self.symbols(program), r" U ompi_mpi_comm_world\b")

    def test_mpicc_bound_at_once(self):
        self.check("mpicc", INCLUDE, self.SOURCE, *SHARED, "-Wl,-z,now", "-Wl,-z,relro")

    def test_cc_with_the_flags_of_mpicc(self):
        def flags(kind):
            done = subprocess.run(["mpicc", f"--showme:{kind}"], capture_output=True, text=True,
                                  check=True)
            return shlex.split(done.stdout)

        self.check("cc", INCLUDE, *flags("compile"), self.SOURCE, *SHARED, *flags("link"))

    @unittest.skipUnless(shutil.which("pkg-config"), "pkg-config is not installed")
    def test_cc_with_the_flags_of_pkg_config(self):
        done = subprocess.run(["pkg-config", "--cflags", "--libs", "ompi-c"], capture_output=True,
                              text=True, check=True)
        self.check("cc", INCLUDE, self.SOURCE, *SHARED, *shlex.split(done.stdout))

    @unittest.skipUnless(os.path.isfile(STATIC), f"there is no {STATIC}")
    def test_mpicc_with_the_static_library(self):
        self.check("mpicc", INCLUDE, self.SOURCE, STATIC, "-lstdc++", "-lm", "-pthread", "-ldl")

    def test_library_opened_at_run_time(self):
        self.check("mpicc", INCLUDE, self.SOURCE, OPENED, "-ldl",
                   variables={"SLUICE_LIBRARY": LIBRARY})


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
