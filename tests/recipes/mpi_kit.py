"""What the tests of MPI programs share: how they are compiled and started, and what is needed."""

import os
import shutil
import subprocess
import tempfile
import unittest

from recipes_kit import ROOT

LIBRARY = os.environ.get("SLUICE_LIBRARY", str(ROOT / "build/release/libsluice.so"))
LIBRARY_FOLDER = os.path.dirname(os.path.abspath(LIBRARY))
STRICT = ("-std=c99", "-pedantic", "-Wall", "-Wextra", "-Wstrict-prototypes", "-Werror")
SHARED = (f"-L{LIBRARY_FOLDER}", "-lsluice", f"-Wl,-rpath,{LIBRARY_FOLDER}")
INCLUDE = f"-I{ROOT}/include"
# As docs/mpi.md says: the tests may run as root and on fewer cores than ranks.
MPIRUN = ("mpirun", "--allow-run-as-root", "--oversubscribe")


def why_no_mpi_programs():
    """Empty: they can be compiled and run."""
    if not os.path.isfile(LIBRARY):
        return f"there is no {LIBRARY}"
    if not shutil.which("mpirun"):
        return "mpirun is not installed (Debian: openmpi-bin)"
    if not shutil.which("mpicc"):
        return "mpicc is not installed (Debian: libopenmpi-dev)"
    with tempfile.TemporaryDirectory(prefix="sluice-mpi-") as folder:
        source = os.path.join(folder, "empty.c")
        with open(source, "w", encoding="utf-8") as file:
            file.write("#include <mpi.h>\nint main(void) { return MPI_Finalize(); }\n")
        done = subprocess.run(["mpicc", source, "-o", os.path.join(folder, "empty")],
                              capture_output=True, check=False)
    return "" if done.returncode == 0 else "mpi.h is not installed (Debian: libopenmpi-dev)"


WHY_NOT = why_no_mpi_programs()
needs_mpi = unittest.skipIf(WHY_NOT, WHY_NOT)
