"""sluiced and its workers as real processes on this machine, and what goes wrong between them."""

import json
import os
import random
import re
import signal
import socket
import subprocess
import threading
import time
import unittest
import urllib.error
import urllib.request

from sluice_cli import DATA, SLUICE, CliTest

SLUICED = os.environ.get("SLUICED", os.path.join(os.path.dirname(SLUICE), "sluiced"))
LIMIT_SECONDS = 60  # of anything: what takes longer hangs
FILES = [os.path.join(DATA, f"w{rank}.npy") for rank in range(2)]
READY = re.compile(r"listening on (\S+) \(udp\), http on (\S+)")


class Lines:
    """What a process writes, line by line, while it runs."""

    def __init__(self, stream):
        self.lines = []
        self.changed = threading.Condition()
        self.ended = False
        self.thread = threading.Thread(target=self.read, args=(stream,), daemon=True)
        self.thread.start()

    def read(self, stream):
        for line in stream:
            with self.changed:
                self.lines.append(line.rstrip("\n"))
                self.changed.notify_all()
        with self.changed:
            self.ended = True
            self.changed.notify_all()

    def find(self, pattern):
        return next((m for m in (re.search(pattern, line) for line in self.lines) if m), None)

    def wait_for(self, pattern):
        """The match of the first line that has it; fails when the process ends without."""
        with self.changed:
            self.changed.wait_for(lambda: self.ended or self.find(pattern), LIMIT_SECONDS)
            found = self.find(pattern)
            if not found:
                raise AssertionError(f"no line with '{pattern}':\n{self.text()}")
            return found

    def text(self):
        return "\n".join(self.lines)


class Process:
    """A process that does not outlive its test."""

    def __init__(self, test, arguments, env=None):
        self.job = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                    text=True, env={**os.environ, **(env or {})})
        self.out, self.err = Lines(self.job.stdout), Lines(self.job.stderr)
        test.addCleanup(self.end)

    def end(self):
        if self.job.poll() is None:
            self.job.kill()
        self.wait()
        self.job.stdout.close()
        self.job.stderr.close()

    def wait(self):
        status = self.job.wait(LIMIT_SECONDS)
        self.out.thread.join(LIMIT_SECONDS)
        self.err.thread.join(LIMIT_SECONDS)
        return status

    def kill(self):
        self.job.kill()
        self.wait()

    def said(self):
        return self.out.text() + self.err.text()


class Daemon(Process):
    def __init__(self, test, *arguments, listen="127.0.0.1:0", env=None):
        super().__init__(test, [SLUICED, "--listen", listen, "--http", "127.0.0.1:0", *arguments],
                         env)
        ready = self.err.wait_for(READY)
        self.udp, self.http = ready[1], ready[2]

    def get(self, path):
        """Status and text of a page."""
        try:
            with urllib.request.urlopen(f"http://{self.http}{path}", timeout=10) as page:
                return page.status, page.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def metric(self, name):
        found = re.search(rf"^sluiced_{name} (\S+)$", self.get("/metrics")[1], re.MULTILINE)
        return float(found[1])

    def jobs(self):
        return json.loads(self.get("/jobs")[1])["jobs"]

    def wait_until(self, what):
        deadline = time.monotonic() + LIMIT_SECONDS
        while not what():
            if time.monotonic() > deadline:
                raise AssertionError(f"does not come about:\n{self.get('/jobs')}\n{self.said()}")

    def wait_completed(self, more):
        """Until so many more chunks are complete: a job is in full swing."""
        start = self.metric("completed_total")
        self.wait_until(lambda: self.metric("completed_total") >= start + more)


