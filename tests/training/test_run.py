"""./run as a user runs it, small: what it measures, what it says when things go wrong, and that
nothing of it is left. Needs what ./test installs: the virtual environment with torch."""

import fcntl
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import unittest

from paths import ROOT

import support as lab

LIMIT_S = 300
HEADERS = 1514 / 1448  # of full TCP segments


class RunTest(unittest.TestCase):
    def setUp(self):
        self.out = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.out, True)

    def start(self, *arguments, preexec=None):
        def before():
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ignored where nohup runs the tests.
            if preexec:
                preexec()
        small = ["--out", self.out, "--workers", 2, "--steps", 20, "--job", "clicks"]
        process = subprocess.Popen([str(ROOT / "run"), *map(str, [*small, *arguments])],
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                   preexec_fn=before)
        for clean_up in (process.wait, process.stdout.close, process.kill):
            self.addCleanup(clean_up)
        return process

    def until(self, process, pattern):
        """What was said up to the first line with the pattern."""
        said = []
        for line in process.stdout:
            said.append(line)
            if re.search(pattern, line):
                return "".join(said)
        self.fail(f"no line with '{pattern}': {''.join(said)}")

    def ended(self, process):
        said = process.stdout.read()
        return process.wait(LIMIT_S), said

    def workers_of(self, process):
        """Rank and process of the workers, which torchrun has started."""
        found = {}
        for pid in lab.descendants(process.pid):
            command = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            variables = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            if b"torch.distributed.run" not in command and b"training.worker" in command:
                rank = next(v for v in variables if v.startswith(b"RANK=")).decode()
                found[int(rank.removeprefix("RANK="))] = pid
        return found


class WhatItMeasures(RunTest):
    @lab.needs_namespaces
    def test_training_is_compared_over_links_that_are_slow(self):
        process = self.start("--codecs", "tide:bits=4", "tide:bits=4@stream")
        status, said = self.ended(process)
        self.assertEqual(status, 0, said)
        results = json.loads((self.out / "results.json").read_text(encoding="utf-8"))
        self.assertEqual(results["network"], {"mode": "namespaces", "why": None, "workers": 2})
        [job] = results["jobs"]
        self.assertGreaterEqual(job["buckets"], 8)
        dense, tide, stream = (c["seeds"][0] for c in job["configurations"])
        # Both carriers give the same bits, so the same losses to the last digit.
        self.assertEqual([p[0::2] for p in tide["held_out"]], [p[0::2] for p in stream["held_out"]])
        self.assertEqual(dense["held_out"][0][0::2], tide["held_out"][0][0::2])
        # One of them really used the process groups, and the other did not. A wave is at least two
        # collectives, and may have all buckets of a step.
        self.assertGreaterEqual(tide["stats"]["collectives"], 2 * 20)
        self.assertLess(stream["stats"]["collectives"], 20)
        self.assertIsNone(dense["stats"])
        self.assertLess(dense["final_loss"], dense["held_out"][0][2])
        # A ring sends 2 (n - 1) / n times the gradient; acknowledgements and small frames beside.
        ring = 4 * job["parameters"] * HEADERS
        self.assertGreater(dense["sent_bytes_per_step"], 0.95 * ring)
        self.assertLess(dense["sent_bytes_per_step"], 1.1 * ring)
        # 4 bits up and 5 down instead of 32 and 32, fewer where rows are zero; small parameters,
        # an exact chunk now and then, and headers of smaller frames beside.
        for found in (tide, stream):
            self.assertLess(found["sent_bytes_per_step"], 1.2 * 9 / 64 * ring)
        for configuration in job["configurations"]:
            trace = configuration["trace"]
            self.assertEqual({s["what"] for s in trace["spans"]} - {"wait"},
                             {"forward", "backward", "optimizer",
                              *(f"bucket {i}" for i in range(job["buckets"]))})
            errors = [layer["vnmse"] for layer in configuration["layers"]]
            self.assertTrue(all(0 <= error < 0.2 for error in errors if error is not None), errors)
            self.assertGreater(sum(layer["count"] for layer in configuration["layers"]), 2_000_000)
        self.assertIn("Sluice tide:bits=4, aggregators", said)
        self.assertIn("<svg", (self.out / "report.html").read_text(encoding="utf-8"))


