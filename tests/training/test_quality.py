"""bench/training_quality: losses over seeds, compared in pairs."""

import json
import math
import os
import pathlib
import signal
import subprocess
import tempfile
import unittest

from paths import ROOT

import support as lab
from training import paired, quality

LIMIT_S = 1800  # Nothing here waits; a busy machine may take long to train.
PYTHON = ROOT / "build" / "venv" / "bin" / "python"


def run(name, seed, *losses, vnmse=0.25):
    return paired.Run(name, seed, dict(zip((paired.LOSS, "left"), losses)), vnmse, 7.0)


class Statistics(unittest.TestCase):
    RUNS = [run("dense", 1, 2.0, 5.0, vnmse=0.0), run("a", 1, 2.5, 5.0), run("b", 1, 2.25, 6.0),
            run("dense", 2, 3.0, 5.0, vnmse=0.0), run("a", 2, 3.7, 5.0), run("b", 2, 3.25, 8.0)]

    def test_differences_are_those_of_the_same_seed(self):
        found = {(row.measure, row.contestant): row for row in paired.rows(self.RUNS)}
        a, b = found[paired.LOSS, "a"], found[paired.LOSS, "b"]
        self.assertAlmostEqual(a.loss.value, 3.1)
        self.assertAlmostEqual(a.loss.error, 0.6)       # Of 2.5 and 3.7.
        self.assertAlmostEqual(a.to_dense.value, 0.6)   # Of 0.5 and 0.7.
        self.assertAlmostEqual(a.to_dense.error, 0.1)
        self.assertAlmostEqual(b.to_dense.error, 0.0)
        self.assertAlmostEqual(b.to_first.value, -0.35)
        self.assertIsNone(a.to_first)
        self.assertIsNone(found[paired.LOSS, "dense"].to_dense)
        self.assertAlmostEqual(found["left", "b"].to_dense.value, 2.0)
        self.assertEqual((a.vnmse, a.seconds), (0.25, 7.0))

    def test_the_standard_error_is_that_of_a_mean_and_needs_two(self):
        found = paired.Mean.of([1.0, 2.0, 3.0, 6.0])
        self.assertAlmostEqual(found.error, math.sqrt(14 / 3) / 2)
        self.assertEqual(paired.Mean.of([2.0]), paired.Mean(2.0, None))
        self.assertEqual(paired.Mean.of([2.0]).text("+"), "+2.0000")

    def test_the_table_has_a_block_for_every_measure(self):
        loss, left = paired.table(paired.rows(self.RUNS)).split("\n\n")
        self.assertRegex(loss.splitlines()[0], r"^loss .* minus dense +minus a +vnmse +s$")
        self.assertRegex(loss.splitlines()[2],
                         r"^a +3\.1000 ± 0\.6000 +\+0\.6000 ± 0\.1000 +2\.5e-01 +7$")
        self.assertEqual([line.split()[0] for line in left.splitlines()],
                         ["left", "dense", "a", "b"])

    def test_errors_of_layers_weigh_what_their_energy_does(self):
        layers = [{"energy": 3.0, "vnmse": 0.1}, {"energy": 1.0, "vnmse": 0.5},
                  {"energy": 0.0, "vnmse": None}]
        self.assertAlmostEqual(paired.whole_error(layers), 0.2)
        self.assertIsNone(paired.whole_error([]))

    def test_what_failed_is_one_line_where_a_rank_told_it(self):
        said = "x\n[rank1]: Traceback\n[rank1]: ValueError: no\n[rank0]: RuntimeError: gone\n"
        self.assertEqual(quality.what_failed(said, 1), "[rank1]: ValueError: no")
        self.assertIn("status 7:\nodd", quality.what_failed("odd", 7))


class Command(unittest.TestCase):
    def start(self, *arguments):
        process = subprocess.Popen(
            [PYTHON, ROOT / "bench" / "training_quality", *map(str, arguments)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for clean_up in (process.wait, process.stderr.close, process.stdout.close, process.kill):
            self.addCleanup(clean_up)
        return process

    def test_it_trains_with_every_codec_and_seed_and_tells_both_heads(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        file = pathlib.Path(folder.name) / "found.json"
        process = self.start("--job", "heads", "--codec", "thc", "--seeds", 1, "--first-seed", 2,
                             "--steps", 20, "--workers", 2, "--parallel", 2, "--json", file)
        said, progress = process.communicate(timeout=LIMIT_S)
        self.assertEqual(process.returncode, 0, progress)
        found = json.loads(file.read_text(encoding="utf-8"))
        dense, thc = found["runs"]
        self.assertEqual([(one["contestant"], one["seed"]) for one in (dense, thc)],
                         [("ddp-fp32", 2), ("thc", 2)])
        self.assertEqual(set(dense["losses"]), {"loss", "next byte", "token kind"})
        self.assertAlmostEqual(dense["losses"]["loss"], dense["losses"]["next byte"]
                               + 0.03 * dense["losses"]["token kind"], places=6)
        self.assertLess(dense["vnmse"], 1e-9)
        self.assertTrue(1e-4 < thc["vnmse"] < 0.1, thc["vnmse"])
        # Both heads have learned something: ln 256 and ln 7 is where they begin.
        for one in (dense, thc):
            self.assertLess(one["losses"]["next byte"], 4.0)
            self.assertLess(one["losses"]["token kind"], 1.85)
        self.assertEqual(progress.count("seed "), 2)
        self.assertIn("± is one standard error", said)

    def test_mistakes_are_one_line_with_what_is_accepted(self):
        for arguments, value, accepted in (
                (["--codec", "zip"], "--codec zip", "tide"), ([], "--codec", "required"),
                (["--codec", "thc", "--job", "bert"], "'bert'", "heads"),
                (["--codec", "thc", "--parallel", 0], "'0'", "1 to 256")):
            process = self.start(*arguments)
            said = process.communicate(timeout=LIMIT_S)[1].splitlines()
            self.assertEqual((process.returncode, len(said)), (2, 1), said)
            self.assertTrue(said[0].startswith("training_quality: "), said)
            self.assertIn(value, said[0])
            self.assertIn(accepted, said[0])

    def test_nothing_is_left_when_it_is_ended(self):
        process = self.start("--job", "heads", "--codec", "thc", "--seeds", 2, "--steps", 20,
                             "--workers", 2, "--parallel", 1)
        process.stderr.readline()  # One training has ended, another one has begun or will.
        family = [os.pidfd_open(pid) for pid in lab.descendants(process.pid)]
        process.send_signal(signal.SIGTERM)
        said = process.communicate(timeout=LIMIT_S)[1]
        self.assertEqual((process.returncode, said.strip().splitlines()[-1]),
                         (143, "training_quality: ended by SIGTERM"), said)
        self.assertEqual(lab.not_ended(family), 0)


if __name__ == "__main__":
    unittest.main()