class SluicedTest(CliTest):
    def worker(self, rank, daemons, *arguments, job="job", size=2, files=None):
        env = {"RANK": str(rank), "WORLD_SIZE": str(size), "SLUICE_JOB": job,
               "SLUICE_AGGREGATORS": ",".join(daemon.udp for daemon in daemons)}
        return Process(self, [SLUICE, "reduce", "--carrier", "stream", *arguments,
                              *(files or FILES)], env)

    def pair(self, daemons, *arguments, out="stream.npy", job="job"):
        return [self.worker(rank, daemons, *arguments, "--out", self.path(out), job=job)
                for rank in range(2)]

    def content(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def finish(self, workers):
        for worker in workers:
            self.assertEqual(worker.wait(), 0, worker.said())

    def local(self, *arguments):
        self.call("reduce", *arguments, "--out", self.path("local.npy"), *FILES)
        return self.content("local.npy")

    def check_pair(self, daemons, *arguments, job="job"):
        """A whole job, with the bytes of local."""
        self.finish(self.pair(daemons, *arguments, job=job))
        self.assertEqual(self.content("stream.npy"), self.local(*arguments), arguments)

    def wait_until_here(self, daemon, ranks):
        """Until a job has these workers, in full."""
        daemon.wait_until(lambda: any(job["joined"] == ranks for job in daemon.jobs()))


class Reduce(SluicedTest):
    def check_every_codec(self, *daemons):
        rows = json.loads(self.call("codecs", "--json", "-").stdout)["rows"]
        self.assertGreaterEqual(len(rows), 6)
        for row in rows:
            self.check_pair(daemons, "--codec", row["name"], job=row["name"])
        for daemon in daemons:
            self.assertEqual(daemon.metric("malformed_total"), 0)
            self.assertGreater(daemon.metric("completed_total"), 0)
            self.assertGreater(daemon.metric("up_bytes_total"), 0)
            self.assertGreater(daemon.metric("down_bytes_total"), 0)

    def test_every_codec_gives_the_bytes_of_local(self):
        self.check_every_codec(Daemon(self))

    def test_two_aggregators_give_the_bytes_of_local(self):
        self.check_every_codec(Daemon(self), Daemon(self))

    def test_steps_with_feedback_and_small_frames(self):
        daemon = Daemon(self, "--frame-size", "1200", "--slots-max", "1050")
        self.check_pair([daemon], "--codec", "tide:bits=2", "--feedback", "ef", "--steps", "5")

    def test_jobs_leave_nothing_behind(self):
        daemon = Daemon(self)
        self.check_pair([daemon], "--codec", "f32", "--steps", "3")
        daemon.wait_until(lambda: daemon.metric("jobs") == 0)
        self.assertEqual(daemon.metric("slots_leased"), 0)

    def test_a_full_aggregator_says_so(self):
        daemon = Daemon(self, "--jobs-max", "1")
        worker = self.worker(0, [daemon], "--codec", "f32", size=1, files=FILES[:1])
        self.assertNotEqual(worker.wait(), 0)
        self.assertIn("this aggregator is full: 1 of 1 jobs", worker.err.text())


class Faults(SluicedTest):
    def test_a_worker_that_never_comes_is_named(self):
        daemon = Daemon(self, "--wait-log", "1")
        start = time.monotonic()
        worker = self.worker(0, [daemon], "--codec", "f32", "--timeout", "3")
        daemon.err.wait_for(r"job 0x[0-9a-f]{16}: forms, waiting for workers 1 of 2$")
        daemon.err.wait_for(r"job 0x[0-9a-f]{16}: waiting [1-9] s for workers 1 of 2 to join$")
        [job] = [job for job in daemon.jobs() if job["slots"] > 16]
        self.assertEqual((job["joined"], job["missing"]), ([0], [1]))
        self.assertTrue(job["forming"])
        self.assertGreater(job["seconds"], 0)
        self.assertIsNone(job["chunk"])
        try:
            self.assertNotEqual(worker.wait(), 0)
        except subprocess.TimeoutExpired:
            self.fail(f"--timeout 3, and nothing said after {LIMIT_SECONDS} s")
        self.assertIn("waiting for workers to join: 1", worker.err.text())
        self.assertLess(time.monotonic() - start, 20)

    def test_workers_that_disagree_on_their_number_are_both_told(self):
        daemon = Daemon(self)
        first = self.worker(0, [daemon], "--codec", "f32", size=2)
        self.wait_until_here(daemon, [0])
        second = self.worker(0, [daemon], "--codec", "f32", size=3)
        for worker in (first, second):
            self.assertNotEqual(worker.wait(), 0)
            self.assertIn("worker 0 says the job has 3 workers, workers 0 say 2",
                          worker.err.text())
        self.assertGreater(daemon.metric("refused_total"), 0)

    def test_two_workers_of_one_rank_are_both_told(self):
        daemon = Daemon(self)
        first = self.worker(1, [daemon], "--codec", "f32")
        self.wait_until_here(daemon, [1])
        second = self.worker(1, [daemon], "--codec", "f32")
        for worker in (first, second):
            self.assertNotEqual(worker.wait(), 0)
            self.assertIn("two workers say that they are rank 1", worker.err.text())

    def test_workers_that_reduce_something_else_are_both_told(self):
        daemon = Daemon(self)
        workers = [self.worker(0, [daemon], "--codec", "f32"),
                   self.worker(1, [daemon], "--codec", "fixed")]
        for worker in workers:
            self.assertNotEqual(worker.wait(), 0)
            self.assertRegex(worker.err.text(), "worker [01] reduces something else than workers"
                                                " [01]: slot [0-9]+, chunk [0-9]+")

    def test_a_worker_that_is_killed_is_named_and_the_daemon_lives_on(self):
        daemon = Daemon(self, "--wait-log", "1")
        survivor, victim = self.pair([daemon], "--codec", "tide", "--steps", "1000000",
                                     "--timeout", "4")
        daemon.wait_completed(200)
        victim.kill()
        said = daemon.err.wait_for(
            r"job (0x[0-9a-f]{16}): waiting [1-9] s for workers 1 \(slot [0-9]+, chunk [0-9]+\)$")
        [job] = [job for job in daemon.jobs() if job["id"] == said[1]]
        self.assertEqual((job["missing"], job["waiting"], job["forming"]), ([1], True, False))
        self.assertGreaterEqual(job["seconds"], 1)
        self.assertNotEqual(survivor.wait(), 0)
        self.assertRegex(survivor.err.text(), r"waiting for workers 1 \(slot [0-9]+, chunk [0-9]+")
        self.check_pair([daemon], "--codec", "tide", job="next")

    def test_a_job_of_the_same_name_starts_after_a_worker_was_killed(self):
        daemon = Daemon(self)
        survivor, victim = self.pair([daemon], "--codec", "tide", "--steps", "1000000",
                                     "--timeout", "2")
        daemon.wait_completed(200)
        victim.kill()
        self.assertNotEqual(survivor.wait(), 0)
        # As a launcher does: when one fails all are ended and started anew.
        said = []
        deadline = time.monotonic() + LIMIT_SECONDS / 2
        while not self.try_pair([daemon], said):
            self.assertLess(time.monotonic(), deadline, said[-4:])
        self.assertEqual(self.content("stream.npy"), self.local("--codec", "tide"))

    def try_pair(self, daemons, said):
        """Whether a job comes to its end, started once; what its workers said is appended."""
        workers = self.pair(daemons, "--codec", "tide", "--timeout", "5")
        deadline = time.monotonic() + LIMIT_SECONDS / 2
        while not all(worker.job.poll() == 0 for worker in workers):
            if any(worker.job.poll() for worker in workers) or time.monotonic() > deadline:
                for worker in workers:
                    worker.kill()
                    said.append(worker.said())
                return False
        return True

    def check_restart(self, *arguments, others=0):
        """Kills the last aggregator in mid job and starts it again at the same place."""
        daemons = [Daemon(self) for _ in range(others + 1)]
        workers = self.pair(daemons, *arguments)
        daemons[-1].wait_completed(300)
        daemons[-1].kill()
        for worker in workers:
            self.assertIsNone(worker.job.poll(), worker.said())
        again = Daemon(self, listen=daemons[-1].udp)
        again.wait_completed(1)
        self.finish(workers)
        self.assertEqual(self.content("stream.npy"), self.local(*arguments))
        self.assertGreater(again.metric("completed_total"), 100)

    def test_a_restart_of_the_aggregator_changes_no_byte(self):
        self.check_restart("--codec", "tide", "--feedback", "ef", "--steps", "600")

    def test_a_restart_of_one_of_two_aggregators_changes_no_byte(self):
        self.check_restart("--codec", "tide:bits=2", "--steps", "800", others=1)

    def test_an_aggregator_that_stays_away_is_named(self):
        daemon = Daemon(self)
        workers = self.pair([daemon], "--codec", "tide", "--steps", "1000000", "--timeout", "2")
        daemon.wait_completed(200)
        daemon.kill()
        for worker in workers:
            self.assertNotEqual(worker.wait(), 0)
            self.assertIn("the aggregator does not answer", worker.err.text())

    def test_garbage_changes_nothing_and_is_counted(self):
        daemon = Daemon(self)
        arguments = ("--codec", "tide", "--steps", "100")
        workers = self.pair([daemon], *arguments)
        daemon.wait_completed(50)
        seed = 20261116
        draws = random.Random(seed)
        host, port = daemon.udp.rsplit(":", 1)
        sent = 0
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as flood:
            while any(worker.job.poll() is None for worker in workers) or sent < 1000:
                for _ in range(20):
                    flood.sendto(draws.randbytes(draws.randrange(1500)), (host, int(port)))
                    sent += 1
                # One page per burst: a flood that leaves no processor to others tests nothing.
                daemon.metric("malformed_total")
        self.finish(workers)
        self.assertEqual(self.content("stream.npy"), self.local(*arguments))
        daemon.wait_until(lambda: daemon.metric("malformed_total") > 0)
        self.assertLessEqual(daemon.metric("malformed_total"), sent)
        self.assertEqual(daemon.get("/healthz"), (200, "ok\n"))


class Ends(SluicedTest):
    def test_the_first_signal_drains(self):
        daemon = Daemon(self)
        arguments = ("--codec", "tide", "--steps", "600")
        workers = self.pair([daemon], *arguments)
        daemon.wait_completed(100)
        self.assertEqual(daemon.get("/healthz"), (200, "ok\n"))
        daemon.job.send_signal(signal.SIGTERM)
        daemon.err.wait_for("draining: no new jobs")
        self.assertEqual(daemon.get("/healthz"), (503, "draining\n"))
        self.assertEqual(daemon.metric("draining"), 1)
        late = self.worker(0, [daemon], "--codec", "f32", job="late")
        self.assertNotEqual(late.wait(), 0)
        self.assertIn("about to end and takes no new jobs", late.err.text())
        self.finish(workers)
        self.assertEqual(daemon.wait(), 0)
        self.assertIn("ends, 0 jobs left", daemon.err.text())
        self.assertEqual(self.content("stream.npy"), self.local(*arguments))

    def test_the_second_signal_ends_at_once(self):
        daemon = Daemon(self, "--drain", "3600")
        self.worker(0, [daemon], "--codec", "f32")
        self.wait_until_here(daemon, [0])
        daemon.job.send_signal(signal.SIGINT)
        daemon.err.wait_for("draining: no new jobs")
        daemon.job.send_signal(signal.SIGTERM)
        self.assertEqual(daemon.wait(), 0)
        self.assertRegex(daemon.err.text(), "ends, [12] jobs? left")

    def test_a_drain_has_an_end(self):
        daemon = Daemon(self, "--drain", "1")
        self.worker(0, [daemon], "--codec", "f32")
        self.wait_until_here(daemon, [0])
        daemon.job.send_signal(signal.SIGTERM)
        self.assertEqual(daemon.wait(), 0)

    def test_without_jobs_it_ends_at_once(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            daemon = Daemon(self)
            daemon.job.send_signal(number)
            self.assertEqual(daemon.wait(), 0)

    def test_a_silent_reader_of_pages_does_not_hold_up_the_end(self):
        daemon = Daemon(self)
        host, port = daemon.http.rsplit(":", 1)
        silent = [socket.create_connection((host, int(port))) for _ in range(10)]
        self.addCleanup(lambda: [one.close() for one in silent])
        daemon.job.send_signal(signal.SIGTERM)
        self.assertEqual(daemon.wait(), 0)

    def test_a_lease_ends_a_job_that_is_silent(self):
        daemon = Daemon(self, "--lease", "3")
        worker = self.worker(0, [daemon], "--codec", "f32")
        daemon.err.wait_for(r"job 0x[0-9a-f]{16}: forms")
        worker.kill()
        daemon.wait_until(lambda: daemon.metric("jobs") == 0)
        daemon.err.wait_for(r"job 0x[0-9a-f]{16}: ended after [0-9]+ s$")


class Pages(SluicedTest):
    def test_jobs_that_run(self):
        daemon = Daemon(self)
        self.pair([daemon], "--codec", "tide", "--steps", "1000000")
        daemon.wait_completed(100)
        jobs = daemon.jobs()
        for job in jobs:
            self.assertRegex(job["id"], "^0x[0-9a-f]{16}$")
            self.assertEqual((job["workers"], job["joined"]), (2, [0, 1]))
            self.assertFalse(job["forming"])
            self.assertRegex(job["terms"], r"^sluice [0-9.]+, window [0-9]+")
        text = daemon.get("/metrics")[1]
        for job in jobs:
            self.assertIn(f'sluiced_job_workers{{job="{job["id"]}"}} 2\n', text)
            self.assertIn(f'sluiced_job_joined{{job="{job["id"]}"}} 2\n', text)
            self.assertRegex(text, rf'sluiced_job_waiting_seconds{{job="{job["id"]}"}} [0-9.e-]+\n')
        self.assertEqual(daemon.metric("jobs"), len(jobs))
        self.assertEqual(daemon.metric("slots_leased"), sum(job["slots"] for job in jobs))
        self.assertGreater(daemon.metric("cpu_seconds_total"), 0)
        daemon.err.wait_for(r"job 0x[0-9a-f]{16}: runs, 2 workers, [0-9]+ slots$")

    def test_every_line_of_metrics_is_one(self):
        daemon = Daemon(self)
        status, text = daemon.get("/metrics")
        self.assertEqual(status, 200)
        names = set()
        for line in text.splitlines():
            if line.startswith("# TYPE "):
                names.add(line.split()[2])
            elif not line.startswith("# HELP "):
                self.assertRegex(line, r'^sluiced_[a-z_]+ [0-9.e+-]+$')
                self.assertIn(line.split()[0], names)
        self.assertGreaterEqual(len(names), 24)

    def test_other_pages_do_not_exist(self):
        daemon = Daemon(self)
        self.assertEqual(daemon.get("/")[0], 404)
        self.assertEqual(daemon.get("/metrics/x")[0], 404)

    def test_garbage_instead_of_http(self):
        daemon = Daemon(self)
        host, port = daemon.http.rsplit(":", 1)
        draws = random.Random(7)
        for _ in range(20):
            with socket.create_connection((host, int(port))) as connection:
                connection.sendall(draws.randbytes(300) + b"\r\n\r\n")
        self.assertEqual(daemon.get("/healthz"), (200, "ok\n"))


class Options(SluicedTest):
    def start(self, *arguments, env=None):
        return subprocess.run([SLUICED, *arguments], capture_output=True, text=True, check=False,
                              timeout=LIMIT_SECONDS, env={**os.environ, **(env or {})})

    def daemon_refuses(self, *arguments, says, env=None, status=2):
        done = self.start(*arguments, env=env)
        self.assertEqual((done.returncode, done.stdout), (status, ""), done.stderr)
        lines = done.stderr.splitlines()
        self.assertEqual(len(lines), 1, done.stderr)
        self.assertTrue(lines[0].startswith("sluiced: "), lines[0])
        for word in says:
            self.assertIn(word, lines[0])

    def test_bad_values_are_named_with_what_is_accepted(self):
        for flag, value, accepted in (
            ("--jobs-max", "0", "1 to 65536"), ("--jobs-max", "-1", "1 to 65536"),
            ("--slots-max", "many", "1 to 16777216"), ("--memory-max", "1k", "1048576 to "),
            ("--frame-size", "100", "1104 to 65507"), ("--lease", "0", "1 to 86400"),
            ("--drain", "1.5", "0 to 86400"), ("--wait-log", "0", "1 to 86400"),
            ("--listen", "127.0.0.1:70000", "host:port"), ("--listen", "[::1", "[IPv6]:port"),
        ):
            self.daemon_refuses(flag, value, says=[value, f"accepted: {accepted}"
                                                   if flag != "--listen" else accepted])
        self.daemon_refuses("--listen", "127.0.0.1:0", "--http", "127.0.0.1:x",
                            says=["'127.0.0.1:x'", "accepted: "])
        self.daemon_refuses("--nope", says=["'--nope'", "accepted"])

    def test_bad_values_of_variables_and_files(self):
        self.daemon_refuses(env={"SLUICED_JOBS_MAX": "none"}, says=["--jobs-max", "'none'"])
        for content, says in ((b"nope = 3\n", "nope"), (b"[x]\njobs-max = 3\n", "x"),
                              (b"jobs-max = 0\n", "'0'"), (b"config = other\n", "config")):
            path = self.write("bad.conf", content)
            self.daemon_refuses("--config", path, says=[says])
        self.daemon_refuses("--config", self.path("missing.conf"), says=["missing.conf"])

    def test_flags_before_variables_before_the_file(self):
        path = self.write("good.conf", b"# mine\njobs-max = 3\nslots-max = 30\nframe-size=2000\n")
        daemon = Daemon(self, "--jobs-max", "5", "--config", path,
                        env={"SLUICED_JOBS_MAX": "4", "SLUICED_SLOTS_MAX": "40"})
        self.assertEqual(daemon.metric("jobs_max"), 5)
        self.assertEqual(daemon.metric("slots_max"), 40)
        daemon = Daemon(self, env={"SLUICED_CONFIG": path})
        self.assertEqual(daemon.metric("slots_max"), 30)

    def test_a_place_that_is_taken(self):
        daemon = Daemon(self)
        self.daemon_refuses("--listen", daemon.udp, says=[daemon.udp, "in use"], status=1)
        self.daemon_refuses("--listen", "127.0.0.1:0", "--http", daemon.http,
                            says=[daemon.http, "in use"], status=1)

    def test_version_and_help(self):
        self.assertRegex(self.start("--version").stdout, r"^sluiced [0-9]+\.[0-9]+\.[0-9]+\n$")
        text = self.start("--help").stdout
        for flag in ("--listen", "--http", "--jobs-max", "--slots-max", "--memory-max",
                     "--frame-size", "--lease", "--drain", "--wait-log", "--config"):
            self.assertIn(flag, text)


if __name__ == "__main__":
    unittest.main()
