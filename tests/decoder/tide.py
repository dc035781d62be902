"""tide: src/codec/tide/README.md."""

import math

from codec import Codec
from float32 import bits_of, energy, f32, log2, one, transform
from lanes import pack, twice_sums, unpack
from randomness import mix

EXACT = 4095  # The code of a block that travels as float32.
LEAST = 656  # Lower codes are those of faint blocks, which are coded 2^96 times as large.
ABOVE_FAINT = 680  # Scales from here on are larger than any faint input.
GAIN96 = 2.0**96
OFFSET = (3, 7, 14, 21, 28, 35, 42, 49)
GAIN = (0, 227, 353, 603, 1075, 1832, 3331, 5995, 10991)
SIGNS, DITHER, RAISING = 1, 2, 4


def cut(count, block):
    """(first, size) of the blocks of a tensor."""
    out, first = [], 0
    while count - first >= 16:
        out.append((first, min(block, 1 << log2(count - first))))
        first += out[-1][1]
    return out + [(first, 16)] * (first < count)


def scale_code(x, gradient):
    code = code_of(x)
    if code == 0 and any(gradient):
        code = code_of([v * GAIN96 for v in x])
        return code and max(1, code - 768)
    return code


def code_of(x):
    bits = bits_of([energy(x)])[0]
    exponent, mantissa = bits >> 23, bits & 0x7FFFFF
    if exponent in (0, 255):
        return EXACT if exponent else 0
    quarter = sum(t <= mantissa for t in (0x0B95C2, 0x25FED7, 0x45672B, 0x6AC0C7))
    return 4 * (exponent - 127) + quarter - 4 * log2(len(x)) + 1200