class WhenThingsGoWrong(RunTest):
    @lab.needs_namespaces
    def test_a_killed_worker_is_named_and_nothing_is_left(self):
        (self.out / "report.html").write_text("old", encoding="ascii")
        process = self.start("--rate", "1gbit", "--codecs", "tide:bits=4@stream", "--steps", 2000)
        self.until(process, "links of 1gbit")
        self.assertEqual(set(self.workers_of(process)), {0, 1})
        inner = lab.namespaces_of(lab.descendants(process.pid))
        self.assertGreaterEqual(len(inner), 2)
        family = [os.pidfd_open(pid) for pid in lab.descendants(process.pid)]
        os.kill(self.workers_of(process)[1], signal.SIGKILL)
        status, said = self.ended(process)
        self.assertEqual(status, 1, said)
        self.assertRegex(said, r"run: worker 1 was ended by SIGKILL \(clicks, seed 1.*log\.txt")
        self.assertNotIn("Traceback", said)
        self.assertEqual(lab.not_ended(family), 0)
        self.assertEqual(inner & lab.namespaces_in_use(), set())
        self.assertFalse((self.out / "report.html").exists())

    def test_without_namespaces_it_says_so_and_ctrl_c_leaves_nothing(self):
        process = self.start("--codecs", "tide:bits=4", "--steps", 2000,
                             preexec=lab.without_sys_admin)
        said = self.until(process, "links without limit")
        self.assertIn("all workers on loopback, rate NOT limited", said)
        family = [os.pidfd_open(pid) for pid in lab.descendants(process.pid)]
        self.assertGreater(len(family), 4)
        process.send_signal(signal.SIGINT)
        status, said = self.ended(process)
        self.assertEqual((status, said.strip().splitlines()[-1]),
                         (130, "run: ended by SIGINT"), said)
        self.assertNotIn("Traceback", said)
        self.assertEqual(lab.not_ended(family), 0)

    def test_a_codec_that_is_not_there_is_said_before_anything_starts(self):
        status, said = self.ended(self.start("--codecs", "zip"))
        self.assertEqual(status, 2, said)
        self.assertIn("--codecs zip", said)
        self.assertIn("tide", said.splitlines()[-1])

    def test_results_that_cannot_be_written_are_one_line(self):
        file = self.out / "file"
        file.touch()
        status, said = self.ended(self.start("--out", file / "folder"))
        self.assertEqual(status, 1, said)
        self.assertRegex(said.splitlines()[-1], r"run: .*file.*: Not a directory")

    def test_a_folder_that_another_run_writes_to_is_refused(self):
        with (self.out / "log.txt").open("w", encoding="ascii") as log:
            fcntl.flock(log, fcntl.LOCK_EX)
            status, said = self.ended(self.start())
        self.assertEqual(status, 1, said)
        self.assertIn(f"run: --out {self.out}: another run writes there", said)

    def test_a_python_without_torch_is_refused(self):
        status, said = self.ended(self.start("--python", "/bin/false"))
        self.assertEqual(status, 2, said)
        self.assertIn("--python /bin/false", said)


class SettingUp(unittest.TestCase):
    """tools/setup.sh where the machine lacks something."""

    def shell(self, script, **environment):
        folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, folder)
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", f"source {ROOT}/tools/setup.sh; {script}", "./run"],
            cwd=folder, env=os.environ | environment, capture_output=True, text=True, check=False,
            timeout=LIMIT_S)
        return done.returncode, done.stdout, done.stderr.strip().splitlines()

    def test_a_disk_that_is_nearly_full_is_said_with_what_is_needed(self):
        few = "df() { printf 'Avail\\n2345\\n'; }; "
        status, _, said = self.shell(few + "python_environment e 'which trains' torch")
        self.assertEqual(status, 1)
        self.assertIn("PyTorch needs about 7 GB", said[-1])
        self.assertIn("2.3 GB are free", said[-1])
        self.assertEqual(self.shell(few + "need_space 2 this")[0], 0)
        self.assertEqual(self.shell(few + "need_space 3 this")[0], 1)

    def test_no_way_to_pypi_is_said(self):
        status, said, errors = self.shell(
            "python_environment e 'which trains' numpy", PIP_INDEX_URL="http://127.0.0.1:9/simple",
            PIP_RETRIES="0", PIP_NO_INDEX="", PIP_FIND_LINKS="", PIP_CONFIG_FILE="/dev/null",
            PIP_CACHE_DIR="/nonexistent", PIP_EXTRA_INDEX_URL="")
        self.assertEqual(status, 1, said)
        self.assertIn("installing numpy from PyPI in e (which trains", said)
        self.assertIn("pip could not install numpy from PyPI", errors[-1])

    def test_what_is_there_needs_no_network(self):
        status, said, errors = self.shell(
            "python3 -m venv --without-pip e; echo 'torch numpy lightning' >e/made-of; "
            "pip() { exit 9; }; apt-get() { exit 9; }; "
            "python_environment e 'which trains' torch numpy; install_missing 'to try' bash; "
            "cat e/made-of")
        self.assertEqual((status, said, errors), (0, "torch numpy lightning\n", []))

    def test_packages_need_root(self):
        status, said, errors = self.shell("id() { echo 1000; }; install_missing 'to try' no-such-x")
        self.assertEqual(status, 1)
        self.assertIn("installing no-such-x (to try)", said)
        self.assertIn("only root can install Debian packages, and these are missing: no-such-x",
                      errors[-1])

    def test_a_package_that_does_not_exist_is_said(self):
        status, _, errors = self.shell("apt-get() { echo 'E: nothing'; return 100; }; "
                                       "install_missing 'to try' no-such-x")
        self.assertEqual((status, errors[0]), (1, "E: nothing"))
        self.assertIn("apt-get could not install no-such-x", errors[-1])


if __name__ == "__main__":
    unittest.main()
