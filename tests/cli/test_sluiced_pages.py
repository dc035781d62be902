"""What sluiced shows over HTTP."""

import random
import socket
import unittest

from sluiced_kit import Daemon, SluicedTest


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


if __name__ == "__main__":
    unittest.main()
