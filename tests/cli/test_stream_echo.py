"""build/bin/stream_echo: carrier stream beside UDP echoes. What it prints, not how fast."""

import os
import re
import subprocess
import unittest

from sluice_cli import SLUICE

STREAM_ECHO = os.path.join(os.path.dirname(SLUICE), "stream_echo")
KINDS = ["plain", "trains", "ours"]


@unittest.skipUnless(os.path.exists(STREAM_ECHO), "stream_echo is not built")
class StreamEcho(unittest.TestCase):
    def run_it(self, *arguments):
        return subprocess.run([STREAM_ECHO, *arguments], capture_output=True, text=True,
                              check=False, timeout=60)

    def test_all_are_measured_in_turn_and_compared(self):
        for options in ([], ["--workers", "3", "--frame", "1104", "--window", "5"]):
            done = self.run_it("--tickets", "6", "--runs", "2", *options)
            self.assertEqual(done.returncode, 0, done.stderr)
            lines = [line.split() for line in done.stdout.splitlines() if not line.startswith("#")]
            names = [[run, kind] for run in ("1", "2", "median") for kind in KINDS]
            names += [["median", "ours/plain"], ["median", "ours/trains"]]
            self.assertEqual([line[:2] for line in lines[1:]], names)
            for line in lines[1:7]:
                self.assertTrue(all(float(figure) > 0 for figure in line[2:6]), line)
            for line in done.stdout.splitlines()[-5:]:
                self.assertEqual(len(re.findall(r"\(\S+ to \S+\)", line)), 3, line)
                for median, low, high in re.findall(r"(\S+) \((\S+) to (\S+)\)", line):
                    self.assertLessEqual(float(low), float(median))
                    self.assertLessEqual(float(median), float(high))

    def test_refuses_what_it_cannot_do(self):
        for arguments in (["--frame", "100"], ["--workers", "0"], ["--runs", "0"]):
            self.assertNotEqual(self.run_it(*arguments).returncode, 0)


if __name__ == "__main__":
    unittest.main()