def root8(power):
    """2^(power/8)"""
    return math.ldexp(2.0 ** (power % 8 / 8), power // 8)


def width_at(code, level, turn=False):
    if code in (0, EXACT):
        return 0
    return max(int(turn), sum(max(code, LEAST) - level >= offset for offset in OFFSET))


def ceil_of(a, b):
    return -(-a // b)


class Tide(Codec):
    def __init__(self, manifest):
        super().__init__(manifest)
        self.size, self.down = int(self.options["block"]), self.options["down"]
        extra = self.options["extra"]
        self.extra = max(1, log2(self.n) // 2) if extra == "auto" else int(extra)
        self.extra *= self.down == "round"
        self.blocks = cut(self.count, self.size) if self.count >= 16 else []
        self.floor = self.options["floor"] == "1"
        bits = math.floor(self.options["bits"] * self.count)
        self.budget, self.kept = max(0, bits - 12 * len(self.blocks)), None

    def take(self, steps):
        if not self.blocks:
            return self.floats(steps[0].pop(), [(0, self.count)], None, 0)
        first, count = steps.pop(0), len(self.blocks)
        agree = first.pop(0)
        agree.expect(None, op="max", bits=12, count=count, grain=0)
        agreed, members = unpack(agree.down, 12, count), agree.contributors()
        own = [[scale_code(self.block(x, *b), self.block(g, *b)) for b in self.blocks]
               for x, g in zip(self.inputs, self.gradients)]
        self.own = own
        assert not own or agree.up == [pack(codes, 12) for codes in own], "scale codes"
        self.sign = [-1 if word >> bit & 1 else 1
                     for word in self.words(SIGNS, self.size // 32) for bit in range(32)]
        self.dither = [word >> byte & 255 for word in self.words(DITHER, self.count // 4 + 4)
                       for byte in (0, 8, 16, 24)]
        again = range(count)
        if self.options["scales"] == "previous" and self.kept:
            finite = [i for i in again if self.kept[i] != EXACT]
            self.codes(first, self.kept, finite, None, own)
            again = [i for i, (c, old) in enumerate(zip(agreed, self.kept))
                     if abs(c - old) > 16 or (c == 0) != (old == 0) or c == EXACT]
            for i in again:  # Their first codes are ignored.
                at, size = self.blocks[i]
                self.place(self.mean, at, [0.0] * size)
                for k, x in enumerate(self.inputs):
                    self.place(self.left[k], at, self.block(x, at, size))
        assert not first, "rounds that the README does not know"
        self.codes(steps[0] if steps else [], agreed, again, members, None)
        self.kept = agreed

    def codes(self, rounds, codes, which, only, own):
        """The rounds of step 2 for the blocks in `which`."""
        widths = self.widths(codes)
        for width in range(1, 9):
            blocks = [(*self.blocks[i], codes[i], i) for i in which if widths[i] == width]
            if blocks:
                self.lanes(rounds.pop(0), width, blocks, only, own)
        exact = [self.blocks[i] for i in which if codes[i] == EXACT]
        if exact:
            self.floats(rounds.pop(0), exact, only, self.size)

    def widths(self, codes):
        """Bits of every block with these codes; the level follows from the codes kept, if any."""
        sized = [(c, size) for c, (_, size) in zip(self.kept or codes, self.blocks)]
        budget, parts = self.budget, 0  # of the live blocks without bits, one in so many has one
        if self.kept:
            parts, budget = self.turns(sum(size for c, size in sized if c not in (0, EXACT)))
            turns = [parts > 0 and (self.turn_of(first) + self.number) % parts == 0
                     for first, _ in self.blocks]
        else:
            turns = self.turns_of_chunk(codes)

        def total(level):
            if not self.kept:
                return sum(width_at(c, level, t) * size for (c, size), t in zip(sized, turns))
            silent = sum(size for c, size in sized if width_at(c, level) < width_at(c, level, True))
            return (sum(width_at(c, level) * size for c, size in sized)
                    + (ceil_of(silent, parts) if parts else 0))

        low, level = 606, 1696
        while level - low > 1:
            middle = (low + level) // 2
            low, level = (low, middle) if total(middle) <= budget else (middle, level)
        left, bound, out = max(0, budget - total(level)), 0, []
        raised = total(level - 1) - total(level)
        if self.kept and raised:
            share = min(1.0, left / raised)
            spread = 4 * math.sqrt(share * (1 - share) / (raised / self.size))
            bound = math.floor(max(0.0, share - spread) * 2.0**32)
        words = self.words(RAISING, self.count // 16 + 1)
        for c, turn, (first, size) in zip(codes, turns, self.blocks):
            width = width_at(c, level, turn)
            if width_at(c, level - 1, turn) > width:
                if words[first // 16] < bound if self.kept else size <= left:
                    left -= size
                    width += 1
            out.append(width)
        return out

    def turn_of(self, first):
        return mix(mix(0x7475726E73, 0), first)  # the tensor of `sluice reduce` has id 0

    def turns(self, live):
        """In how many steps a live block has its turn, and what the level may spend then."""
        if not self.floor or not self.budget:
            return 0, self.budget
        parts = 1
        while ceil_of(live, parts) > self.budget:
            parts *= 2
        if parts == 1:
            return 1, self.budget
        deviation = math.sqrt(live / self.size * (1 / parts) * (1 - 1 / parts))
        spread = math.floor(4 * deviation * self.size)
        return parts, max(ceil_of(live, parts), self.budget - spread)

    def turns_of_chunk(self, codes):
        """By block, whether it has a bit whatever the level is, in a first step."""
        live = [i for i, c in enumerate(codes) if c not in (0, EXACT)]
        if not self.floor or not self.budget:
            return [False] * len(codes)
        lanes = sum(self.blocks[i][1] for i in live)
        if lanes <= self.budget:
            return [True] * len(codes)
        classes, taken = [[]], 0
        for i in live:
            size = self.blocks[i][1]
            if taken and taken + size > self.budget:
                classes.append([])
                taken = 0
            classes[-1].append(i)
            taken += size
        turn = (self.turn_of(0) + self.number) % max(len(classes), ceil_of(lanes, self.budget))
        return [turn < len(classes) and i in classes[turn] for i in range(len(codes))]

    def lanes(self, round_, width, blocks, only, own):
        round_.expect(only, op="lane_sum", bits=width, down=self.down, extra=self.extra,
                      count=sum(size for _, size, _, _ in blocks), grain=self.size)
        members = round_.contributors()
        twice, at = twice_sums(round_, self.n), 0
        for first, size, code, _ in blocks:
            sums = twice[at : at + size]
            self.place(self.mean, first, self.decoded(first, code, width, sums, members))
            at += size
        for k, x in enumerate(self.inputs):
            sent = []
            for first, size, code, i in blocks:
                damped = own and own[k][i] > code + 4
                values = self.block(x, first, size)
                if self.own[k][i] == 0 and code < ABOVE_FAINT:  # What is left there waits.
                    values = [0.0] * size
                q = self.quantized(k, first, own[k][i] - 4 if damped else code, width, values)
                sent += q if only is None or k in only else [0] * size
                if k in members:
                    alone = [2 * v for v in q]
                    self.keep(k, first, *self.amplified(first, code, width, alone, [k]))
            assert round_.up[k] == pack(sent, width), f"codes of worker {k}, width {width}"

    def dithers(self, k, first, size):
        return [u + 256 * k // self.n & 255 for u in self.dither[first : first + size]]

    def quantized(self, k, first, code, width, x):
        if code < LEAST:
            code, x = code + 768, [v * GAIN96 for v in x]
        a = one(3392 * root8(1200 - code - 4 * log2(len(x))))
        products = [v * a for v in x]  # Exact, and below 2^22: + 12582912 rounds to integers.
        r = [s * round(p) if math.isfinite(p) else 0 for s, p in zip(self.sign, products)]
        y = [(v + 32768 & 65535) - 32768 for v in transform(r, list)]
        bias = ((1 << width - 1) * 256 - 128 << 12) + 2048
        return [min(max(v * GAIN[width] + bias + (u << 12) >> 20, 0), (1 << width) - 1)
                for v, u in zip(y, self.dithers(k, first, len(x)))]

    def decoded(self, first, code, width, twice, members):
        """The mean of one block, padding included."""
        mean, gain = self.amplified(first, code, width, twice, members)
        return list(f32(v / gain for v in mean))

    def amplified(self, first, code, width, twice, members):
        """The same before a faint block is made small again, and how much too large it is."""
        size, m, shift, gain = len(twice), len(members), 0, 1.0
        if code < LEAST:
            code, gain = code + 768, GAIN96
        if m == self.n:
            shift = sum(256 * k // self.n for k in members)
            dithers = [m * u & 255 for u in self.dither[first : first + size]]
        else:
            dithers = map(sum, zip(*(self.dithers(k, first, size) for k in members)))
        scale = root8(code - 1200 - 4 * log2(size)) * (4096 / (3392 * GAIN[width] * m))
        f, g = one(scale), one(scale * (m * (255 - 256 * ((1 << width) - 1)) / 2 - shift))
        # Products and their sums with g fit float64, so this rounds once.
        v = f32(float(128 * t - u) * f + g for t, u in zip(twice, dithers))
        return [s * w for s, w in zip(self.sign, transform(v))], gain
