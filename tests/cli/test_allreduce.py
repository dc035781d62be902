"""sluice bench allreduce on the local carrier: columns, figures, mistakes."""

import unittest

from sluice_cli import CliTest, read_table

QUICK = ["-b", "4K", "-e", "64K", "-f", "4", "-n", "2", "-w", "1"]


class Allreduce(CliTest):
    def test_the_columns_of_nccl_tests_come_first(self):
        out = self.call("bench", "allreduce", *QUICK).stdout
        header, rows = read_table(out)
        self.assertEqual(
            header,
            ["size", "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong",
             "time", "algbw", "busbw", "#wrong", "wire", "ratio", "vnmse", "cpu", "codec"],
        )
        self.assertEqual([row[0] for row in rows], ["4096", "16384", "65536"])
        for row in rows:
            self.assertEqual(len(row), len(header))
            self.assertEqual(int(row[1]) * 4, int(row[0]))
            self.assertEqual(row[2:5], ["float", "avg", "-1"])
            self.assertEqual((row[8], row[12]), ("0", "0"))
            self.assertEqual(row[-1], "tide")
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
                          "2", "-b", "4K", "-n", "3", "--feedback", "ef")["rows"]
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

    def test_gradients_are_those_of_generate(self):
        self.call("generate", "--workers", "2", "--count", "1024", "--kind", "normal", "--seed",
                  "7", "--out", self.path("g"))
        files = [self.path(f"g/w{rank}.npy") for rank in range(2)]
        reduced = self.stats("reduce", "--codec", "bf16", *files)
        measured = self.stats("bench", "allreduce", "--codec", "bf16", "--workers", "2", "--seed",
                              "7", "-b", "4K", "-n", "1")
        self.assertAlmostEqual(measured["vnmse"] / reduced["vnmse"], 1, places=9)

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


if __name__ == "__main__":
    unittest.main()
