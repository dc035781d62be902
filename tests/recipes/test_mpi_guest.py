"""Sluice as a guest in MPI programs: mpi_guest.c, the commands of docs/mpi.md, and a process that
has another MPI."""

import os
import pathlib
import re
import unittest

from shell_blocks import blocks
from mpi_kit import INCLUDE, LIBRARY, LIBRARY_FOLDER, MPIRUN, SHARED, STRICT, needs_mpi
from recipes_kit import ENVIRONMENT, ROOT, RecipeTest

COMMAND = ROOT / "build/bin/sluice"
GUEST = str(ROOT / "tests/recipes/mpi_guest.c")
# Not Open MPI, by what it says of itself.
OTHER_MPI = r"""
#include <string.h>
int PMPI_Init(int* argc, char*** argv) { (void)argc; (void)argv; return 0; }
int PMPI_Get_library_version(char* text, int* length) {
  strcpy(text, "MPICH Version:\t4.0.2\nMPICH Release date:\tThu Apr  7 2022\n");
  *length = (int)strlen(text);
  return 0;
}
"""
PROGRAM_OF_ANOTHER = r"""
#include <sluice/sluice.h>
#include <stdio.h>
int PMPI_Init(int* argc, char*** argv);
int main(void) {
  sluice_world* world;
  PMPI_Init(NULL, NULL);
  printf("code %d: ", (int)sluice_world_make("mpi", 0, 0, &world));
  printf("%s\n", sluice_last_error());
  return 0;
}
"""


@needs_mpi
class Guest(RecipeTest):
    def setUp(self):
        super().setUp()
        self.run_command("mpicc", *STRICT, "-pthread", INCLUDE, GUEST, *SHARED, "-o",
                         self.path("guest"))

    def check(self, scenario, ranks):
        out = self.run_command(*MPIRUN, "-n", str(ranks), self.path("guest"), scenario)
        self.assertEqual(out, "content\n" * ranks)

    def test_error_handler_of_the_world_stays_the_programs(self):
        self.check("handlers", 2)

    def test_mpi_that_sluice_initialised_is_the_programs_too(self):
        self.check("uninitialised", 2)

    def test_after_finalize_there_are_codes_and_no_abort(self):
        self.check("finalized", 2)
        self.check("late", 2)

    def test_low_levels_serve_the_main_thread_and_tell_others(self):
        self.check("single", 2)
        self.check("funneled", 2)

    def test_other_threads_and_two_at_a_time(self):
        self.check("serialized", 2)
        self.check("two_threads", 2)

    def test_many_worlds_between_the_programs_messages(self):
        self.check("many_worlds", 3)

    def test_a_rank_that_leaves_is_named(self):
        self.check("one_leaves", 3)

    def test_without_a_launcher_a_program_that_calls_mpi_is_a_world_of_one(self):
        self.assertEqual(self.run_command(self.path("guest"), "handlers"), "content\n")

    def test_a_library_that_is_closed_before_the_end(self):
        self.run_command("cc", "-pthread", INCLUDE, str(ROOT / "tests/recipes/closed_early.c"),
                         "-ldl", "-o", self.path("closed_early"))
        out = self.run_command(*MPIRUN, "-n", "2", self.path("closed_early"),
                               variables={"SLUICE_LIBRARY": LIBRARY})
        self.assertEqual(out, "closed\n" * 2)

    def test_a_launcher_that_open_mpi_does_not_understand(self):
        out = self.run_command(self.path("guest"), "alone",
                               variables={"PMI_RANK": "0", "PMI_SIZE": "4"})
        self.assertEqual(out, "content\n")


@needs_mpi
@unittest.skipUnless(COMMAND.is_file(), f"there is no {COMMAND}")
class Pages(RecipeTest):
    """The commands of the guides that start MPI, as they are printed; also as root, and on fewer
    cores than workers."""

    def paste(self, page):
        for name in ("include", "examples"):
            os.symlink(ROOT / name, self.path(name))
        os.makedirs(self.path("build"))
        os.symlink(LIBRARY_FOLDER, self.path("build", "release"))
        text = "".join(block for block in blocks(ROOT / "docs" / page) if "mpirun" in block)
        script = pathlib.Path(self.path("page.sh"))
        script.write_text(text, encoding="utf-8")
        # Without what the other tests have set to make it easier.
        unset = [word for name in ENVIRONMENT if name.startswith("OMPI_") for word in ("-u", name)]
        return self.run_command(
            "env", *unset, "bash", "-e", str(script),
            variables={"PATH": f"{COMMAND.parent}:{os.environ['PATH']}"})

    def test_mpi(self):
        out = self.paste("mpi.md")
        self.assertRegex(out, r"contributors +4\n")  # reduce
        self.assertEqual(out.count("# Out of bounds values : 0 OK\n"), 2, out)  # bench, twice
        self.assertEqual(out.count(" of 4: mean 2.500, exactly 2.500;"), 4, out)
        self.assertTrue(os.path.isfile(self.path("mean.npy")))

    def test_c_api(self):
        out = self.paste("c-api.md")
        self.assertEqual(len(re.findall(r"rank \d of 4: mean 2\.\d", out)), 1 + 4, out)


@unittest.skipUnless(os.path.isfile(LIBRARY), f"there is no {LIBRARY}")
class AnotherMpi(RecipeTest):
    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        return self.path(name)

    def check(self, program):
        out = self.run_command(program)  # what to start it with is not the question
        self.assertRegex(out, r"^code 6: mpi: this process has MPICH Version: 4\.0\.2 \(.*\):"
                              r" Open MPI 4 is needed\n$")

    def test_is_refused_wherever_it_is(self):
        other = self.write("other.c", OTHER_MPI)
        program = self.write("program.c", PROGRAM_OF_ANOTHER)
        self.run_command("cc", "-shared", "-fPIC", other, "-o", self.path("libother.so"))
        self.run_command("cc", INCLUDE, program, f"-L{self.folder}", "-lother",
                         f"-Wl,-rpath,{self.folder}", *SHARED, "-o", self.path("linked"))
        self.run_command("cc", INCLUDE, program, other, "-rdynamic", *SHARED, "-o",
                         self.path("inside"))
        for name in ("linked", "inside"):
            self.check(self.path(name))


if __name__ == "__main__":
    unittest.main()
