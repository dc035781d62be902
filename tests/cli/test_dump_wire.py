"""sluice reduce --dump-wire: a decoder that knows only the READMEs gets the mean from the dump."""

import array
import json
import math
import os
import struct
import unittest

from sluice_cli import CliTest, read_npy


def floats_of(data):
    return array.array("f", data)


def float32(value):
    """The nearest float32, as a float."""
    return struct.unpack("<f", struct.pack("<f", value))[0]


def same(got, want):
    """Equal, or both NaN."""
    return got == want or (math.isnan(got) and math.isnan(want))


class Dump:
    """The folder as read by a program that never saw the one that wrote it."""

    def __init__(self, folder):
        with open(os.path.join(folder, "manifest.json"), encoding="utf-8") as file:
            self.manifest = json.load(file)
        self.workers = self.manifest["workers"]
        self.up_files = [self.read(folder, f"up-{rank}.bin") for rank in range(self.workers)]
        self.down_file = self.read(folder, "down.bin")

    @staticmethod
    def read(folder, name):
        with open(os.path.join(folder, name), "rb") as file:
            return file.read()

    def rounds(self):
        for exchange in self.manifest["exchanges"]:
            for step in exchange["rounds"]:
                yield from step

    def up(self, one, rank):
        offset, size = one["up"][rank]
        return self.up_files[rank][offset : offset + size]

    def down(self, one):
        offset, size = one["down"]
        return self.down_file[offset : offset + size]

    def means(self):
        """Per training step the decoded mean."""
        name = self.manifest["codec"].split(":")[0]
        decode = {"f32": self.dense, "bf16": self.dense, "fixed": self.fixed}[name]
        first, steps = self.manifest["step"], self.manifest["steps"]
        means = {first + i: [None] * self.manifest["count"] for i in range(steps)}
        for exchange in self.manifest["exchanges"]:
            values = decode(exchange["rounds"], exchange["count"])
            start = exchange["offset"]
            means[exchange["step"]][start : start + len(values)] = values
        return [means[first + i] for i in range(steps)]

    def dense(self, steps, count):
        """src/codec/dense/README.md."""
        ((one,),) = steps
        data = self.down(one)
        if one["what"]["op"] == "bf16_sum":
            halves = array.array("H", data)
            data = array.array("I", [half << 16 for half in halves]).tobytes()
        sums = floats_of(data)
        assert len(sums) == count
        mean = []
        for part in one["parts"]:
            here = sums[part["first"] : part["first"] + part["count"]]
            mean += [float32(value / len(part["from"])) for value in here]
        return mean

    def fixed(self, steps, count):
        """src/codec/fixed/README.md."""
        block, workers = self.manifest["options"]["block"], self.workers
        exponents = self.down(steps[0][0])
        counted = len(steps[0][0]["parts"][0]["from"])
        integers, floats = iter(()), iter(())
        for one in steps[1]:
            if one["what"]["op"] == "wrap_sum":
                integers = iter(array.array("i", self.down(one)))
            else:
                floats = iter(floats_of(self.down(one)))
        mean = []
        for i in range(count):
            exponent = exponents[i // block]
            if exponent == 255:
                mean.append(float32(next(floats) / counted))
                continue
            factor = math.ldexp(workers, exponent - 126) / ((2**31 - 1 - workers) * counted)
            mean.append(float32(next(integers) * factor))
        return mean


class DumpTest(CliTest):
    def gradients(self, count, workers, odd=()):
        """Files of numbers that differ by worker; those of `odd` are infinite on worker 0."""
        vectors = []
        for rank in range(workers):
            scale = [1e-4, 1.0, 300.0]
            vectors.append([((i * 7919 + rank * 104729) % 2003 - 1001) / 977 * scale[i // 256 % 3]
                            for i in range(count)])
        for i in odd:
            vectors[0][i] = math.inf
        return self.workers(*vectors)

    def dumped(self, codec, *arguments):
        """The dump, the figures and the mean of one run, checked against each other."""
        folder = self.path("dump")
        stats = self.stats("reduce", "--codec", codec, "--dump-wire", folder, "--out",
                           self.path("m.npy"), *arguments)
        dump = Dump(folder)
        self.check_manifest(dump, stats)
        mean = read_npy(self.path("m.npy"))[1]
        for name in os.listdir(folder):
            os.remove(os.path.join(folder, name))
        return dump, stats, mean

    def check_manifest(self, dump, stats):
        manifest = dump.manifest
        self.assertEqual(list(manifest), [
            "version", "codec", "options", "seed", "step", "steps", "workers", "count", "shape",
            "feedback", "exchanges"])
        self.assertEqual(manifest["version"], 1)
        for key in ("codec", "seed", "step", "steps", "workers", "count", "feedback"):
            self.assertEqual(manifest[key], stats[key], key)
        self.assertEqual(math.prod(manifest["shape"]), manifest["count"])
        self.assertEqual(len(dump.down_file), stats["wire_bytes_down"])
        for file in dump.up_files:
            self.assertEqual(len(file), stats["wire_bytes_up"])
        self.check_chunks(manifest)
        rounds = list(dump.rounds())
        self.assertEqual(len(rounds), stats["rounds"])
        self.check_ranges([one["down"] for one in rounds], dump.down_file)
        for rank in range(dump.workers):
            self.check_ranges([one["up"][rank] for one in rounds], dump.up_files[rank])
        for one in rounds:
            self.check_parts(one, dump.workers)

    def check_chunks(self, manifest):
        """Steps in order, and in each the chunks cover the tensor in order."""
        rows = iter(manifest["exchanges"])
        for step in range(manifest["step"], manifest["step"] + manifest["steps"]):
            at = 0
            while at < manifest["count"]:
                exchange = next(rows)
                self.assertEqual(exchange["step"], step)
                self.assertEqual(exchange["offset"], at)
                tensor = exchange["tensor"]
                self.assertEqual(tensor["rows"] * tensor["cols"], manifest["count"])
                at += exchange["count"]
            self.assertEqual(at, manifest["count"])
        self.assertIsNone(next(rows, None))

    def check_ranges(self, ranges, file):
        at = 0
        for offset, size in ranges:
            self.assertEqual(offset, at)
            at += size
        self.assertEqual(at, len(file))

    def check_parts(self, one, workers):
        self.assertGreater(one["what"]["count"], 0)
        at = 0
        for part in one["parts"]:
            self.assertEqual(part["first"], at)
            at += part["count"]
            self.assertTrue(part["from"])
            self.assertEqual(part["from"], sorted(set(part["from"])))
            self.assertTrue(all(0 <= rank < workers for rank in part["from"]))
            self.assertIn(one["only"], (None, part["from"]))
        self.assertEqual(at, one["what"]["count"])

    def check_mean(self, dump, mean):
        steps = dump.means()
        decoded = steps[0]
        if len(steps) > 1:
            decoded = [float32(sum(column) / len(steps)) for column in zip(*steps)]
        self.assertEqual(len(decoded), len(mean))
        wrong = [i for i, value in enumerate(decoded) if not same(value, mean[i])]
        self.assertEqual(wrong, [])


class Decodes(DumpTest):
    def test_every_codec_size_and_number_of_workers(self):
        for codec in ("f32", "bf16", "fixed", "fixed:block=32"):
            for count in (1, 31, 257, 3000):
                for workers in (1, 2, 5):
                    with self.subTest(codec=codec, count=count, workers=workers):
                        dump, _, mean = self.dumped(codec, *self.gradients(count, workers))
                        self.check_mean(dump, mean)

    def test_several_chunks(self):
        files = self.gradients(140001, 2)
        for codec in ("f32", "fixed"):
            dump, _, mean = self.dumped(codec, *files)
            self.assertEqual([exchange["count"] for exchange in dump.manifest["exchanges"]],
                             [65536, 65536, 8929])
            self.check_mean(dump, mean)

    def test_dropped_workers_are_in_no_part(self):
        files = self.gradients(1000, 4)
        for codec in ("f32", "bf16", "fixed"):
            dump, stats, mean = self.dumped(codec, "--drop", "0", "--drop", "2", *files)
            self.assertEqual(stats["contributors"], 2)
            for one in dump.rounds():
                self.assertEqual([part["from"] for part in one["parts"]], [[1, 3]])
            self.check_mean(dump, mean)

    def test_blocks_that_are_not_finite_have_their_own_round(self):
        files = self.gradients(600, 2, odd=[300, 301])
        dump, _, mean = self.dumped("fixed", *files)
        ops = [[one["what"]["op"] for one in step]
               for step in dump.manifest["exchanges"][0]["rounds"]]
        self.assertEqual(ops, [["max"], ["wrap_sum", "f32_sum"]])
        self.check_mean(dump, mean)
        # Rounds without lanes do not travel: no block is finite here.
        dump, _, mean = self.dumped("fixed", *self.gradients(100, 2, odd=[5]))
        ops = [[one["what"]["op"] for one in step]
               for step in dump.manifest["exchanges"][0]["rounds"]]
        self.assertEqual(ops, [["max"], ["f32_sum"]])
        self.check_mean(dump, mean)

    def test_steps_with_feedback_are_averaged(self):
        files = self.gradients(700, 3)
        for codec in ("f32", "fixed"):
            dump, _, mean = self.dumped(codec, "--steps", "3", "--step", "17", "--seed", "5",
                                        "--feedback", "ef", *files)
            self.assertEqual([exchange["step"] for exchange in dump.manifest["exchanges"]],
                             [17, 18, 19])
            self.check_mean(dump, mean)

    def test_more_workers_than_threads(self):
        dump, _, mean = self.dumped("fixed", *self.gradients(40, 70))
        self.check_mean(dump, mean)

    def test_shapes(self):
        for values, shape in (([5.0], ()), ([], (0,)), ([1.0] * 6, (2, 3))):
            files = self.workers(values, values, shape=shape)
            dump, _, mean = self.dumped("fixed", *files)
            self.assertEqual(dump.manifest["shape"], list(shape))
            self.check_mean(dump, mean)


class Reduces(DumpTest):
    """What went down is the stated reduction of what those who were counted sent up."""

    def test_integers(self):
        dump, _, _ = self.dumped("fixed", "--drop", "1", *self.gradients(500, 3, odd=[400]))
        for one in dump.rounds():
            ranks = one["parts"][0]["from"]
            ups = [dump.up(one, rank) for rank in ranks]
            if one["what"]["op"] == "max":
                self.assertEqual(dump.down(one), bytes(map(max, zip(*ups))))
            elif one["what"]["op"] == "wrap_sum":
                columns = zip(*(array.array("I", up) for up in ups))
                sums = array.array("I", [sum(column) % 2**32 for column in columns])
                self.assertEqual(dump.down(one), sums.tobytes())

    def test_floats_in_the_order_of_ranks(self):
        dump, _, _ = self.dumped("f32", *self.gradients(500, 5))
        for one in dump.rounds():
            sums = floats_of(dump.up(one, 0))
            for rank in range(1, 5):
                values = floats_of(dump.up(one, rank))
                sums = array.array("f", [float32(a + b) for a, b in zip(sums, values)])
            self.assertEqual(dump.down(one), sums.tobytes())


class Folder(DumpTest):
    def setUp(self):
        super().setUp()
        self.files = self.gradients(100, 2)

    def test_equal_runs_write_equal_files(self):
        contents = []
        for name in ("a", "b"):
            folder = self.path(name)
            self.call("reduce", "--codec", "fixed", "--steps", "2", "--dump-wire", folder,
                      *self.files)
            self.assertEqual(sorted(os.listdir(folder)),
                             ["down.bin", "manifest.json", "up-0.bin", "up-1.bin"])
            contents.append([Dump.read(folder, file) for file in sorted(os.listdir(folder))])
        self.assertEqual(contents[0], contents[1])

    def test_is_made_with_its_parents_or_may_be_empty(self):
        os.mkdir(self.path("empty"))
        for folder in (self.path("empty"), self.path("x/y/z")):
            self.call("reduce", "--codec", "f32", "--dump-wire", folder, *self.files)
            self.assertTrue(os.path.exists(os.path.join(folder, "manifest.json")))

    def test_refused_are_names_and_folders_in_use(self):
        os.mkdir(self.path("used"))
        self.write("used/file", b"precious")
        for folder, says in ((self.path("used"), "is not empty"),
                             (self.files[0], "is not a folder"),
                             ("", "names nothing")):
            self.refused("reduce", "--codec", "f32", "--dump-wire", folder, *self.files,
                         says=[f"'{folder}'", says, "accepted"])
        self.assertEqual(os.listdir(self.path("used")), ["file"])
        for folder in (self.files[0] + "/dump", "/proc/nothing"):
            self.refused("reduce", "--codec", "f32", "--dump-wire", folder, *self.files,
                         says=[folder])

    def test_refused_with_several_codecs(self):
        folder = self.path("dump")
        self.refused("reduce", "--codec", "f32", "--codec", "bf16", "--dump-wire", folder,
                     *self.files, says=["--dump-wire", folder, "2 codecs", "one codec"])
        self.assertFalse(os.path.exists(folder))

    def test_nothing_is_made_when_something_else_is_refused(self):
        folder = self.path("dump")
        for arguments in (["--drop", "9"], ["--feedback", "x"], ["--carrier", "x"],
                          ["--steps", "0"]):
            self.refused("reduce", "--codec", "f32", "--dump-wire", folder, *arguments,
                         *self.files)
            self.assertFalse(os.path.exists(folder))


if __name__ == "__main__":
    unittest.main()
