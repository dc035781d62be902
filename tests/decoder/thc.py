"""thc: src/codec/thc/README.md."""

import math
import struct
from bisect import bisect_right
from fractions import Fraction
from functools import reduce
from statistics import NormalDist

from codec import Codec
from float32 import bits_of, energy, f32, from_bits, log2, one, transform
from lanes import pack, twice_sums, unpack

U32 = 0xFFFFFFFF
SIGNS, SHARED_ROUNDING, OWN_ROUNDING = 1, 2, 3


def cut(count, block):
    """(first, size) of the blocks of a chunk."""
    out, first = [], 0
    while first < count:
        out.append((first, min(block, 1 << log2(count - first))))
        first += out[-1][1]
    return out


def norm_key(x):
    piece = min(64, max(16, len(x)))
    x = x + [0.0] * (piece - len(x))
    pieces = [energy(x[at : at + piece]) for at in range(0, len(x), piece)]
    total = reduce(float.__add__, pieces)  # sum() may compensate.
    if total < 2.0**-120:
        return 1 if any(x) else 0
    return bits_of([math.sqrt(total)])[0] if total < 2.0**128 else U32


def range_keys(x):
    if not all(map(math.isfinite, x)):
        return [U32, U32]
    keys = [bits ^ (U32 if bits >> 31 else 1 << 31) for bits in bits_of(x)]
    return [max(keys), min(keys) ^ U32]


def fma(a, b, c):
    """Rounded once. float64 holds the product; where it cannot hold the sum, its rest decides."""
    product = a * b
    total = product + c
    rest = (product - (total - (total - product))) + (c - (total - product))  # Exact: two-sum.
    if rest and bits64(total) & 0x1FFFFFFF == 0x10000000:  # A tie that is none.
        total = math.nextafter(total, math.inf if rest > 0 else -math.inf)
    return one(total)


def bits64(value):
    return struct.unpack("<Q", struct.pack("<d", value))[0]


def value_of(key):
    return from_bits(key ^ (1 << 31 if key >> 31 else U32))


