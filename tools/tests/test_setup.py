"""tools/setup.sh: what it does on machines that this one is not.

    python3 -m unittest discover tools/tests
"""

import os
import pathlib
import subprocess
import tempfile
import unittest

SETUP = pathlib.Path(__file__).resolve().parent.parent / "setup.sh"

# Stands in for a Python with torch: dies unless oneDNN is told to use one of these sets.
PYTHON = """#!/bin/sh
case " {spared} " in
  *" ${{ONEDNN_MAX_CPU_ISA:-all}} "*) exit {status} ;;
esac
kill -ILL $$
"""


class UsableInstructions(unittest.TestCase):
    def said(self, spared, status=0, given=None):
        """(what it says, what the variable then is), as a script with set -e has it."""
        with tempfile.TemporaryDirectory() as folder:
            python = pathlib.Path(folder, "python")
            python.write_text(PYTHON.format(spared=spared, status=status), encoding="ascii")
            python.chmod(0o755)
            environment = {k: v for k, v in os.environ.items() if k != "ONEDNN_MAX_CPU_ISA"}
            environment |= {} if given is None else {"ONEDNN_MAX_CPU_ISA": given}
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", 'source "$1"; usable_instructions "$2" 2>&1; '
                 'sh -c "echo =\\${ONEDNN_MAX_CPU_ISA:-}"', "a-test", str(SETUP), str(python)],
                capture_output=True, text=True, env=environment, check=True)
        text, _, value = done.stdout.rpartition("=")
        return text, value.strip()

    def test_where_nothing_dies_nothing_is_said_or_set(self):
        self.assertEqual(self.said("all"), ("", ""))

    def test_what_dies_is_told_to_use_less_in_one_line(self):
        text, value = self.said("AVX512_CORE AVX2")
        self.assertEqual(value, "AVX512_CORE")
        self.assertRegex(text, "^torch's own bf16 product dies of an illegal instruction on this "
                               "machine: ONEDNN_MAX_CPU_ISA=AVX512_CORE is set\n$")

    def test_less_is_tried_until_it_lives(self):
        text, value = self.said("AVX2")
        self.assertEqual((value, text.count("\n")), ("AVX2", 1))

    def test_what_was_set_is_kept_where_it_helps_and_replaced_where_it_does_not(self):
        self.assertEqual(self.said("AVX512_CORE", given="AVX512_CORE"), ("", "AVX512_CORE"))
        self.assertEqual(self.said("AVX2", given="AVX512_CORE_AMX")[1], "AVX2")

    def test_what_cannot_be_cured_is_said(self):
        text, value = self.said("nothing")
        self.assertEqual(value, "")
        self.assertIn("also with ONEDNN_MAX_CPU_ISA=AVX512_CORE AVX2; what uses bf16 will fail",
                      text)

    def test_a_python_without_torch_is_left_alone(self):
        self.assertEqual(self.said("all", status=1), ("", ""))


class CudaCompiler(unittest.TestCase):
    """Whether a compiler is fetched, where the machine's nvcc says this."""

    def said(self, *versions):
        with tempfile.TemporaryDirectory() as folder:
            places = []
            for i, version in enumerate(versions):
                places.append(pathlib.Path(folder, f"nvcc{i}"))
                places[-1].write_text(f"#!/bin/sh\necho 'Cuda tools, release {version}, V1'\n",
                                      encoding="ascii")
                places[-1].chmod(0o755)
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", 'source "$1"; shift; cd "$1"; shift; '
                 'NVCC_PLACES=("$@" "$PWD/none"); python_environment() { echo "$1 ${*:3}"; }; '
                 'cuda_compiler; readlink build/cuda || true', "a-test", str(SETUP), folder,
                 *map(str, places)], capture_output=True, text=True, check=True,
                env=os.environ | {"XDG_CACHE_HOME": folder})
            return done.stdout.replace(folder, "CACHE").splitlines()

    def test_one_of_cuda_13_is_enough_wherever_it_is(self):
        self.assertEqual(self.said("13.0"), [])
        self.assertEqual(self.said("12.8", "13.2"), [])

    def test_where_there_is_none_or_an_old_one_it_comes_from_pypi_in_a_folder_of_its_own(self):
        for versions in ((), ("12.8",), ("14.0", "11.13")):
            asked, link = self.said(*versions)
            self.assertRegex(asked, r"^build/cuda nvidia-cuda-nvcc==13\.0\.\* .*nvidia-nvvm==13")
            self.assertEqual(link, "CACHE/sluice/cuda")


if __name__ == "__main__":
    unittest.main()
