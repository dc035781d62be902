"""Processes that end in the middle of a step, by Ctrl-C, sys.exit() or an exception: neither they
nor those that wait for them hang, and their threads do not end them in another way.

    SLUICE_LIBRARY=build/release/libsluice.so PYTHONPATH=python python python/tests/test_exit.py
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

from exit_cases import CASES, EXIT, STEP, VICTIM
from launched_ranks import _environment

LIMIT = 400.0  # seconds, of all
CODES = {"interrupted": {-signal.SIGINT, 128 + signal.SIGINT, 1}, "left": {EXIT}, "raised": {1}}
WORDS = {"interrupted": "KeyboardInterrupt", "left": "", "raised": "OSError: the disk is full"}


class Exit(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory(prefix="sluice-test-") as folder:
            process = subprocess.Popen(
                [sys.executable, pathlib.Path(__file__).with_name("exit_cases.py"), folder],
                env=_environment(None), start_new_session=True)
            try:
                process.wait(LIMIT)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            codes = pathlib.Path(folder, "codes.json")
            cls.codes = json.loads(codes.read_text()) if codes.exists() else {}
            cls.said = {file.stem: file.read_text(errors="replace")
                        for file in pathlib.Path(folder).glob("*.log")}

    def check(self, name):
        self.assertIn(name, self.codes, f"somebody hangs; said: {self.said}")
        end = name.split("-")[0]
        for rank, code in enumerate(self.codes[name]):
            text = self.said[f"{name}-{rank}"]
            self.assertNotRegex(text, "Fatal Python error|terminate called", f"rank {rank}")
            if rank == VICTIM:
                self.assertIn(code, CODES[end], text)
                self.assertIn(WORDS[end], text)
            else:
                self.assertEqual(code, 1, text)
                self.assertIn(f"step {STEP}", text)
                self.assertIn(f"missing: rank {VICTIM} (left after {STEP} steps)", text)


def _test(name):
    return lambda self: self.check(name)


for _name in CASES:
    setattr(Exit, "test_a_rank_that_was_" + _name.replace("-", "_in_flight_of_"), _test(_name))

if __name__ == "__main__":
    unittest.main()
