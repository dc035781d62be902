"""lossless: src/codec/lossless/README.md."""

import math
import struct
from bisect import bisect_left

import lanes
from codec import Codec
from fixed_point import integers, nearest, range_codes, to_integers, units
from float32 import f32, from_bytes, log2, to_bytes
from positions import bloom_places, bloom_shape, list_size, read_list, write_list
from randomness import U32, mix
from sketch import buckets_of, peel

NONE = (0, 0, 0)  # Keys, top and low of a step that had none.


def messages(round_):
    """What a gather brought, by rank."""
    data, at, out = round_.down, 0, []
    while at < len(data):
        rank, size = struct.unpack_from("<II", data, at)
        assert size <= round_.what["count"] and at + 8 + size <= len(data), "message too long"
        out.append((rank, data[at + 8 : at + 8 + size]))
        at += 8 + size
    assert [rank for rank, _ in out] == round_.contributors(), "ranks"
    return [message for _, message in out]


def bits_to_bytes(flags):
    return lanes.pack([int(flag) for flag in flags], 1)


def size_code(size):
    shift = max(0, log2(size) - 3) if size else 0
    return 8 * shift + (size >> shift)


def least_of(code):
    shift = max(0, code // 8 - 1)
    return code - 8 * shift << shift


def ceiling_of(code):
    return min(least_of(code + 1) - 1, U32)


def split(pieces, size):
    """Pieces (first, size) of a chunk, cut further."""
    return [(at, min(size, first + whole - at))
            for first, whole in pieces for at in range(first, first + whole, size)]


class Lossless(Codec):
    def __init__(self, manifest):
        super().__init__(manifest)
        self.exact, self.mode = self.options["sum"] == "exact", self.options["mode"]
        self.tensor = manifest["exchanges"][0]["tensor"]
        self.kept = {}  # By the chunk's offset.
        self.seen = set()  # What the chunks were like, for tests that want them all.

    @staticmethod
    def reduce(round_, n):
        what = round_.what
        if what["op"] not in ("wrap_sum", "gather"):
            return lanes.reduce(round_, n)
        ups = [(k, round_.up[k]) for k in round_.contributors()]
        if what["op"] == "gather":
            return b"".join(struct.pack("<II", k, len(up)) + up for k, up in ups)
        assert all(len(up) == what["count"] * what["bits"] // 8 for _, up in ups), "sizes"
        sums = map(sum, zip(*(integers(up, what["bits"]) for _, up in ups)))
        return to_integers(sums, what["bits"])

    def take(self, steps):
        count = len(self.mean)
        self.key = mix(mix(mix(0x536C75696365, self.seed), self.number), self.tensor["id"])
        self.last, self.sums, self.odd = self.kept.get(self.at, NONE), {}, {}
        self.own = [{i: v for i, v in enumerate(x)
                     if v or not self.exact and math.copysign(1, v) < 0} for x in self.inputs]
        if steps[0][1].what["bits"] == 9:
            keys = self.sketched(steps)
        else:
            keys = self.packed(steps)
        if self.exact:
            for i, total in self.sums.items():
                self.mean[i] = nearest(total, len(self.members))
            for i, values in self.odd.items():
                self.mean[i] = sum(values)  # NaN, or infinities of both signs: NaN.
        self.kept[self.at] = (keys, *self.range) if keys else NONE
        for k in self.members if self.inputs else []:
            self.left[k] = [0.0] * count

    def counted(self, members):
        self.members = members
        self.own = [own if k in members else {} for k, own in enumerate(self.own)]

    def sent(self, round_, make, what):
        """Each worker sent what it makes of its values."""
        for k, own in enumerate(self.own):
            assert round_.up[k] == make(own), f"{what} of worker {k}"

    def end(self, steps):
        assert not steps.pop(0), "rounds that the README does not know"

    # Packed and dense.

    def packed(self, steps):
        count = len(self.mean)
        self.range = [0, 0]
        if not self.probe(steps):
            self.seen.add("empty")
            return 0
        dense = self.mode == "dense" or self.mode == "auto" and not self.sparse
        if dense:
            self.seen.add("dense")
            if self.exact:
                self.ranges(steps[0].pop(0), self.members)
                self.end(steps)
            keys = range(count)
        else:
            keys = self.index(steps)
        if self.exact:
            self.values(steps, keys)
        else:
            self.float_values(steps, keys)
        return len(keys)

    def has_rows(self):
        return self.tensor["rows"] > 1 and 8 <= self.tensor["cols"] <= len(self.mean)

    def rows(self):
        """The tensor's rows in this chunk, as pieces."""
        cols, end = self.tensor["cols"], self.at + len(self.mean)
        ends = [self.at, *range((self.at // cols + 1) * cols, end, cols), end]
        return [(a - self.at, b - a) for a, b in zip(ends, ends[1:])]

    def probe(self, steps):
        """Whether there are any values."""
        count = len(self.mean)
        s = min(64, count)
        samples, codes, total = steps[0][:3]
        del steps[0][:3]
        self.end(steps)
        samples.expect(None, op="max", bits=1, count=s, grain=0)
        codes.expect(None, op="max", bits=8, count=2, grain=0)
        total.expect(None, op="wrap_sum", bits=32, count=1, grain=0)
        ends = [count * i // s for i in range(s + 1)]
        seed = mix(self.key, self.at)
        places = [a + mix(seed, i) % (b - a) for i, (a, b) in enumerate(zip(ends, ends[1:]))]
        self.sent(samples, lambda own: bits_to_bytes(i in own for i in places), "samples")
        rows = self.rows() if self.has_rows() else []
        self.sent(codes, lambda own: bytes(
            [size_code(len(own)), size_code(sum(self.has_any(own, rows)))]), "codes")
        self.sent(total, lambda own: to_integers([len(own)], 32), "number of values")
        self.counted(samples.contributors())

        hits = sum(lanes.unpack(samples.down, 1, s))
        (total,) = struct.unpack("<I", total.down)
        most = min(max(total, 1), count)
        least = min(max(least_of(codes.down[0]), 1), most)
        guess = count * hits / s if hits >= 8 else math.sqrt(least * most)
        self.expected = min(max(self.last[0] or guess, least), most)
        self.filter_keys = self.expected if self.last[0] else most
        self.sparse = total <= count * 31 / 32 or 64 * (s - hits) >= 14 * s
        self.values_max = min(count, ceiling_of(codes.down[0]))
        self.whole_rows = self.has_rows() and ceiling_of(
            codes.down[0]) >= self.tensor["cols"] * ceiling_of(codes.down[1]) * 7 / 8
        if self.whole_rows:
            cols = self.tensor["cols"]
            self.whole_rows_max = int(min(total * 5 / 4 / cols + 2,
                                          count / cols * (1 - 1 / (32 * cols))))
        self.tight = count * 15 / 16 < most <= count * 31 / 32
        self.block = 1024
        while self.block < count and self.block * self.expected < 64 * count:
            self.block *= 2
        return codes.down[0] != 0

    # Index.

    def index(self, steps):
        """The agreed coordinates."""
        kind, pieces = self.index_kind(steps[0][0].what), [(0, len(self.mean))]
        whole, first = kind == "rows" and self.whole_rows, steps[0]
        while steps[0] is first or self.is_index(steps[0]):
            round_ = steps[0].pop(0)
            if kind == "bloom":
                shape = bloom_shape(len(self.mean), self.filter_keys, 40 if self.exact else 32)
                pieces = self.bloom(round_, shape, self.members)
            elif round_.what["op"] == "gather":
                pieces = self.gathered(round_, split(pieces, 1))
                self.seen.add(f"lists after {'levels' if kind == 'levels' else 'nothing'}")
            elif kind == "rows" and steps[0] is first:
                pieces = self.level(round_, self.rows(), self.members)
                whole = whole and len(pieces) <= self.whole_rows_max
            else:
                sizes = [4**k for k in range(7)] if kind == "levels" else [1]
                pieces = self.level(round_, next(
                    asked for asked in (split(pieces, size) for size in sizes)
                    if len(asked) == round_.what["count"]), self.members)
            if steps[0] is first and self.exact:
                self.ranges(steps[0].pop(0), self.members)
            self.end(steps)
        self.seen.add(f"{self.options['index']}: {'whole rows' if whole else kind}")
        if not whole:
            assert all(size == 1 for _, size in pieces), "an index that ends too early"
        return [i for i, _ in split(pieces, 1)]

    def index_kind(self, what):
        """By the option; an automatic choice shows in the first round."""
        kind, count = self.options["index"], len(self.mean)
        if kind == "rows":
            return "rows" if self.has_rows() else "bitmap"
        if kind != "auto":
            return kind
        if self.whole_rows and not self.tight:
            return "rows"
        if what["count"] in (-(-count // 4**k) for k in range(1, 7)):
            return "levels"
        return "bitmap"

    @staticmethod
    def is_index(rounds):
        return rounds[0].what["op"] == "gather" or rounds[0].what["bits"] == 1

    @staticmethod
    def has_any(own, pieces):
        own = sorted(own)
        return [bisect_left(own, at) < bisect_left(own, at + size) for at, size in pieces]

    def level(self, round_, pieces, only):
        """Those of the pieces that anybody has values in."""
        round_.expect(only, op="max", bits=1, count=len(pieces), grain=0)
        self.sent(round_, lambda own: bits_to_bytes(self.has_any(own, pieces)), "index")
        flags = lanes.unpack(round_.down, 1, len(pieces))
        return [piece for piece, flag in zip(pieces, flags) if flag]

    def bloom(self, round_, shape, only):
        round_.expect(only, op="max", bits=1, count=shape[0], grain=0)
        places = [bloom_places(self.key, i, shape) for i in range(len(self.mean))]

        def filter_of(own):
            bits = {place for i in own for place in places[i]}
            return bits_to_bytes(i in bits for i in range(shape[0]))

        self.sent(round_, filter_of, "filter")
        bits = lanes.unpack(round_.down, 1, shape[0])
        return [(i, 1) for i, each in enumerate(places) if all(bits[place] for place in each)]

    def gathered(self, round_, places):
        most = min(self.values_max, len(places))
        size = list_size(most, len(places)) + 8
        round_.expect(self.members, op="gather", bits=8, count=size, grain=0)
        self.sent(round_, lambda own: write_list(
            [i for i, (at, _) in enumerate(places) if at in own], len(places)), "list")
        found = {i for data in messages(round_) for i in read_list(data, len(places))}
        return [places[i] for i in sorted(found)]

    # Values.

    def ranges(self, round_, only):
        blocks = split([(0, len(self.mean))], self.block)
        round_.expect(only, op="max", bits=9, count=2 * len(blocks), grain=0)

        def codes_of(own):
            by_block = [[] for _ in blocks]
            for i, v in own.items():
                by_block[i // self.block].append(v)
            return lanes.pack([code for each in by_block for code in range_codes(each)], 9)

        self.sent(round_, codes_of, "ranges")
        codes = lanes.unpack(round_.down, 9, 2 * len(blocks))
        self.range = [max(codes[::2]), max(codes[1::2])]
        self.formats = [self.format(*pair) for pair in zip(codes[::2], codes[1::2])]

    def format(self, top, low):
        """Bits and unit, a power of two of 2^-149."""
        if top == 0:
            return 0, 0
        growth = 1 + (self.n - 1).bit_length()
        bits = 8 * -(-(top - 150 - (129 - low) + growth) // 8)
        return (bits, 278 - low) if bits <= 64 else (64, top - 1 + growth - 64)

    def integer(self, i, value):
        """In the coordinate's block's units, or None if it does not fit."""
        bits, unit = self.formats[i // self.block]
        if bits == 0 or not math.isfinite(value) or units(value) % (1 << unit):
            return None
        whole = units(value) >> unit
        return whole if abs(whole) < 1 << 63 else None

    def integers_of(self, own, keys):
        return [self.integer(i, own.get(i, 0.0)) or 0 for i in keys]

    def misfits(self, own):
        return sum(self.integer(i, v) is None for i, v in own.items())

    def float_values(self, steps, keys):
        round_ = steps[0].pop(0)
        self.end(steps)
        round_.expect(self.members, op="f32_sum", bits=32, count=len(keys), grain=256)
        self.sent(round_, lambda own: to_bytes([own.get(i, 0.0) for i in keys]), "values")
        m = len(self.members)
        for i, v in zip(keys, f32(total / m for total in from_bytes(round_.down))):
            self.mean[i] = v

    def add(self, keys, whole):
        for i, v in zip(keys, whole):
            self.sums[i] = v << self.formats[i // self.block][1]

    def values(self, steps, keys):
        for bits in range(8, 65, 8):
            here = [i for i in keys if self.formats[i // self.block][0] == bits]
            if here:
                round_ = steps[0].pop(0)
                round_.expect(self.members, op="wrap_sum", bits=bits, count=len(here), grain=256)
                self.sent(round_, lambda own: to_integers(
                    self.integers_of(own, here), bits), "integers")
                self.add(here, integers(round_.down, bits))
        found = self.misfit_count(steps[0].pop(0))
        self.end(steps)
        self.exceptions(steps, found)

    def misfit_count(self, round_):
        round_.expect(self.members, op="max", bits=32, count=1, grain=0)
        self.sent(round_, lambda own: to_integers([self.misfits(own)], 32), "misfits")
        return int.from_bytes(round_.down, "little")

    def exceptions(self, steps, found):
        if found == 0:
            return
        self.seen.add("exceptions")
        windows = -(-len(self.mean) // 64)
        round_ = steps[0].pop(0)
        self.end(steps)
        round_.expect(self.members, op="max", bits=8, count=windows, grain=0)
        own = [[{} for _ in range(windows)] for _ in self.own]
        for mine, all_of_mine in zip(own, self.own):
            for i, v in all_of_mine.items():
                if self.integer(i, v) is None:
                    mine[i // 64][i % 64] = v
        for up, mine in zip(round_.up, own):
            assert up == bytes(map(len, mine)), "windows"
        asked = [window for window in range(windows) if round_.down[window]]
        for number, window in enumerate(asked):
            lists = steps[0].pop(0)
            lists.expect(self.members, op="gather", bits=8, count=5 * round_.down[window], grain=0)
            for up, mine in zip(lists.up, own):
                assert up == b"".join(bytes([place]) + to_bytes([v])
                                      for place, v in mine[window].items()), "exceptions"
            for data in messages(lists):
                for place, v in struct.iter_unpack("<Bf", data):
                    self.join(64 * window + place, v)
            if not steps[0]:
                assert number % 32 == 31 or number + 1 == len(asked), "32 lists in a step"
                self.end(steps)

    def join(self, i, value):
        if math.isfinite(value):
            self.sums[i] = self.sums.get(i, 0) + units(value)
        else:
            self.odd.setdefault(i, []).append(value)

    # Sketches.

    def rows_for(self, keys, unit_count):
        buckets = 1.222 * keys + 3 * math.sqrt(keys) * math.sqrt(keys / max(unit_count, 1)) + 32
        rows = max(3, math.ceil(math.ceil(buckets) / 32)) if keys else 3
        return max(3, math.ceil(self.options["room"] * rows))

    def assumed_format(self):
        _, top, low = self.last
        top, low = min(top + 1, 278), min(low + 2, 278)
        bits, _ = self.format(top, low)
        return bits, max(0, top - 1 + 1 + (self.n - 1).bit_length() - bits)

    def sketched(self, steps):
        count, last = len(self.mean), self.last[0]
        most = count if self.mode == "sketch" else min(count, 4096)
        with_sketch = last and self.last[1]
        first = steps[0]
        index, ranges = first[:2]
        sketch, flags = first[2:] if with_sketch else (None, None)
        steps[0] = first[4 if with_sketch else 2 :]
        self.end(steps)
        assumed = self.assumed_format() if with_sketch else (0, 0)
        if self.options["index"] == "bloom" and last:
            shape = bloom_shape(count, last + last / 8 + 16, max(assumed[0], 8) * 5 // 4)
            pieces = self.bloom(index, shape, None)
        else:
            pieces = self.level(index, split([(0, count)], 1), None)
        self.block = max(1024, 1 << (count - 1).bit_length())
        self.ranges(ranges, None)
        keys, agreed = [i for i, _ in pieces], self.formats
        rows = fits = 0
        if with_sketch:
            room = min(last + last // 8 + 16, most)
            rows = self.rows_for(room, -(-room // 4))
            self.formats = [assumed]
            self.sent_sketch(sketch, rows, most, None)
            found, unfit = self.flags(flags, most)
            fits = not unfit and len(keys) <= room
        self.counted(index.contributors())
        self.seen.add(f"{self.mode}: sketch " + (
            "with its index" if fits else "again" if with_sketch else "after its index"))
        if not fits:
            self.formats = agreed
            if self.mode != "sketch" or not keys or agreed[0][0] == 0:
                self.values(steps, keys)
                return len(keys)
            rows = self.rows_for(len(keys), len({i // 32 for i in keys}))
            sketch = steps[0].pop(0)
            self.sent_sketch(sketch, rows, most, self.members)
            found = self.misfit_count(steps[0].pop(0))
            self.end(steps)
        self.peeled(steps, sketch, rows, keys)
        self.exceptions(steps, found)
        return len(keys)

    def sent_sketch(self, round_, rows, most, only):
        bits = self.formats[0][0]
        round_.expect(only, op="wrap_sum", bits=bits, count=32 * rows, grain=256)

        def sketch_of(own):
            buckets = [0] * (32 * rows)
            mine = list(own) if len(own) <= most else []
            for places, v in zip(buckets_of(self.key, rows, mine), self.integers_of(own, mine)):
                for place in places:
                    buckets[place] += v
            return to_integers(buckets, bits)

        self.sent(round_, sketch_of, "sketch")

    def flags(self, round_, most):
        """Misfits, and whether somebody says that its values do not fit at all."""
        round_.expect(None, op="max", bits=32, count=2, grain=0)

        def flags_of(own):
            wrong = self.misfits(own)
            unfit = (len(own) > most or wrong > len(own) // 64 + 1
                     or range_codes(own.values())[0] > self.last[1] + 1)
            return struct.pack("<II", wrong, unfit)

        self.sent(round_, flags_of, "flags")
        return struct.unpack("<II", round_.down)

    def peeled(self, steps, sketch, rows, keys):
        bits = self.formats[0][0]
        buckets, places = integers(sketch.down, bits), buckets_of(self.key, rows, keys)
        order, stuck = peel(places, 32 * rows)
        whole = [0] * len(keys)

        def put(key, value):
            whole[key] = (value + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)
            for bucket in places[key]:
                buckets[bucket] -= value

        for key, bucket in order:
            put(key, buckets[bucket])
        if stuck:
            self.seen.add("stuck keys")
            round_ = steps[0].pop(0)
            self.end(steps)
            round_.expect(self.members, op="wrap_sum", bits=bits, count=len(stuck), grain=256)
            again = [keys[key] for key in stuck]
            self.sent(round_, lambda own: to_integers(
                self.integers_of(own, again), bits), "stuck keys")
            for key, value in zip(stuck, integers(round_.down, bits)):
                put(key, value)
        assert not any(v % (1 << bits) for v in buckets), "a sketch that is not empty"
        self.add(keys, whole)
