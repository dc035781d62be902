"""sluice bench lossless: columns, figures, the plot, mistakes."""

import json
import unittest
import xml.etree.ElementTree

from sluice_cli import CliTest

SVG = "{http://www.w3.org/2000/svg}"
QUICK = ["--count", "3000", "--repetitions", "7", "--density", "2%", "0.3", "--workers", "2", "3",
         "--overlap", "identical", "disjoint", "--chunk", "1024"]


class BenchLossless(CliTest):
    def test_a_sweep_has_a_table_a_plot_and_figures(self):
        text = self.call("bench", "lossless", *QUICK, "--codec", "lossless", "--codec",
                         "lossless:sum=float", "--svg", self.path("plot.svg"), "--json",
                         self.path("rows.json")).stdout
        with open(self.path("rows.json"), encoding="utf-8") as file:
            rows = json.load(file)["rows"]
        self.assertEqual(len(rows), 2 * 2 * 2 * 2)
        lines = text.splitlines()
        self.assertTrue(lines[0].startswith("codec "), lines[0])
        self.assertIn("× reading the gradient twice", lines[-1])
        for row, line in zip(rows, lines[1:]):
            self.assertTrue(line.startswith(row["codec"] + " "), line)
            self.assertEqual(row["exact"], True, row)
            self.assertEqual((row["count"], row["pattern"]), (3000, "random"))
            self.assertAlmostEqual(row["reduction_up"] * row["bits_up"], 32)
            self.assertAlmostEqual(row["union_density"], row["density"])
            self.assertLess(row["of_bound"], 1)
            for key in ("index_bytes", "value_bytes", "stuck_keys", "exceptions", "rounds",
                        "memcpy_seconds"):
                self.assertGreaterEqual(row[key], 0, key)
            for key in ("time_per_dense", "time_per_two_reads"):
                self.assertGreater(row[key], 0, key)
        root = xml.etree.ElementTree.parse(self.path("plot.svg")).getroot()
        self.assertEqual(root.tag, SVG + "svg")
        titles = [title.text for title in root.iter(SVG + "title")]
        for row in rows:
            self.assertIn(f"{row['codec']}, {row['overlap']}, {row['workers']} workers", titles)

    def test_one_row_is_itself_and_json_goes_to_standard_output_alone(self):
        out = self.call("bench", "lossless", "--count", "1000", "--repetitions", "7", "--density",
                        "100%", "--workers", "1", "--overlap", "independent", "--codec", "bf16",
                        "--pattern", "blocks", "--seed", "5", "--json", "-").stdout
        row = json.loads(out)
        self.assertEqual((row["codec"], row["union_density"], row["seed"]), ("bf16", 1, 5))
        self.assertEqual((row["exact"], row["judge"]), (False, "f32"))
        self.assertEqual((row["reduction_up"], row["mode"]), (2, ""))

    def test_refuses(self):
        for arguments, says in (
            (["--codec", "zip"], ["'zip'"]),
            (["--density", "0"], ["--density '0'", "100%"]),
            (["--density", "1%", "150%"], ["--density '150%'"]),
            (["--overlap", "some"], ["--overlap 'some'", "identical, independent, disjoint"]),
            (["--pattern", "odd"], ["--pattern 'odd'", "random, blocks, columns, rows"]),
            (["--workers", "65"], ["--workers 65", "1 to 64"]),
            (["--count", "0"], ["--count 0", "1 to 1073741824"]),
            (["--repetitions", "3"], ["--repetitions 3", "7 to 1001"]),
            (["--chunk", "0"], ["--chunk 0", "1 to 268435456"]),
        ):
            self.refused("bench", "lossless", *arguments, says=says)
        quick = [*QUICK, "--codec", "f32"]
        self.refused("bench", "lossless", *quick, "--svg", "/proc/nothing/plot.svg",
                     says=["/proc/nothing/plot.svg"])
        self.refused("bench", "codec", "--data", "sparse:5%,odd", says=["'odd'", "disjoint"])

    def test_bench_codec_takes_sparse_data(self):
        stats = self.stats("bench", "codec", "--codec", "lossless", "--count", "5000",
                           "--repetitions", "7", "--data", "sparse:5%,disjoint")
        self.assertEqual(stats["data"], "sparse:5%,disjoint")
        self.assertGreater(stats["read_gbps"], 0)


if __name__ == "__main__":
    unittest.main()
