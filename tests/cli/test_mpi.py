"""The mpi carrier as a user starts it: mpirun -n N sluice … --carrier mpi."""

import json
import os
import pathlib
import re
import select
import shutil
import signal
import subprocess
import unittest

from sluice_cli import SLUICE, CliTest, read_table

LIMIT_SECONDS = 120  # of a call: what takes longer hangs
LOOK_SECONDS = 5
ENVIRONMENT = {
    **os.environ,
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    # Containers often forbid what it tries first, and it says so for every process.
    "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
    # Every process of a test spins otherwise, on machines with fewer cores than workers.
    "OMPI_MCA_mpi_yield_when_idle": "1",
}


def children_of(pid):
    """Of all its threads."""
    found = []
    for path in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        found += [int(child) for child in path.read_text(encoding="utf-8").split()]
    return sorted(found)


def has_running_children(pid):
    """Whether any has not ended; one that ended and that nobody asked about is a zombie."""
    for child in children_of(pid):
        try:
            with open(f"/proc/{child}/stat", encoding="utf-8") as file:
                if file.read().rsplit(")", 1)[1].split()[0] != "Z":
                    return True
        except OSError:
            continue
    return False


@unittest.skipUnless(shutil.which("mpirun"), "mpirun is not installed (Debian: openmpi-bin)")
class MpiTest(CliTest):
    def mpirun(self, *arguments, status=0, meanwhile=None):
        """One job; ends within the limit, or the test fails and nothing of it stays behind.
        `meanwhile` is called with it, once it has begun to print."""
        with subprocess.Popen(
            ["mpirun", "--oversubscribe", *arguments], stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, env=ENVIRONMENT,
        ) as job:
            if meanwhile is not None:
                select.select([job.stdout], [], [], LIMIT_SECONDS)
                meanwhile(job)
            out, err, code = self.outcome(job, arguments, killed=status is None)
        if status is None:
            self.assertNotEqual(code, 0, out + err)
        else:
            self.assertEqual(code, status, out + err)
        return subprocess.CompletedProcess(arguments, code, out, err)

    def outcome(self, job, arguments, killed):
        lonely = 0  # looks in a row that found mpirun without a process that runs
        for _ in range(LIMIT_SECONDS // LOOK_SECONDS):
            try:
                out, err = job.communicate(timeout=LOOK_SECONDS)
                return out, err, job.returncode
            except subprocess.TimeoutExpired:
                lonely = 0 if has_running_children(job.pid) else lonely + 1
            if lonely == 2:
                break
        job.terminate()  # mpirun passes it on to its processes
        try:
            out, err = job.communicate(timeout=LOOK_SECONDS)
        except subprocess.TimeoutExpired:
            job.kill()
            out, err = job.communicate()
        # Open MPI 4.1 with PMIx 4.2 may lock up at the end of a job that failed, when all has been
        # said and all our processes are gone: that is not what is tested here.
        said = re.search(r"(?:Exit code: +|on signal )([0-9]+)", err)
        if lonely == 2 and said:
            return out, err, int(said[1])
        if lonely == 2 and killed:  # Then it may lock up before it has said anything.
            return out, err, -signal.SIGKILL
        return self.fail(f"hangs: {arguments}\n{out}{err}")

    def sluice(self, workers, *arguments, status=0):
        """A job of so many workers, all alike."""
        return self.mpirun("-n", str(workers), SLUICE, *arguments, status=status)

    def complaints(self, done):
        """Our lines of what mpirun passes on; it may end workers before they have said theirs."""
        lines = [line for line in done.stderr.splitlines() if line.startswith("sluice: ")]
        self.assertNotEqual(lines, [], done.stderr)
        return lines

    def refused_by(self, workers, *arguments, says):
        """Exit 2; every worker's line begins with its name and has every word of `says`."""
        done = self.sluice(workers, *arguments, status=2)
        self.assertEqual(done.stdout, "")
        for line in self.complaints(done):
            self.assertRegex(line, r"^sluice: worker [0-9]+: ")
            for word in says:
                self.assertIn(word, line)

    def gradients(self, workers, count=70001, kind="layers"):
        folder = self.path(f"g{workers}-{count}-{kind}")
        if not os.path.isdir(folder):
            self.call("generate", "--workers", str(workers), "--count", str(count), "--kind", kind,
                      "--out", folder)
        return [os.path.join(folder, f"w{rank}.npy") for rank in range(workers)]

    def content(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()


class Reduce(MpiTest):
    def check_same_as_local(self, workers, *arguments, count=70001):
        files = self.gradients(workers, count)
        self.call("reduce", *arguments, "--out", self.path("local.npy"), *files)
        done = self.sluice(workers, "reduce", "--carrier", "mpi", *arguments, "--out",
                           self.path("mpi.npy"), "--json", self.path("mpi.json"), *files)
        self.assertEqual(self.content("mpi.npy"), self.content("local.npy"), arguments)
        # One process speaks.
        self.assertEqual(done.stdout.count("max_abs_error"), 1, done.stdout)
        with open(self.path("mpi.json"), encoding="utf-8") as file:
            stats = json.load(file)
        self.assertEqual((stats["carrier"], stats["workers"]), ("mpi", workers))
        self.assertEqual(stats["contributors"], workers)
        return stats

    def test_every_codec_gives_the_bytes_of_local(self):
        rows = json.loads(self.call("codecs", "--json", "-").stdout)["rows"]
        self.assertGreaterEqual(len(rows), 6)
        for row in rows:
            self.check_same_as_local(4, "--codec", row["name"])

    def test_other_numbers_of_workers(self):
        for workers in (1, 3):
            for codec in ("fixed", "tide:bits=2"):
                self.check_same_as_local(workers, "--codec", codec, "--seed", "9")

    def test_few_coordinates(self):
        for count in (0, 1, 7):
            self.check_same_as_local(3, "--codec", "tide", count=count)

    def test_steps_with_feedback(self):
        stats = self.check_same_as_local(3, "--codec", "tide:bits=2", "--feedback", "ef",
                                         "--steps", "5")
        self.assertEqual(stats["steps"], 5)

    def test_several_codecs_are_rows_of_one_table(self):
        out = self.sluice(2, "reduce", "--carrier", "mpi", "--codec", "all", *self.gradients(2))
        self.assertEqual(out.stdout.count("vnmse"), 1)  # in the header; `nmse` is another column
        self.assertEqual(len(out.stdout.splitlines()), 1 + len(self.stats("codecs")["rows"]))

    def test_json_to_standard_output_is_only_json(self):
        done = self.sluice(2, "reduce", "--carrier", "mpi", "--codec", "f32", "--json", "-",
                           *self.gradients(2))
        self.assertEqual(json.loads(done.stdout)["workers"], 2)

    def test_one_file_per_worker(self):
        for workers, said in ((3, "3 workers were"), (1, "1 worker was")):
            self.refused_by(workers, "reduce", "--carrier", "mpi", "--codec", "f32",
                            *self.gradients(2), says=["2 files", said, "mpirun -n 2"])

    def test_what_needs_all_workers_in_one_process_is_refused(self):
        for option, value in (("--drop", "1"), ("--dump-wire", self.path("dump"))):
            self.refused_by(2, "reduce", "--carrier", "mpi", "--codec", "f32", option, value,
                            *self.gradients(2), says=[option, "'mpi'", "'local'"])
        self.assertFalse(os.path.exists(self.path("dump")))

    def test_a_bad_file_is_named(self):
        bad = self.write("bad.npy", b"hello")
        self.refused_by(2, "reduce", "--carrier", "mpi", "--codec", "f32", self.gradients(2)[0],
                        bad, says=["bad.npy", "NUMPY"])

    def test_without_a_launcher_it_says_how_to_start(self):
        done = subprocess.run(
            [SLUICE, "reduce", "--carrier", "mpi", "--codec", "f32", *self.gradients(2)],
            capture_output=True, text=True, check=False, env=ENVIRONMENT, timeout=LIMIT_SECONDS)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("mpirun -n", done.stderr)


class Trouble(MpiTest):
    def job(self, *arguments):
        return [SLUICE, "reduce", "--carrier", "mpi", "--timeout", "2", *arguments,
                *self.gradients(3)]

    def test_a_worker_that_stops_coming_is_named(self):
        done = self.mpirun(
            "-n", "2", *self.job("--codec", "fixed", "--steps", "3"), ":",
            "-n", "1", *self.job("--codec", "fixed", "--steps", "1"), status=1)
        for line in self.complaints(done):
            self.assertRegex(line, r"^sluice: worker [01]: .*step 1.*waiting for 1 of 3 workers: 2")
        self.assertEqual(done.stdout, "")

    def test_a_worker_that_cannot_begin_stops_all(self):
        bad = self.write("bad.npy", b"hello")
        good = self.job("--codec", "fixed")
        done = self.mpirun("-n", "2", *good, ":", "-n", "1", *good[:-1], bad, status=None)
        self.assertTrue(any("worker 2" in line and "bad.npy" in line
                            for line in self.complaints(done)), done.stderr)

    def test_workers_that_reduce_something_else_are_named(self):
        done = self.mpirun(
            "-n", "2", *self.job("--codec", "fixed"), ":", "-n", "1", *self.job("--codec", "f32"),
            status=1)
        self.assertIn("disagree", self.complaints(done)[0])
        self.assertEqual(done.stdout, "")

    def test_a_worker_that_is_killed_ends_the_job(self):
        # By the limit of processor time, in the middle of its many steps. Large ones: workers that
        # mostly wait for each other need minutes for a second on a busy machine.
        endless = [SLUICE, "reduce", "--carrier", "mpi", "--timeout", "20", "--codec", "tide",
                   "--steps", "1000000000", *self.gradients(3, count=4 << 20)]
        self.mpirun("-n", "2", *endless, ":",
                    "-n", "1", "sh", "-c", 'ulimit -t 1; exec "$@"', "sh", *endless, status=None)

    def test_a_worker_that_never_comes_ends_the_job(self):
        self.mpirun("-n", "2", *self.job("--codec", "f32"), ":", "-n", "1", "false", status=None)


class Allreduce(MpiTest):
    def test_rows_of_codecs_and_of_plain(self):
        done = self.sluice(4, "bench", "allreduce", "--carrier", "mpi", "--codec", "all", "-b", "4",
                           "-e", "400K", "-f", "320", "-n", "2", "-w", "1", "--json",
                           self.path("rows.json"))
        header, rows = read_table(done.stdout)
        self.assertEqual(header[:5], ["size", "count", "type", "redop", "root"])
        self.assertEqual(len(rows), 3 * (1 + len(self.stats("codecs")["rows"])))
        for row in rows:
            self.assertEqual(len(row), len(header))
            self.assertEqual((row[8], row[12]), ("0", "0"), row)
            self.assertEqual(row[3], "sum" if row[-1] == "plain" else "avg")
            self.assertEqual(row[-3:-1], ["N/A", "N/A"])  # mpi has no aggregators
        self.assertEqual([row[-1] for row in rows].count("plain"), 3)
        self.assertEqual(done.stdout.count("# Out of bounds values : 0 OK\n"), 1)
        self.assertRegex(done.stdout, r"# Avg bus bandwidth    : [0-9.e+-]+ \(plain\)\n")
        with open(self.path("rows.json"), encoding="utf-8") as file:
            for row in json.load(file)["rows"]:
                self.assertEqual((row["carrier"], row["workers"]), ("mpi", 4))

    def test_workers_are_those_that_were_launched(self):
        self.sluice(2, "bench", "allreduce", "--carrier", "mpi", "--workers", "2", "-b", "4K", "-n",
                    "1", "-c", "0")
        self.refused_by(2, "bench", "allreduce", "--carrier", "mpi", "--workers", "3",
                        says=["3 workers (--workers)", "2 workers were", "mpirun -n 3"])

    def test_mistakes_are_said_before_anything_is_made(self):
        self.refused_by(2, "bench", "allreduce", "--carrier", "mpi", "-b", "8X", says=["-b '8X'"])

    def test_workers_with_other_options_are_told_so(self):
        job = [SLUICE, "bench", "allreduce", "--carrier", "mpi", "-b", "4K", "-n"]
        done = self.mpirun("-n", "1", *job, "3", ":", "-n", "1", *job, "2", status=2)
        for line in self.complaints(done):
            self.assertIn("different options", line)
        self.assertEqual(done.stdout, "")

    def test_a_worker_that_is_killed_ends_the_job(self):
        # By hand, and not by a limit on processor time: workers that wait give theirs away. Beside
        # other work they never used up a second of it.
        def kill_one(job):
            os.kill(max(children_of(job.pid)), signal.SIGKILL)

        self.mpirun("-n", "3", SLUICE, "bench", "allreduce", "--carrier", "mpi", "-b", "64K", "-n",
                    "1000000", status=None, meanwhile=kill_one)


if __name__ == "__main__":
    unittest.main()