class Thc(Codec):
    def __init__(self, manifest):
        super().__init__(manifest)
        self.bits, self.down, self.extra, self.rounding, grouping = (
            self.options[k] for k in ("bits", "down", "extra", "rounding", "grouping"))
        self.minmax = self.options["range"] == "minmax"
        top = (1 << self.bits) - 1
        self.g = self.options["g"] or (30 if self.bits == 4 and not self.minmax else top)
        self.table, self.cells = list(range(top + 1)), []
        self.t = -NormalDist().inv_cdf(self.options["p"] / 2)
        self.rotation = self.options["rotation"] or (1 << 20 if grouping == "full" else 1024)
        self.size = 1 << 20 if grouping == "strided" else self.rotation
        if self.minmax:
            self.rotation, self.size = 1, 1 << 20 if grouping == "full" else 1024

    def take(self, steps):
        blocks, each = cut(len(self.mean), self.size), 2 if self.minmax else 1
        agree = steps[0].pop(0)
        agree.expect(None, op="max", bits=32, count=each * len(blocks), grain=0)
        for x, up in zip(self.inputs, agree.up):
            parts = [self.block(x, *b) for b in blocks]
            own = [key for p in parts for key in (range_keys(p) if self.minmax else [norm_key(p)])]
            assert up == pack(own, 32), "scale keys"
        keys = unpack(agree.down, 32, each * len(blocks))
        scales = [self.scale(keys[each * i : each * i + each]) for i in range(len(blocks))]
        members, rounds, coded, odd = agree.contributors(), steps[1] if steps[1:] else [], [], []
        for (first, size), (width, low) in zip(blocks, scales):
            if width == 0:
                constant = [low + 0.0] * size  # −0 comes back as 0.
                self.place(self.mean, first, constant)
                for k in members if self.inputs else []:
                    self.keep(k, first, constant)
            elif 2.0**-60 <= width < 2.0**64:
                coded.append((first, size, width, low))
            else:
                odd.append((first, size))
        if coded:
            self.lanes(rounds.pop(0), coded, members)
        if odd:
            self.floats(rounds.pop(0), odd, members, 256)

    def scale(self, keys):
        """L and 0, or hi − lo and lo; NaN where float32 must travel."""
        if U32 in keys:
            return math.nan, 0.0
        if self.minmax:
            low = value_of(keys[1] ^ U32)
            return value_of(keys[0]) - low, low
        return from_bits(keys[0]), 0.0

    def unit(self, size, width, low):
        """δ, r and mid of a block."""
        if self.minmax:
            return width / self.g, 1, one(low + width / 2)
        mixed = min(self.rotation, size)
        return 2 * self.t * (width * math.sqrt(mixed / size)) / self.g, mixed, 0.0

    def signed(self, v, first):
        """Each with the sign of its element."""
        if self.minmax:
            return list(v)
        words, at = self.words(SIGNS, self.count // 32 + 1), self.at + first
        return [-x if words[e >> 5] >> (e & 31) & 1 else x for e, x in enumerate(v, at)]

    def mixed(self, v, count):
        """The transform of every run of `count` coordinates that lie len(v)/count apart."""
        stride, out = len(v) // count, list(v)
        for at in range(stride if count > 1 else 0):
            out[at::stride] = transform(out[at::stride])
        return out

    def lanes(self, round_, blocks, members):
        if self.g > (1 << self.bits) - 1:
            self.table = round_.what["table"]
            assert self.table == sorted(set(self.table)) and len(self.table) == 1 << self.bits
            assert (self.table[0], self.table[-1]) == (0, self.g), self.table
        round_.expect(members, op="lane_sum", bits=self.bits, down=self.down, extra=self.extra,
                      table=self.table if self.g > (1 << self.bits) - 1 else None, grain=256,
                      count=sum(size for _, size, _, _ in blocks))
        twice, m, at = twice_sums(round_, self.n), len(members), 0
        sent = [[] for _ in self.inputs]
        for first, size, *scale in blocks:
            delta, r, mid = self.unit(size, *scale)
            centred = [t - m * self.g for t in twice[at : at + size]]
            self.place(self.mean, first, self.decoded(centred, first, delta / (2 * m * r), r, mid))
            at += size
            for k, x in enumerate(self.inputs):
                if k not in members:
                    sent[k] += [0] * size
                    continue
                codes = self.codes(k, self.block(x, first, size), first, delta, r, mid)
                sent[k] += codes
                levels = [self.table[code] - self.g / 2 for code in codes]
                self.keep(k, first, self.decoded(levels, first, delta / r, r, mid))
        for k, codes in enumerate(sent):
            assert round_.up[k] == pack(codes, self.bits), f"codes of worker {k}"

    def decoded(self, centred, first, unit, mixed, mid):
        unit = one(unit)
        v = self.signed(self.mixed(f32(float(c) * unit for c in centred), mixed), first)
        return list(f32(x + mid for x in v)) if self.minmax else v

    def codes(self, k, x, first, delta, r, mid):
        """What worker k sends for a coded block."""
        at = self.at + first
        if self.rounding == "nearest":
            draws = [1 << 15] * len(x)
        else:
            shared = self.rounding == "stratified"
            words = (self.words(SHARED_ROUNDING, self.count // 2 + 1) if shared else
                     self.words(OWN_ROUNDING, self.count // 2 + 1, k))
            shift = (k << 16) // self.n if shared else 0
            draws = [(words[e >> 1] >> 16 * (e & 1)) + shift & 0xFFFF
                     for e in range(at, at + len(x))]
        x = f32(v - mid for v in x) if self.minmax else self.signed(x, first)
        inverse, half = one(1 / delta), self.g / 2
        limit, lines, base = self.limit(inverse), self.lines(), self.base()
        out = []
        for v, u in zip(self.mixed(x, r), draws):
            c = fma(min(max(v, -limit), limit), inverse, half)
            q = int((fma(c, *lines[math.floor(c)]) - base) * 65536)
            out.append(q + u >> 16)
        return out

    def limit(self, inverse):
        limit = one(self.g / 2 / inverse)
        while Fraction(limit) * Fraction(inverse) > Fraction(self.g, 2):
            limit = from_bits(bits_of([limit])[0] - 1)
        return limit

    def base(self):
        return 256.0 if self.bits == 8 else 128.0

    def lines(self):
        """Slope and offset of every cell."""
        if self.cells:
            return self.cells
        for k in range(self.g + 1):
            z = min(bisect_right(self.table, k), len(self.table) - 1) - 1
            slope = one(1 / (self.table[z + 1] - self.table[z]))
            offset = one(self.base() + z - self.table[z] * slope)
            while fma(float(self.table[z + 1]), slope, offset) > self.base() + len(self.table) - 1:
                offset = from_bits(bits_of([offset])[0] - 1)
            self.cells.append((slope, offset))
        return self.cells
