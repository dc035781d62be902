"""sluice bench allreduce on local and stream: columns, figures, mistakes."""

import json
import os
import socket
import subprocess
import sys
import unittest

from sluice_cli import SLUICE, CliTest, read_table
from sluiced_kit import Daemon, Process, SluicedTest

RELAY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "lab_parts",
                     "relay.py")
QUICK = ["-b", "4K", "-e", "64K", "-f", "4", "-n", "2", "-w", "1"]


class Allreduce(CliTest):
    def test_the_columns_of_nccl_tests_come_first(self):
        out = self.call("bench", "allreduce", *QUICK).stdout
        header, rows = read_table(out)
        self.assertEqual(
            header,
            ["size", "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong",
             "time", "algbw", "busbw", "#wrong", "wire", "ratio", "vnmse", "cpu",
             "retransmits", "aggr-cpu", "codec"],
        )
        self.assertEqual([row[0] for row in rows], ["4096", "16384", "65536"])
        for row in rows:
            self.assertEqual(len(row), len(header))
            self.assertEqual(int(row[1]) * 4, int(row[0]))
            self.assertEqual(row[2:5], ["float", "avg", "-1"])
            self.assertEqual((row[8], row[12]), ("0", "0"))
            self.assertEqual(row[-3:], ["N/A", "N/A", "tide"])  # local has no aggregators
        self.assertIn("# Out of bounds values : 0 OK\n", out)
        self.assertRegex(out, r"# Avg bus bandwidth    : [0-9.e+-]+ \(tide\)\n")
        self.assertRegex(out, r"# plain +no rows")

    def test_every_codec_is_right(self):
        for workers in ("1", "3"):
            out = self.call("bench", "allreduce", "--codec", "all", "--workers", workers,
                            *QUICK).stdout
            for row in read_table(out)[1]:
                self.assertEqual((row[8], row[12]), ("0", "0"), row)
                if workers == "1":
                    self.assertEqual(float(row[7]), 0)  # one worker needs no bus

    def test_json_has_every_figure(self):
        rows = self.stats("bench", "allreduce", "--codec", "f32", "--codec", "bf16", "--workers",
                          "2", "-b", "4K", "-n", "3")["rows"]
        self.assertEqual([row["codec"] for row in rows], ["f32", "bf16"])
        self.assertEqual([row["wire_bytes"] for row in rows], [8192, 4096])
        self.assertEqual([row["ratio"] for row in rows], [1, 2])
        for row in rows:
            self.assertEqual((row["size"], row["count"], row["iterations"]), (4096, 1024, 3))
            self.assertEqual((row["carrier"], row["workers"]), ("local", 2))
            for way in ("out_of_place", "in_place"):
                self.assertEqual(row[way]["wrong"], 0)
                self.assertGreater(row[way]["time_us"], 0)
                self.assertAlmostEqual(row[way]["busbw_gbps"], row[way]["algbw_gbps"])
            self.assertGreater(row["cpu_seconds"], 0)
            self.assertEqual((row["retransmits"], row["aggregator_cpu_seconds"]), (None, None))

    def test_gradients_are_those_of_generate(self):
        self.call("generate", "--workers", "2", "--count", "1024", "--kind", "normal", "--seed",
                  "7", "--out", self.path("g"))
        files = [self.path(f"g/w{rank}.npy") for rank in range(2)]
        reduced = self.stats("reduce", "--codec", "bf16", *files)
        measured = self.stats("bench", "allreduce", "--codec", "bf16", "--workers", "2", "--seed",
                              "7", "-b", "4K", "-n", "1")
        self.assertAlmostEqual(measured["vnmse"] / reduced["vnmse"], 1, places=9)

    def test_stream_counts_the_aggregators_work(self):
        done = self.call("bench", "allreduce", "--carrier", "stream", "--workers", "2", *QUICK,
                         "--json", self.path("rows.json"))
        header, rows = read_table(done.stdout)
        self.assertRegex(done.stdout, r"\n# retransmits +\S.*\n# aggr-cpu +\S")
        with open(self.path("rows.json"), encoding="utf-8") as file:
            for row, json_row in zip(rows, json.load(file)["rows"], strict=True):
                self.assertEqual(len(row), len(header))
                self.assertEqual(row[-3], f"{json_row['retransmits']:.2f}")
                self.assertGreater(json_row["aggregator_cpu_seconds"], 0)
                self.assertLessEqual(json_row["aggregator_cpu_seconds"], json_row["cpu_seconds"])

    def test_without_check_nothing_is_claimed(self):
        out = self.call("bench", "allreduce", "-c", "0", *QUICK).stdout
        for row in read_table(out)[1]:
            self.assertEqual((row[8], row[12], row[15]), ("N/A", "N/A", "N/A"))
        self.assertIn("# Out of bounds values : N/A", out)

    def test_refuses(self):
        for arguments, says in (
            (["-b", "8X"], ["-b '8X'", "64K"]),
            (["-b", "3"], ["-b 3", "4 bytes to 4G"]),
            (["-b", "8", "-e", "4"], ["-e 4", "-b, which is 8"]),
            (["-e", "5G"], ["-e 5368709120"]),
            (["-f", "1"], ["-f 1", "2 to 1024"]),
            (["-n", "0"], ["-n 0"]),
            (["-c", "2"], ["-c 2", "0, 1"]),
            (["-d", "half"], ["-d 'half'", "float"]),
            (["-o", "sum"], ["-o 'sum'", "avg"]),
            (["--workers", "65"], ["--workers 65", "1 to 64"]),
            (["--chunk", "0"], ["--chunk 0"]),
            (["--window", "1025"], ["--window 1025"]),
            (["--timeout", "0"], ["--timeout 0", "1 to 86400"]),
            (["--feedback", "some"], ["'some'", "none, ef"]),
            (["--carrier", "pigeon"], ["'pigeon'", "local"]),
            (["--codec", "zip"], ["'zip'"]),
        ):
            self.refused("bench", "allreduce", *arguments, says=says)
        self.refused("reduce", "--codec", "f32", "--timeout", "86401", *self.workers([1.0]),
                     says=["--timeout 86401", "1 to 86400"])


