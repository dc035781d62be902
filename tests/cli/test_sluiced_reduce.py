"""Jobs over sluiced that go well: the bytes of `local`, and nothing left behind."""

import json
import unittest

from sluiced_kit import FILES, Daemon, SluicedTest


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

    def test_two_ports_of_one_daemon_give_the_bytes_of_local(self):
        daemon = Daemon(self, listen="127.0.0.1:0,127.0.0.1:0")
        self.assertEqual(len(daemon.udp.split(",")), 2)
        self.check_every_codec(daemon)

    def test_steps_with_feedback_and_small_frames(self):
        daemon = Daemon(self, "--frame-size", "1200", "--slots-max", "128")
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


if __name__ == "__main__":
    unittest.main()
