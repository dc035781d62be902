"""tools/part_runner.py: order, counting, what is remembered, and what a failure takes with it."""

import contextlib
import io
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import part_runner  # noqa: E402
from part_runner import Part, Runner, gtest_cases, unittest_cases  # noqa: E402


class RunnerTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)

    def run_parts(self, *parts, remembers=True):
        self.runner = Runner(parts, self.root, self.root / "logs", remembers)
        with contextlib.redirect_stdout(io.StringIO()) as out:
            bad = [part.name for part in self.runner.run()]
        return bad, out.getvalue()

    def lines(self, name="ran"):
        file = self.root / name
        return file.read_text().split() if file.exists() else []

    def part(self, name, script="true", **more):
        return Part(name, ("sh", "-c", f"echo {name} >> ran; {script}"), **more)

    def test_a_part_runs_after_what_it_needs(self):
        bad, out = self.run_parts(self.part("c", after=("b",)), self.part("b", after=("a",)),
                                  self.part("a", is_build=True))
        self.assertEqual((bad, self.lines()), ([], ["a", "b", "c"]), out)
        self.assertIn("core-s", out)

    def test_what_needs_a_failure_does_not_run_and_is_no_pass(self):
        bad, out = self.run_parts(self.part("a", "echo why; false"), self.part("b", after=("a",)),
                                  self.part("c", after=("b",)), self.part("d"))
        self.assertEqual(bad, ["a", "b", "c"], out)
        self.assertEqual(sorted(self.lines()), ["a", "d"])
        self.assertIn("why", out)
        self.assertEqual(out.count("NOT RUN"), 2)

    def test_a_part_that_hangs_is_ended_with_what_it_started_and_fails(self):
        part = self.part("a", "echo in hand; sleep 600 & echo $! > pid; wait")
        self.runner = Runner([part], self.root, self.root / "logs", seconds=1)
        with contextlib.redirect_stdout(io.StringIO()) as out:
            self.assertEqual(self.runner.run(), [part])
        for word in ("in hand", "ended after 1 s"):
            self.assertIn(word, out.getvalue())
        status = pathlib.Path("/proc", *self.lines("pid"), "status")
        self.assertFalse(status.exists() and "State:\tS" in status.read_text())

    def test_an_interrupt_ends_what_runs(self):
        script = ("import sys; sys.path.insert(0, 'tools'); import pathlib; from part_runner import"
                  " Part, Runner; r = pathlib.Path(sys.argv[1]); Runner([Part('a', ('sh', '-c',"
                  " 'echo $$ > pid; exec sleep 600'))], r, r / 'logs').run()")
        job = subprocess.Popen([sys.executable, "-c", script, str(self.root)],
                               cwd=pathlib.Path(part_runner.__file__).parents[1],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while not self.lines("pid"):
            self.assertIsNone(job.poll())
        job.send_signal(signal.SIGINT)
        job.wait(60)
        status = pathlib.Path("/proc", *self.lines("pid"), "status")
        until = time.monotonic() + 60
        while status.exists() and "State:\tS" in status.read_text():
            self.assertLess(time.monotonic(), until)

    def test_an_input_may_be_a_pattern(self):
        for name in ("x", "y"):
            (self.root / name).mkdir()
            (self.root / name / "README.md").write_text("1")
        part = self.part("a", inputs=("*/README.md",))
        self.run_parts(part)
        (self.root / "x" / "other").write_text("2")
        self.run_parts(part)
        self.assertEqual(self.lines(), ["a"])
        (self.root / "y" / "README.md").write_text("2")
        self.run_parts(part)
        self.assertEqual(self.lines(), ["a", "a"])

    def test_a_pass_is_remembered_until_an_input_changes(self):
        (self.root / "in").mkdir()
        (self.root / "in" / "file").write_text("1")
        counting = {"counts": lambda output, status: (7, 0, 0), "inputs": ("in",)}
        for _ in range(2):
            self.assertEqual(self.run_parts(self.part("a", **counting))[0], [])
            self.assertEqual(self.runner.outcomes["a"].passed, 7)
        self.assertEqual(self.lines(), ["a"])
        self.assertIn("not run again", self.run_parts(self.part("a", **counting))[1])
        (self.root / "in" / "file").write_text("2")
        self.run_parts(self.part("a", **counting))
        (self.root / "in" / "more").write_text("")
        self.run_parts(self.part("a", **counting))
        self.run_parts(self.part("a", **counting, environment=(("X", "1"),)))
        self.assertEqual(len(self.lines()), 4)
        self.run_parts(self.part("a", **counting, environment=(("X", "1"),)), remembers=False)
        self.assertEqual(len(self.lines()), 5)

    def test_a_failure_is_forgotten_and_so_is_what_passed_before_it(self):
        (self.root / "in").write_text("good")
        part = self.part("a", "grep -q good in", inputs=("in",))
        self.assertEqual(self.run_parts(part)[0], [])
        (self.root / "in").write_text("bad")
        for _ in range(2):
            self.assertEqual(self.run_parts(part)[0], ["a"])
        (self.root / "in").write_text("good")
        self.run_parts(part)
        self.assertEqual(len(self.lines()), 4)

    def test_a_part_without_inputs_always_runs(self):
        for _ in range(2):
            self.run_parts(self.part("a"))
        self.assertEqual(self.lines(), ["a", "a"])

    def test_a_command_that_is_not_there_fails(self):
        with contextlib.redirect_stderr(io.StringIO()):
            self.assertEqual(self.run_parts(Part("a", ("/no/such",)))[0], ["a"])

    def test_shards_are_added_up(self):
        script = 'echo "[       OK ] A.b (0 ms)"; test $GTEST_TOTAL_SHARDS = 3'
        self.run_parts(self.part("a", script, counts=gtest_cases, shards=3))
        self.assertEqual(self.runner.outcomes["a"].passed, 3)


class Counting(unittest.TestCase):
    def test_gtest(self):
        ok, bad = "[       OK ] A.b (1 ms)\n", "[  FAILED  ] A.c (1 ms)\n"
        self.assertEqual(gtest_cases(ok * 2 + bad, 1), (2, 1, 0))
        self.assertEqual(gtest_cases(ok, 0), (1, 0, 0))
        self.assertEqual(gtest_cases(ok, -11), (1, 1, 0))  # Died without saying why.
        self.assertEqual(gtest_cases("", 0), (0, 1, 0))  # Ran nothing.

    def test_unittest(self):
        self.assertEqual(unittest_cases("Ran 5 tests in 1s\n\nOK\n", 0), (5, 0, 0))
        self.assertEqual(unittest_cases("Ran 5 tests in 1s\n\nOK (skipped=2)\n", 0), (3, 0, 2))
        said = "Ran 9 tests in 1s\n\nFAILED (failures=1, errors=2, skipped=3)\n"
        self.assertEqual(unittest_cases(said, 1), (3, 3, 3))
        self.assertEqual(unittest_cases("Ran 0 tests in 0s\n\nOK\n", 0), (0, 1, 0))
        self.assertEqual(unittest_cases("Killed\n", 137), (0, 1, 0))


class Plan(unittest.TestCase):
    def test_every_part_has_what_it_needs(self):
        import test_plan
        for full in (False, True):
            parts = [*test_plan.packages("build/venv/bin/python"), *test_plan.builds(full),
                     *test_plan.torch("p"), *test_plan.apps("p"), *test_plan.cuda(),
                     *test_plan.house_rules(), *test_plan.c_plus_plus(full)]
            with tempfile.TemporaryDirectory() as folder:
                Runner(parts, pathlib.Path(folder), pathlib.Path(folder) / "logs")
            here = pathlib.Path(part_runner.__file__).resolve().parent.parent
            missing = [p for part in parts for p in part.inputs
                       if not p.startswith("build/") and not part_runner.files_of(here, p)]
            self.assertEqual(missing, [])


if __name__ == "__main__":
    unittest.main()
