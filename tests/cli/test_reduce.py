"""sluice reduce: results, figures, bad input."""

import glob
import math
import os
import struct
import unittest

from sluice_cli import DATA, CliTest, npy_bytes, read_npy

FIELDS = [
    "codec", "workers", "contributors", "count", "rounds", "wire_bytes_up", "wire_bytes_down",
    "bits_up", "bits_down", "nmse", "vnmse", "max_abs_error", "exact", "encode_seconds",
    "reduce_seconds", "decode_seconds",
]


class Results(CliTest):
    def test_writes_the_mean_in_the_inputs_shape(self):
        files = self.workers([1, 2, 3, 4, 5, 6], [3, 2, 1, 0, -1, -2], shape=(2, 3))
        self.call("reduce", "--codec", "f32", "--out", self.path("mean.npy"), *files)
        header, values = read_npy(self.path("mean.npy"))
        self.assertIn("'shape': (2, 3)", header)
        self.assertEqual(values, (2, 2, 2, 2, 2, 2))

    def test_scalars_and_empty_arrays_keep_their_shape(self):
        for values, shape in (([5], ()), ([], (0,)), ([], (3, 0))):
            files = self.workers(values, values, shape=shape)
            stats = self.stats("reduce", "--codec", "fixed", "--out", self.path("m.npy"), *files)
            header, got = read_npy(self.path("m.npy"))
            self.assertIn(f"'shape': {shape!r}", header)
            self.assertEqual(list(got), values)
            self.assertEqual(stats["contributors"], 2)
            self.assertTrue(stats["exact"])

    def test_one_spec_is_one_object_with_every_field(self):
        stats = self.stats("reduce", "--codec", "bf16", *self.workers([1.0, 2.0], [3.0, 4.0]))
        self.assertEqual(list(stats)[: len(FIELDS)], FIELDS)
        self.assertEqual(stats["wire_bytes_up"], 4)
        self.assertEqual(stats["bits_up"], 16.0)
        self.assertTrue(stats["exact"])
        self.assertEqual(stats["nmse"], 0)

    def test_several_specs_are_rows(self):
        files = self.workers([1.0, 2.0], [3.0, 4.0])
        stats = self.stats("reduce", "--codec", "f32", "--codec", "fixed:block=64", *files)
        self.assertEqual([row["codec"] for row in stats["rows"]], ["f32", "fixed:block=64"])

    def test_vnmse_of_a_zero_mean_is_null(self):
        stats = self.stats("reduce", "--codec", "f32", *self.workers([1.0, -2.0], [-1.0, 2.0]))
        self.assertIsNone(stats["vnmse"])
        self.assertEqual(stats["nmse"], 0)

    def test_drop_decodes_with_the_others(self):
        files = self.workers([100.0, 100.0], [1.0, 2.0], [3.0, 4.0])
        stats = self.stats(
            "reduce", "--codec", "fixed", "--drop", "0", "--out", self.path("m.npy"), *files
        )
        self.assertEqual(stats["contributors"], 2)
        for got, want in zip(read_npy(self.path("m.npy"))[1], (2.0, 3.0)):
            self.assertAlmostEqual(got, want, places=6)

    def test_other_float_types_are_converted(self):
        for descr in ("<f2", "<f8"):
            files = self.workers([1.5, -2.0], [2.5, 2.0], descr=descr)
            self.call("reduce", "--codec", "f32", "--out", self.path("m.npy"), *files)
            self.assertEqual(read_npy(self.path("m.npy"))[1], (2.0, 0.0))

    def test_not_finite_stays_where_it_was(self):
        values = [1.0] * 600
        values[300] = math.inf
        values[599] = math.nan
        files = self.workers(values, [1.0] * 600)
        for codec in ("f32", "bf16", "fp16", "fixed"):
            self.call("reduce", "--codec", codec, "--out", self.path("m.npy"), *files)
            got = read_npy(self.path("m.npy"))[1]
            self.assertEqual(got[300], math.inf, codec)
            self.assertTrue(math.isnan(got[599]), codec)
            self.assertEqual(sum(map(math.isfinite, got)), 598, codec)

    def test_same_bytes_at_every_kernel_level(self):
        files = sorted(glob.glob(os.path.join(DATA, "w*.npy")))
        means = set()
        for level in ("scalar", "best"):
            self.call("reduce", "--codec", "fixed", "--out", self.path("m.npy"), *files,
                      env={"SLUICE_FORCE_KERNEL": level})
            with open(self.path("m.npy"), "rb") as file:
                means.add(file.read())
        self.assertEqual(len(means), 1)

    def test_feedback_shrinks_the_error_of_the_running_average(self):
        files = sorted(glob.glob(os.path.join(DATA, "w*.npy")))
        one = self.stats("reduce", "--codec", "thc", *files)
        many = self.stats("reduce", "--codec", "thc", "--feedback", "ef", "--steps", "20", *files)
        # What is left is the last step's error over 20, squared; without feedback it is over 20.
        self.assertLess(many["nmse"], one["nmse"] / 100)
        self.assertEqual(many["wire_bytes_up"], 20 * one["wire_bytes_up"])
        self.assertEqual(many["bits_up"], one["bits_up"])

    def test_thousands_of_workers(self):
        files = self.workers(*[[float(i), 1.0, -2.0] for i in range(4096)])
        stats = self.stats("reduce", "--codec", "fixed", *files)
        self.assertEqual(stats["workers"], 4096)
        self.assertLess(stats["nmse"], 1e-12)
        self.refused("reduce", "--codec", "f32", *files, files[0], says=["4097", "4096"])