class OverSluiced(SluicedTest):
    def lossy(self, daemon):
        """The address of a relay to the daemon that loses two datagrams of a hundred."""
        host, port = daemon.udp.rsplit(":", 1)
        settings = {"target": [host, int(port)], "index": 0, "seed": 1, "loss": 0.02,
                    "duplicate": 0, "reorder": 0, "delay_s": 0}
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as door:
            door.bind(("127.0.0.1", 0))
            relay = subprocess.Popen(
                [sys.executable, "-B", RELAY, json.dumps(settings | {"listen_fd": door.fileno()})],
                pass_fds=[door.fileno()], stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL)
            self.addCleanup(relay.wait)
            self.addCleanup(relay.terminate)
            return f"127.0.0.1:{door.getsockname()[1]}"

    def test_what_processes_sent_again_is_told_and_the_cpu_of_others_is_not(self):
        aggregator = self.lossy(Daemon(self))
        workers = []
        for rank in range(2):
            env = {"RANK": str(rank), "WORLD_SIZE": "2", "SLUICE_JOB": "bench",
                   "SLUICE_AGGREGATORS": aggregator}
            report = ["--json", self.path("rows.json")] if rank == 0 else []
            workers.append(Process(self, [SLUICE, "bench", "allreduce", "--carrier", "stream",
                                          "--workers", "2", "--codec", "f32", "-b", "1M", "-e",
                                          "1M", "-n", "2", "-w", "0", *report], env))
        self.finish(workers)
        header, [row] = read_table(workers[0].out.text())
        self.assertEqual(header[-3:], ["retransmits", "aggr-cpu", "codec"])
        self.assertEqual(row[-2:], ["N/A", "f32"])
        self.assertEqual((row[8], row[12]), ("0", "0"))
        with open(self.path("rows.json"), encoding="utf-8") as file:
            figures = json.load(file)
        self.assertGreater(figures["retransmits"], 0)
        self.assertIsNone(figures["aggregator_cpu_seconds"])
        self.assertNotIn("threads", workers[0].out.text().split("# plain")[1].splitlines()[0])


if __name__ == "__main__":
    unittest.main()
