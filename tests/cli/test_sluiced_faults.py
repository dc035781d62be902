"""Workers and aggregators that stay away, disagree or are killed, and strangers with garbage."""

import random
import socket
import subprocess
import time
import unittest

from sluiced_kit import LIMIT_SECONDS, Daemon, SluicedTest


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
                                                " [01]: slot [0-9]+, use [0-9]+")

    def test_a_worker_that_is_killed_is_named_and_the_daemon_lives_on(self):
        daemon = Daemon(self, "--wait-log", "1")
        survivor, victim = self.pair([daemon], "--codec", "tide", "--steps", "1000000",
                                     "--timeout", "4")
        daemon.wait_completed(200)
        victim.kill()
        said = daemon.err.wait_for(
            r"job (0x[0-9a-f]{16}): waiting [1-9] s for workers 1 \(slot [0-9]+, use [0-9]+\)$")
        [job] = [job for job in daemon.jobs() if job["id"] == said[1]]
        self.assertEqual((job["missing"], job["waiting"], job["forming"]), ([1], True, False))
        self.assertGreaterEqual(job["seconds"], 1)
        self.assertNotEqual(survivor.wait(), 0)
        self.assertRegex(survivor.err.text(), r"waiting for workers 1 \(slot [0-9]+, use [0-9]+")
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


if __name__ == "__main__":
    unittest.main()
