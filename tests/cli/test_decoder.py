"""Decoders written from the codecs' READMEs alone (tests/decoder) agree with sluice bit for bit."""

import itertools
import math
import os
import random
import sys
import unittest

from sluice_cli import CliTest, read_npy

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "decoder"))
import blocks  # noqa: E402
import float32  # noqa: E402
import lanes  # noqa: E402
import lossless  # noqa: E402
import positions  # noqa: E402
import thc  # noqa: E402
import tide  # noqa: E402
import wire_dump  # noqa: E402

CODECS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "src", "codec")
SIZES = (1, 7, 15, 16, 17, 31, 64, 65, 127, 255, 256, 257, 511, 513, 1024, 1025, 2048)
ODD = (math.inf, -math.inf, math.nan, -0.0, 2.0**127, -(2.0**-149), 2.0**-120 + 2.0**-140, 1.0)
SPARSE = (  # Options, shape, density, supports, spread of exponents, odd values.
    ("mode=sketch,room=0.7", (1, 2000), 0.3, "alike", 0, 0),
    ("mode=sketch,index=bloom", (1, 2000), 0.05, "apart", 3, 0),
    ("mode=sketch", (1, 2000), 0.1, "alike", 0, 1),
    ("step_bytes=4000", (1, 400), 0.05, "alike", 0, 0),
    ("step_bytes=4000", (1, 2000), 0.1, "runs", 0, 0),
    ("step_bytes=4000", (1, 3000), 0.01, "alike", 2, 0),
    ("step_bytes=0", (350, 200), 0.003, "apart", 0, 2),  # Two chunks.
    ("step_bytes=0,index=rows,sum=float", (350, 200), 0.05, "rows", 0, 3),
    ("mode=auto", (90, 33), 0.2, "rows", 40, 0),
    ("index=rows", (90, 33), 0.01, "alike", 0, 80),
    ("index=bitmap", (1, 3000), 0.1, "apart", 40, 0),
    ("index=levels,step_bytes=0", (1, 3000), 0.003, "apart", 0, 0),
    ("index=bloom", (1, 3000), 0.02, "alike", 0, 0),
    ("index=gather", (1, 3000), 0.01, "apart", 0, 5),
    ("mode=auto", (1, 2000), 0.9, "apart", 40, 80),
    ("mode=auto", (1, 3000), 0, "alike", 0, 0),
)
SPARSE_KINDS = {
    "empty", "dense", "exceptions", "stuck keys", "lists after levels",
    *(f"{kind}: {kind}" for kind in ("bitmap", "levels", "rows", "bloom", "gather")),
    *(f"auto: {kind}" for kind in ("bitmap", "levels", "whole rows")),
    *(f"sketch: sketch {when}" for when in ("with its index", "again", "after its index")),
    "auto: sketch with its index"}
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
        return [2.0 ** draw.choice((-145, draw.uniform(-140, -70), draw.uniform(-69, -63)))
                for _ in blocks]
    return [2.0 ** draw.uniform(-10, 10)] * len(blocks)


