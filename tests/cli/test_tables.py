"""`sluice tables`: the table of a setting, and the best setting for a width."""

import json
import unittest

from sluice_cli import CliTest

PUBLISHED = [0, 3, 5, 7, 9, 11, 13, 14, 16, 17, 19, 21, 23, 25, 27, 30]


class Tables(CliTest):
    def test_the_published_setting(self):
        stats = self.stats("tables", "--bits", "4", "--g", "30", "--p", "1/32", "--workers", "8",
                           "--table", "symmetric")
        self.assertEqual(stats["table"], PUBLISHED)
        self.assertAlmostEqual(stats["clamp_point"], 2.1538746941, 9)
        self.assertAlmostEqual(stats["rounding"], 0.0130745947, 10)
        self.assertAlmostEqual(stats["clamping"], 0.0072672585, 10)
        self.assertAlmostEqual(stats["error"], 0.0203418532, 9)
        self.assertAlmostEqual(stats["error_independent"], stats["error"] / 8, 12)
        self.assertAlmostEqual(stats["error_identical"],
                               stats["rounding"] / 8 + stats["clamping"], 12)
        self.assertEqual(stats["lane"], 8)
        self.assertEqual(stats["workers_max"], {"8": 8, "10": 34, "12": 136, "16": 2184})

    def test_a_fraction_and_a_number_are_the_same(self):
        texts = [self.call("tables", "--g", "30", "--p", p).stdout for p in ("1/32", "0.03125")]
        self.assertEqual(texts[0], texts[1])
        self.assertIn("1/32", texts[0])

    def test_the_best_table_is_found_and_fits(self):
        found = self.stats("tables", "--bits", "4", "--workers", "8", "--lane", "8")
        self.assertLessEqual(8 * found["g"], 255)
        self.assertLessEqual(found["lane"], 8)
        for g in range(15, 32):
            other = self.stats("tables", "--g", str(g), "--p", "1/64")
            self.assertLessEqual(found["error_independent"], other["error_independent"] + 1e-9)
        alike = self.stats("tables", "--bits", "4", "--workers", "8", "--inputs", "identical")
        self.assertLess(alike["p"], found["p"])
        self.assertLess(alike["error_identical"], found["error_identical"])

    def test_g_or_p_alone_is_searched(self):
        only_p = self.stats("tables", "--g", "30", "--workers", "8")
        self.assertEqual(only_p["g"], 30)
        self.assertLess(only_p["error_independent"], 0.0203298 / 8)
        only_g = self.stats("tables", "--p", "1/32", "--workers", "8")
        self.assertEqual(only_g["p"], 0.03125)
        self.assertLessEqual(8 * only_g["g"], 255)

    def test_json_to_standard_output_is_only_json(self):
        json.loads(self.call("tables", "--g", "30", "--p", "0.05", "--json", "-").stdout)

    def test_refuses(self):
        for arguments, says in (
            (["--bits", "0"], ["--bits 0", "1 to 8"]),
            (["--bits", "9"], ["--bits 9", "1 to 8"]),
            (["--workers", "0"], ["--workers 0", "1 to 4096"]),
            (["--lane", "25"], ["--lane 25", "1 to 24"]),
            (["--g", "14"], ["--g 14", "15 to 4095"]),
            (["--g", "4096"], ["--g 4096", "15 to 4095"]),
            (["--g", "32", "--lane", "8"], ["--g 32", "15 to 31"]),
            (["--workers", "4096", "--g", "4096"], ["--g 4096", "15 to 4095"]),
            (["--workers", "18"], ["--lane 8", "18 workers", "9 to 24"]),
            (["--p", "0"], ["--p '0'", "1e-06 to 0.9"]),
            (["--p", "1/0"], ["--p '1/0'"]),
            (["--p", "nan"], ["--p 'nan'"]),
            (["--p", "1/32x"], ["--p '1/32x'"]),
            (["--p", "0.95"], ["--p '0.95'", "0.9"]),
            (["--table", "round"], ["'round'", "optimal, symmetric"]),
            (["--inputs", "odd"], ["'odd'", "independent, identical"]),
        ):
            self.refused("tables", *arguments, says=says)
        for text in ("-1", "4x", ""):
            self.call("tables", "--bits", text, status=2)


if __name__ == "__main__":
    unittest.main()