class BadInput(CliTest):
    def setUp(self):
        super().setUp()
        self.good = self.workers([1.0, 2.0, 3.0], [1.0, 2.0, 3.0])
        self.out = self.path("out.npy")

    def refused_file(self, content, *says):
        bad = self.write("bad.npy", content)
        self.refused("reduce", "--codec", "f32", "--out", self.out, self.good[0], bad,
                     says=["bad.npy", *says])
        left = sorted(os.listdir(self.folder.name))
        self.assertEqual(left, ["bad.npy", "w0.npy", "w1.npy"])

    def test_codec_and_options(self):
        for spec, says in {
            "zip": ["'zip'", "f32", "bf16", "fp16", "fixed"],
            "f32:bits=4": ["bits=4", "none"],
            "fixed:blok=4": ["blok=4", "block=256", "32 to 4096"],
            "fixed:block=33": ["33", "32 to 4096", "multiple of 8"],
            "fixed:block=x": ["'x'"],
            "fixed:block": ["'block'"],
            "fixed:block=64,block=64": ["twice"],
            "fixed:block=1e99": ["1e99"],
            "": ["''"],
        }.items():
            self.refused("reduce", "--codec", spec, *self.good, says=says)

    def test_files(self):
        good = npy_bytes([1.0, 2.0, 3.0])
        self.refused_file(b"hello", "NUMPY")
        self.refused_file(b"")
        self.refused_file(npy_bytes([1.0, 2.0, 3.0], fortran=True), "fortran_order True")
        self.refused_file(npy_bytes([1, 2, 3], descr="<i4"), "<i4", "float32")
        self.refused_file(good[:-1])
        self.refused_file(good + b"x")
        self.refused_file(npy_bytes([1.0, 2.0]), "(2,)", "(3,)")
        self.refused_file(npy_bytes([1.0, 2.0, 3.0], shape=(3, 1)), "(3, 1)", "(3,)")
        self.refused_file(good.replace(b"(3,)", b"(9,)"))
        self.refused_file(good[:8] + struct.pack("<H", 60000) + good[10:])

    def test_files_that_are_not_there(self):
        self.refused("reduce", "--codec", "f32", self.path("none.npy"), says=["none.npy"])
        self.refused("reduce", "--codec", "f32", self.folder.name, says=[self.folder.name])
        self.refused("reduce", "--codec", "f32", says=["no files"])

    def test_outputs(self):
        self.refused("reduce", "--codec", "f32", "--out", "/nonexistent/m.npy", *self.good,
                     says=["/nonexistent/m.npy"])
        self.refused("reduce", "--codec", "f32", "--json", "/nonexistent/s.json", *self.good,
                     says=["/nonexistent/s.json"])
        self.refused("reduce", "--codec", "f32", "--codec", "bf16", "--out", self.out, *self.good,
                     says=["--out", "2 codecs"])

    def test_other_options(self):
        for arguments, says in (
            (["--drop", "2"], ["--drop 2", "0 to 1"]),
            (["--drop", "0", "--drop", "1"], ["leaves none"]),
            (["--drop", "0", "--drop", "0"], ["twice"]),
            (["--drop", "0", "--carrier", "stream"],
             ["stream counts every worker: losing contributions (--drop) is for carrier 'local'"]),
            (["--feedback", "sometimes"], ["'sometimes'", "none, ef"]),
            (["--carrier", "pigeon"], ["'pigeon'", "local"]),
            (["--steps", "0"], ["--steps 0"]),
        ):
            self.refused("reduce", "--codec", "f32", *arguments, *self.good, says=says)
        self.refused("reduce", "--codec", "bf16", "--feedback", "ef", *self.good,
                     says=["'bf16'", "come back rounded", "accepted", "fixed"])
        self.call("reduce", "--codec", "f32", "--seed", "18446744073709551615", *self.good)
        for arguments in (["--steps", "-1"], ["--seed", "x"], ["--unknown"], ["--drop", "x"],
                          ["--seed", "18446744073709551616"], ["--seed", "+1"]):
            done = self.call("reduce", "--codec", "f32", *self.good, *arguments, status=2)
            self.assertIn(arguments[0], done.stderr)

    def test_kernel_that_does_not_exist(self):
        done = self.call("codecs", status=2, env={"SLUICE_FORCE_KERNEL": "mmx"})
        self.assertIn("mmx", done.stderr)
        self.assertIn("scalar", done.stderr)


if __name__ == "__main__":
    unittest.main()
