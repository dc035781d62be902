"""sluiced and its workers as real processes on this machine, for the tests of what they do."""

import json
import os
import re
import subprocess
import threading
import time
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
        """Until so many more uses are complete: a job is in full swing."""
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
