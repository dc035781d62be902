"""The other commands: help, codecs, generate, bench."""

import json
import os
import unittest

from sluice_cli import CliTest, read_npy


class Commands(CliTest):
    def test_help_and_version(self):
        for arguments in ([], ["codecs"], ["reduce"], ["bench"], ["bench", "codec"],
                          ["bench", "allreduce"], ["bench", "lossless"], ["generate"]):
            self.assertIn("--help", self.call(*arguments, "--help").stdout)
        self.assertRegex(self.call("--version").stdout, r"^sluice \d+\.\d+\.\d+\n$")

    def test_a_command_is_needed_and_must_exist(self):
        for arguments in ([], ["frobnicate"], ["bench"], ["bench", "nothing"]):
            self.assertNotEqual(self.call(*arguments, status=2).stderr, "")

    def test_codecs_lists_the_catalogue(self):
        text = self.call("codecs", "--json", self.path("codecs.json")).stdout
        with open(self.path("codecs.json"), encoding="utf-8") as file:
            rows = json.load(file)["rows"]
        self.assertEqual([row["name"] for row in rows][:4], ["f32", "bf16", "fp16", "fixed"])
        for row in rows:
            self.assertIn(row["name"], text)
            self.assertIn(row["contraction"], ("always", "typical", "never"))
        self.assertEqual(rows[3]["options"][0]["key"], "block")

    def test_json_to_standard_output_is_only_json(self):
        json.loads(self.call("codecs", "--json", "-").stdout)

    def test_generate_is_the_same_for_the_same_seed(self):
        for kind in ("normal", "layers", "sparse"):
            contents = []
            for folder in ("a", "b"):
                self.call("generate", "--workers", "2", "--count", "5000", "--kind", kind,
                          "--out", self.path(folder))
                with open(os.path.join(self.path(folder), "w1.npy"), "rb") as file:
                    contents.append(file.read())
            self.assertEqual(contents[0], contents[1])
            values = read_npy(os.path.join(self.path("a"), "w0.npy"))[1]
            self.assertEqual(len(values), 5000)
            self.assertNotEqual(values, read_npy(os.path.join(self.path("a"), "w1.npy"))[1])
        zeros = sum(value == 0 for value in values)
        self.assertGreater(zeros, 4700)

    def test_generate_refuses(self):
        out = self.path("g")
        self.refused("generate", "--kind", "odd", "--out", out, says=["'odd'", "sparse"])
        self.refused("generate", "--workers", "0", "--out", out, says=["1 to 4096"])
        self.refused("generate", "--count", "99999999999", "--out", out, says=["99999999999"])
        self.refused("generate", "--out", "/proc/nothing", says=["/proc/nothing"])
        self.assertFalse(os.path.exists(out))

    def test_bench_reports_rates_and_ratios(self):
        stats = self.stats("bench", "codec", "--codec", "bf16", "--count", "100001")
        for key in ("memcpy_gbps", "encode_gbps", "combine_gbps", "decode_gbps",
                    "encode_ratio", "combine_ratio", "decode_ratio"):
            self.assertGreater(stats[key], 0, key)
        rows = self.stats("bench", "codec", "--codec", "f32", "fixed", "--count", "70000",
                          "--threads", "2", "--kernel", "scalar")["rows"]
        self.assertEqual([row["codec"] for row in rows], ["f32", "fixed"])
        self.assertEqual(rows[0]["kernel"], "scalar")

    def test_bench_carries_feedback_and_makes_data(self):
        for data in ("uniform", "normal", "layers"):
            rows = self.stats("bench", "codec", "--codec", "f32", "fixed", "--count", "70001",
                              "--threads", "2", "--workers", "3", "--feedback", "ef", "--data",
                              data, "--chunk", "1000")["rows"]
            for row in rows:
                self.assertEqual((row["feedback"], row["data"]), ("ef", data))
                self.assertEqual(row["chunk"], 768)
                self.assertGreater(row["encode_ratio"], 0)
        stats = self.stats("bench", "codec", "--codec", "f32", "--count", "1")
        self.assertEqual((stats["feedback"], stats["data"]), ("none", "uniform"))
        self.assertEqual(stats["chunk"], 65536)
        # A chunk beyond what the codec's plan allows, and one below its multiple.
        for chunk, fitted in (("268435456", 1 << 20), ("1", 256)):
            stats = self.stats("bench", "codec", "--codec", "f32", "--count", "3000000", "--chunk",
                               chunk, "--repetitions", "7")
            self.assertEqual(stats["chunk"], fitted)

    def test_bench_refuses(self):
        for arguments, says in (
            (["--kernel", "mmx"], ["'mmx'", "best"]),
            (["--codec", "zip"], ["'zip'"]),
            (["--count", "0"], ["--count 0"]),
            (["--threads", "0"], ["--threads 0"]),
            (["--workers", "65"], ["--workers 65", "1 to 64"]),
            (["--repetitions", "3"], ["--repetitions 3", "7 to 1001"]),
            (["--chunk", "0"], ["--chunk 0", "1 to 268435456"]),
            (["--chunk", "268435457"], ["--chunk 268435457", "1 to 268435456"]),
            (["--feedback", "some"], ["'some'", "none, ef"]),
            (["--data", "real"], ["'real'", "uniform, normal, layers"]),
        ):
            self.refused("bench", "codec", *arguments, says=says)


if __name__ == "__main__":
    unittest.main()
