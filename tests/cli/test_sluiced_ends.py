"""How sluiced ends, and when it ends a job."""

import signal
import socket
import unittest

from sluiced_kit import Daemon, SluicedTest


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


if __name__ == "__main__":
    unittest.main()