def gradient(draw, count, levels):
    if draw.random() < 0.08:
        return [0.0] * count
    x = [draw.gauss(0, 1) * levels[i // 64] for i in range(count)]
    if draw.random() < 0.2:
        for _ in range(1 + count // 50):
            x[draw.randrange(count)] *= 30
    return list(float32.f32(x))


def sparse_gradients(draw, n, shape, density, kind, spread, odd):
    """Supports alike, apart, in rows or in runs, and `odd` values that hardly fit integers."""
    count = shape[0] * shape[1]
    size, out = {"rows": shape[1], "runs": 100}.get(kind, 1), []
    for k in range(n):
        pick = random.Random(f"{count} {k if kind == 'apart' else 'all'}")
        runs = [pick.random() < density for _ in range(count // size + 1)]
        there = [runs[i // size] and draw.random() < 0.97 for i in range(count)]
        out.append(list(float32.f32(
            draw.gauss(0, 1) * 2.0 ** draw.randint(-spread, spread) if it else 0.0
            for it in there)))
    for _ in range(odd):
        draw.choice(out)[draw.randrange(count)] = draw.choice(ODD)
    return out


def lossless_spec(draw):
    mode, sums = draw.choice(("auto", "auto", "packed", "sketch", "dense")), "exact"
    indexes = ["auto"] * 3 + ["bitmap", "bloom"]
    if mode != "sketch":
        sums = draw.choice(("exact", "exact", "float"))
        indexes += ["levels", "levels", "rows", "gather"]
    spec = f"lossless:mode={mode},sum={sums},index={draw.choice(indexes)}"
    spec += f",step_bytes={draw.choice((0, 0, 128, 4000))}"
    return spec + draw.choice(("", f",room={draw.choice((0.5, 0.7, 0.9, 2))}"))


def tide_spec(draw):
    bits = draw.choice((draw.randint(1, 8), round(draw.uniform(1, 8), 3), draw.uniform(1, 2)))
    down = draw.choice((*DOWN, "auto", "auto"))
    block, scales = draw.choice((64, 64, 128, 256, 512, 1024)), draw.choice(("now", "previous"))
    floor = draw.choice((0, 1, 1))
    return f"tide:bits={bits},block={block},down={down},scales={scales},floor={floor}"


def blocks_spec(draw):
    return f"blocks:block={draw.choice((32, 32, 40, 64, 128, 256, 4096))}"


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
    reduce = getattr(codec, "reduce", lanes.reduce)
    total, left = [0.0] * manifest["count"], [[0.0] * manifest["count"] for _ in gradients]
    for _, exchanges in itertools.groupby(manifest["exchanges"], lambda each: each["step"]):
        mean, inputs = [], [list(x) for x in gradients]
        if manifest["feedback"] == "ef":
            inputs = [list(float32.f32(map(float.__add__, *pair))) for pair in zip(inputs, left)]
        for exchange in exchanges:
            for round_ in (r for step in exchange["rounds"] for r in step):
                if gradients:
                    assert reduce(round_, manifest["workers"]) == round_.down, round_.what
            assert exchange["offset"] == len(mean)
            end = len(mean) + exchange["count"]
            chunks = [x[len(mean) : end] for x in inputs]
            mean += decoder.step(exchange, chunks, [x[len(mean) : end] for x in gradients])
            for x, chunk in zip(inputs, chunks):
                x[end - len(chunk) : end] = chunk
        total, left = list(map(float.__add__, total, mean)), inputs
    mean = mean if steps == 1 else float32.f32(v / steps for v in total)
    assert float32.to_bytes(mean) == float32.to_bytes(read_npy(mean_file)[1]), "the mean"
    return decoder


class Examples(unittest.TestCase):
    """Those of the READMEs, by the decoders."""

    def test_lists_and_size_codes_of_lossless(self):
        with open(os.path.join(CODECS, "lossless", "README.md"), encoding="utf-8") as file:
            page = file.read()
        data = positions.write_list([3, 10, 20], 32).hex(" ")
        self.assertIn(f"the positions 3, 10 and 20 of P = 32 are the bytes `{data}`", page)
        self.assertEqual({lossless.size_code(x) for x in (96, 100, 103)}, {36})
        self.assertNotIn(36, map(lossless.size_code, (95, 104)))
        self.assertIn("100 has code 36, and so have 96 to 103", page)


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
        if spec.startswith(("thc:bits=1,", "thc:bits=2,")) or "down=round" in spec:
            feedback = "none"  # Some of them would diverge or lose, and are refused.
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

    def test_blocks(self):
        for number in range(60):
            self.case(number, blocks_spec, blocks.Blocks)

    def sparse_case(self, name, spec, shape, arguments, gradients):
        """The kinds of chunks in one run, decoded."""
        dump, mean = self.path(f"dump-{name}"), self.path("mean.npy")
        with self.subTest(f"{name}: {spec} {arguments}, {len(gradients)} × {shape}"):
            self.call("reduce", "--codec", spec, *arguments, "--dump-wire", dump, "--out", mean,
                      *self.workers(*gradients, shape=shape))
            return check(dump, mean, lossless.Lossless, gradients).seen
        return set()

    def random_sparse_case(self, number):
        draw = random.Random(f"lossless {number}")
        cols = draw.choice((8, 16, 33, 200))
        shape = draw.choice((1, 2, 7, draw.randint(1, 3000 // cols))), cols
        n = min(draw.choice((1, 2, 3, 4, 5, 17)), 6000 // (shape[0] * cols))
        gradients = sparse_gradients(
            draw, n, shape, draw.choice((0.002, 0.01, 0.05, 0.05, 0.3, 0.9)),
            draw.choice(("alike", "apart", "rows", "runs")), draw.choice((0, 0, 1, 3, 40)),
            draw.choice((0, 0, 0, 1, 1, 5, 80)))
        arguments = ["--seed", str(draw.choice((0, 1, draw.getrandbits(64)))),
                     "--step", str(draw.choice((0, 7, draw.getrandbits(40)))),
                     "--steps", str(draw.choice((1, 2, 3))),
                     "--feedback", draw.choice(("none", "ef"))]
        if n > 1 and draw.random() < 0.3:
            arguments += ["--drop", str(draw.randrange(n))]
        self.sparse_case(number, lossless_spec(draw), shape, arguments, gradients)

    def test_lossless(self):
        for number in range(60):
            self.random_sparse_case(number)

    def test_lossless_of_every_kind(self):
        seen = set()
        for number, (options, shape, *how) in enumerate(SPARSE):
            gradients = sparse_gradients(random.Random("sparse"), 3, shape, *how)
            arguments = ["--steps", "2"]
            seen |= self.sparse_case(number, f"lossless:{options}", shape, arguments, gradients)
        self.assertEqual(SPARSE_KINDS - seen, set())

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
