"""Decoders written from the codecs' READMEs alone (tests/decoder) agree with sluice bit for bit."""

import itertools
import math
import os
import random
import sys
import unittest

from sluice_cli import CliTest, read_npy

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "decoder"))
import float32  # noqa: E402
import lanes  # noqa: E402
import thc  # noqa: E402
import tide  # noqa: E402
import wire_dump  # noqa: E402

SIZES = (1, 7, 15, 16, 17, 31, 64, 65, 127, 255, 256, 257, 511, 513, 1024, 1025, 2048)
DOWN = ("full", "narrow", "narrow", "round", *(f"round,extra={extra}" for extra in range(5)))


def levels_of(draw, count):
    """A standard deviation for every 64 coordinates, the same for all workers."""
    kind = draw.choice(("flat", "flat", "spread", "spread", "zeros", "tiny", "huge"))
    blocks = range(count // 64 + 1)
    if kind == "spread":
        return [2.0 ** draw.uniform(-6, 6) for _ in blocks]
    if kind == "zeros":
        return [draw.choice((0.0, 1.0, 1.0)) for _ in blocks]
    if kind == "huge":  # Energies, and sums, around the largest float.
        return [2.0 ** draw.choice((124, draw.uniform(58, 64))) for _ in blocks]
    if kind == "tiny":  # Energies around the least float that is not subnormal, or far below.
        return [2.0 ** draw.choice((-145, *[draw.uniform(-69, -63)] * 9))] * len(blocks)
    return [2.0 ** draw.uniform(-10, 10)] * len(blocks)


def gradient(draw, count, levels):
    if draw.random() < 0.08:
        return [0.0] * count
    x = [draw.gauss(0, 1) * levels[i // 64] for i in range(count)]
    if draw.random() < 0.2:
        for _ in range(1 + count // 50):
            x[draw.randrange(count)] *= 30
    return list(float32.f32(x))


def tide_spec(draw):
    bits = draw.choice((draw.randint(1, 8), round(draw.uniform(1, 8), 3), draw.uniform(1, 2)))
    down = draw.choice(DOWN)
    block, scales = draw.choice((64, 64, 128, 256, 512, 1024)), draw.choice(("now", "previous"))
    return f"tide:bits={bits},block={block},down={down},scales={scales}"


def thc_spec(draw):
    bits = draw.randint(1, 8)
    spec = f"thc:bits={bits},rounding={draw.choice(('stochastic', 'stratified', 'nearest'))}"
    spec += ",down=" + draw.choice(DOWN)
    grouping = draw.choice(("blocks", "strided", "full", "minmax"))
    if grouping == "minmax":
        return spec + f",range=minmax,grouping={draw.choice(('blocks', 'full'))}"
    rotation = draw.choice((0, *(1 << k for k in range(0 if grouping == "strided" else 4, 13))))
    g = draw.choice((0, (1 << bits) - 1, draw.randint((1 << bits) - 1, 300)))
    p, table = 10 ** draw.uniform(-6, -0.05), draw.choice(("optimal", "symmetric"))
    spec += f",grouping={grouping},rotation={rotation},g={g},table={table}"
    return spec + draw.choice(("", f",p={p}"))


def tide_refuses(spec, count):
    options = dict(pair.split("=") for pair in spec[len("tide:") :].split(","))
    blocks = tide.cut(count, int(options["block"])) if count >= 16 else []
    return float(options["bits"]) * count < 12 * len(blocks)


def check(folder, mean_file, codec, gradients):
    """Decodes the dump. With gradients every byte up and every sum is checked too."""
    manifest = wire_dump.read(folder)
    decoder, steps = codec(manifest), manifest["steps"]
    total, left = [0.0] * manifest["count"], [[0.0] * manifest["count"] for _ in gradients]
    for _, exchanges in itertools.groupby(manifest["exchanges"], lambda each: each["step"]):
        mean, inputs = [], [list(x) for x in gradients]
        if manifest["feedback"] == "ef":
            inputs = [list(float32.f32(map(float.__add__, *pair))) for pair in zip(inputs, left)]
        for exchange in exchanges:
            for round_ in (r for step in exchange["rounds"] for r in step):
                if gradients:
                    assert lanes.reduce(round_, manifest["workers"]) == round_.down, round_.what
            assert exchange["offset"] == len(mean)
            end = len(mean) + exchange["count"]
            chunks = [x[len(mean) : end] for x in inputs]
            mean += decoder.step(exchange, chunks)
            for x, chunk in zip(inputs, chunks):
                x[end - len(chunk) : end] = chunk
        total, left = list(map(float.__add__, total, mean)), inputs
    mean = mean if steps == 1 else float32.f32(v / steps for v in total)
    assert float32.to_bytes(mean) == float32.to_bytes(read_npy(mean_file)[1]), "the mean"


class Decoder(CliTest):
    def case(self, number, spec_of, codec):
        """One random run, decoded."""
        draw = random.Random(f"decoder {number}")
        n, count = draw.randint(1, 9), draw.choice((draw.choice(SIZES), draw.randint(1, 3000)))
        steps = draw.choice((1, 1, 2, 3, 9))
        n = min(n, max(1, 6000 // count // steps))
        spec, levels = spec_of(draw), levels_of(draw, count)
        gradients = [gradient(draw, count, levels) for _ in range(n)]
        if draw.random() < 0.15:
            for _ in range(draw.randint(1, 3)):
                gradients[-1][draw.randrange(count)] = draw.choice((math.inf, -math.inf, math.nan))
        feedback = draw.choice(("none", "ef", "ef"))
        if spec.startswith(("thc:bits=1,", "thc:bits=2,")):
            feedback = "none"  # Some of them would diverge and are refused.
        arguments = ["--codec", spec, "--seed", str(draw.choice((0, 1, draw.getrandbits(64)))),
                     "--step", str(draw.choice((0, 7, draw.getrandbits(40)))),
                     "--steps", str(steps), "--feedback", feedback]
        for k in draw.sample(range(n), draw.choice((0, 0, 1, n // 3)) if n > 1 else 0):
            arguments += ["--drop", str(k)]
        dump, mean = self.path(f"dump-{number}"), self.path("mean.npy")
        with self.subTest(f"{number}: {' '.join(arguments)}, {n} × {count}"):
            files = ["--dump-wire", dump, "--out", mean, *self.workers(*gradients)]
            if codec is tide.Tide and tide_refuses(spec, count):
                self.refused("reduce", *arguments, *files)
            else:
                self.call("reduce", *arguments, *files)
                check(dump, mean, codec, gradients)

    def test_tide(self):
        for number in range(150):
            self.case(number, tide_spec, tide.Tide)

    def test_thc(self):
        for number in range(150):
            self.case(number, thc_spec, thc.Thc)

    def every_flip_shows(self, spec, codec, levels):
        """A byte down changes the mean or is an error; a byte up is not what the worker sent."""
        draw = random.Random("flips")
        gradients = [gradient(draw, 150, levels) for _ in range(3)]
        dump, mean = self.path(codec.__name__), self.path("mean.npy")
        files = self.workers(*gradients)
        self.call("reduce", "--codec", spec, "--dump-wire", dump, "--out", mean, *files)
        check(dump, mean, codec, gradients)
        for name, inputs in (("down.bin", []), ("up-1.bin", gradients)):
            with open(os.path.join(dump, name), "r+b") as file:
                good = file.read()
                for at, byte in enumerate(good):
                    file.seek(0)
                    file.write(good[:at] + bytes([byte ^ 0x11]) + good[at + 1 :])
                    file.flush()
                    with self.assertRaises((AssertionError, IndexError), msg=f"{name}: {at}"):
                        check(dump, mean, codec, inputs)
                file.seek(0)
                file.write(good)

    def test_flipped_bytes_of_tide(self):
        self.every_flip_shows("tide:block=64,bits=3,down=narrow", tide.Tide, [1.0, 2.0**100, 8.0])

    def test_flipped_bytes_of_thc(self):
        self.every_flip_shows("thc:bits=3,down=round,rotation=64", thc.Thc, [1.0, 0.0, 8.0])


if __name__ == "__main__":
    unittest.main()
