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


if __name__ == "__main__":
    unittest.main()
