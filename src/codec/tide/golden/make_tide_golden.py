#!/usr/bin/env python3
"""Writes the golden files of tide from its README alone: wire bytes, means and residuals.

    make_tide_golden.py [FOLDER]

Nothing of Sluice is imported. float32 and fused multiply-adds are exact fractions, rounded once;
float64 is Python's own. The cases are those of ../tide_golden_test.cc.
"""

import struct
import sys
from fractions import Fraction

M64 = (1 << 64) - 1
M32 = (1 << 32) - 1
MULTIPLIERS = [0, 227, 353, 603, 1075, 1832, 3331, 5995, 10991]
OFFSETS = [3, 7, 14, 21, 28, 35, 42, 49]
BORDERS = [0x0B95C2, 0x25FED7, 0x45672B, 0x6AC0C7]
INFINITE = "inf"  # the one value that is no fraction
LEAST = 656  # lower codes are those of faint blocks
ABOVE_FAINT = 680
GAIN = 2 ** 96


# ---- float32 as fractions.

def f32(value):
    """The nearest float32, ties to even, as a fraction."""
    value = Fraction(value)
    if value == 0:
        return value
    size = abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if Fraction(2) ** exponent > size:
        exponent -= 1
    unit = Fraction(2) ** (max(exponent, -126) - 23)
    whole, rest = divmod(size / unit, 1)
    if rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2 == 1):
        whole += 1
    return (whole if value > 0 else -whole) * unit


def bits_of(value):
    """The bit pattern of a value that is a float32."""
    if value == INFINITE:
        return 0x7F800000
    return struct.unpack("<I", struct.pack("<f", float(value)))[0]


def eighth(j):
    """The float64 nearest to 2^(j/8)."""
    low = Fraction(1)
    for bit in range(1, 53):
        step = Fraction(1, 1 << bit)
        if (low + step) ** 8 <= 2 ** j:
            low += step
    half = Fraction(1, 1 << 53)
    return float(low if (low + half) ** 8 > 2 ** j else low + 2 * half)


EIGHTHS = [eighth(j) for j in range(8)]


def power(eighths):
    return EIGHTHS[eighths % 8] * 2.0 ** (eighths // 8)


# ---- Randomness.

def mix(a, b):
    z = (a + (b + 1) * 0x9E3779B97F4A7C15) & M64
    z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & M64
    z = ((z ^ z >> 27) * 0x94D049BB133111EB) & M64
    return z ^ z >> 31


def key_of(seed, step, tensor):
    return mix(mix(mix(0x536C75696365, seed), step), tensor)


def word(key, purpose, element):
    stream = mix(mix(key, purpose), 0xFFFFFFFF)
    block = mix(stream, element // 64)
    k0, k1 = block & M32, (block >> 32) | 1
    j = element % 64
    spread = (mix(0x746964, j) >> 32) & ~63 | j
    r = (spread * k1 + k0) & M32
    r ^= r >> 16
    r = (r * 0x7FEB352D) & M32
    return r ^ r >> 15


def minus(key, place):
    return word(key, 1, place // 32) >> place % 32 & 1


def dither(key, element):
    return word(key, 2, element // 4) >> 8 * (element % 4) & 255


# ---- Blocks, scales, widths.

def blocks_of(count, block):
    blocks, at = [], 0
    while count - at >= block:
        blocks.append((at, block, block))
        at += block
    while count > at:
        size = block
        while size > 16 and size > count - at:
            size //= 2
        blocks.append((at, size, min(size, count - at)))
        at += size
    return blocks


def log2(size):
    return size.bit_length() - 1


def code_of(values, size):
    if INFINITE in values:
        return 4095
    sums = [f32(x * x) for x in values] + [Fraction(0)] * (size - len(values))
    while len(sums) > 1:
        half = len(sums) // 2
        sums = [f32(sums[i] + sums[i + half]) for i in range(half)]
    pattern = bits_of(sums[0])
    exponent, mantissa = pattern >> 23, pattern & 0x7FFFFF
    if exponent == 0:
        return 0
    quarters = 4 * (exponent - 127) + sum(border <= mantissa for border in BORDERS)
    return quarters - 4 * log2(size) + 1200


def my_code(x, gradient, size):
    code = code_of(x, size)
    if code == 0 and any(gradient):
        code = code_of([v * GAIN for v in x], size)
        return code and max(1, code - 768)
    return code


def width_at(code, waterline):
    if code in (0, 4095):
        return 0
    return sum(max(code, LEAST) - waterline >= offset for offset in OFFSETS)


def is_live(code):
    return code not in (0, 4095)


def budget_of(known, bits):
    """known: (code, size, real) of all blocks."""
    return max(0, int(bits * sum(k[2] for k in known)) - 12 * len(known))


def find_waterline(spent, budget):
    """Gives waterline, bits left over, lanes to raise."""
    waterline = 607
    while spent(waterline) > budget and waterline < 1696:
        waterline += 1
    return waterline, max(0, budget - spent(waterline)), spent(waterline - 1) - spent(waterline)


def turn_hash(first):
    return mix(mix(0x7475726E73, 1), first)  # all cases have tensor 1


def allot_by_model(case, mine, known):
    """Nobody sees all blocks: turns and raised blocks are drawn, one by one."""
    budget = budget_of(known, case.bits)
    live = sum(size for code, size, _ in known if is_live(code))
    turns = 1 if case.floor and budget else 0
    while turns and -(-live // turns) > budget:
        turns *= 2
    if turns > 1:
        spread = int(4 * (live / case.block * (1 / turns) * (1 - 1 / turns)) ** 0.5 * case.block)
        budget = max(-(-live // turns), budget - spread)

    def spent(waterline):
        silent = sum(size for code, size, _ in known
                     if is_live(code) and width_at(code, waterline) == 0)
        return (sum(width_at(code, waterline) * size for code, size, _ in known)
                + (-(-silent // turns) if turns else 0))

    waterline, left, lanes = find_waterline(spent, budget)
    share = 0
    if lanes:
        s = min(1.0, left / lanes)
        share = int(max(0.0, s - 4 * (s * (1 - s) / (lanes / case.block)) ** 0.5) * 2.0 ** 32)
    widths = []
    for (code, _, _), (first, _, _) in zip(mine, case.blocks):
        turn = turns > 0 and is_live(code) and (turn_hash(first) + case.number) % turns == 0
        width, lower = (max(int(turn), width_at(code, at)) for at in (waterline, waterline - 1))
        if lower != width:
            width += word(case.key, 4, first // 16) < share
        widths.append(width)
    return widths


def turns_of_chunk(case, mine, budget):
    """By block, whether it has a bit whatever the waterline is."""
    live = sum(size for code, size, _ in mine if is_live(code))
    if not case.floor or not budget:
        return [0] * len(mine)
    classes, taken = [], 0
    for code, size, _ in mine:
        number = classes[-1] if classes else 0
        if is_live(code):
            if taken and taken + size > max(budget, live if live <= budget else 0):
                number, taken = number + 1, 0
            taken += size
        classes.append(number)
    turn = (turn_hash(0) + case.number) % max(classes[-1] + 1, -(-live // budget))
    return [int(is_live(one[0]) and c == turn) for one, c in zip(mine, classes)]


def allot_by_chunk(case, mine):
    budget = budget_of(mine, case.bits)
    turns = turns_of_chunk(case, mine, budget)

    def width(index, waterline):
        return max(turns[index], width_at(mine[index][0], waterline))

    waterline, left, _ = find_waterline(
        lambda at: sum(width(i, at) * one[1] for i, one in enumerate(mine)), budget)
    widths = []
    for i, (_, size, _) in enumerate(mine):
        widths.append(width(i, waterline))
        if width(i, waterline - 1) != widths[-1] and size <= left:
            left -= size
            widths[-1] += 1
    return widths


def allot(case, codes):
    mine = [(c, b[1], b[2]) for c, b in zip(codes, case.blocks)]
    return allot_by_model(case, mine, case.known) if case.known else allot_by_chunk(case, mine)


# ---- Codes and sums.

def transform(values, cut):
    values, h = list(values), 1
    while h < len(values):
        for i in range(len(values)):
            if not i & h:
                a, b = values[i], values[i + h]
                values[i], values[i + h] = cut(a + b), cut(a - b)
        h *= 2
    return values


def encode(case, values, place, code, width, rank):
    first, size, _ = place
    if code < LEAST:
        code, values = code + 768, [x * GAIN for x in values]
    a = f32(Fraction(3392 * power(-(code - 1200 + 4 * log2(size)))))
    r = []
    for i in range(size):
        x = values[i] if i < len(values) else Fraction(0)
        low = bits_of(f32(x * a + 12582912)) & 0xFFFF
        r.append(-low if minus(case.key, i) else low)
    y = [v - 65536 if v >= 32768 else v for v in transform(r, lambda v: v & 0xFFFF)]
    codes = []
    for i in range(size):
        u = (dither(case.key, first + i) + 256 * rank // case.n) % 256
        offset = ((1 << width - 1) * 256 - 128 << 12) + (u << 12) + (1 << 11)
        codes.append(min(max(y[i] * MULTIPLIERS[width] + offset >> 20, 0), (1 << width) - 1))
    return codes


def decode(case, twice, place, code, width, ranks, own):
    """The values of a block and their signs; own: of one worker's codes alone. Those of a faint
    block are still too large."""
    first, size, real = place
    if code < LEAST:
        code += 768
    m = len(ranks)
    everybody = not own and m == case.n
    s = sum(256 * k // case.n for k in ranks) if everybody else 0
    big = power(code - 1200 - 4 * log2(size)) * (4096 / (3392 * MULTIPLIERS[width] * m))
    centre = big * (m * (255 - 256 * ((1 << width) - 1)) / 2 - s)
    f, g = f32(Fraction(big)), f32(Fraction(centre))
    v = []
    for i in range(size):
        u = dither(case.key, first + i)
        taken = case.n * u % 256 if everybody else sum((u + 256 * k // case.n) % 256 for k in ranks)
        v.append(f32(f32(Fraction(128 * twice[i] - taken)) * f + g))
    values = transform(v, f32)[:real]
    return [(-x if minus(case.key, i) else x, minus(case.key, i)) for i, x in enumerate(values)]


def pack(lanes, bits):
    number = sum(lane << i * bits for i, lane in enumerate(lanes))
    return number.to_bytes((len(lanes) * bits + 7) // 8, "little")


def write_sums(sums, case, m, width):
    """The bytes of an answer and what is read from them: twice the sums."""
    top = (1 << width) - 1
    full = (case.n * top).bit_length()
    lane = width + max(1, log2(case.n) // 2)
    if case.down == "full" or (case.down == "round" and lane >= full):
        return pack(sums, full), [2 * s for s in sums]
    data, read = b"", []
    for at in range(0, len(sums), case.block):
        grain = sums[at:at + case.block]
        if case.down == "narrow":
            least = min(grain)
            bits = (max(grain) - least).bit_length()
            data += bytes([bits]) + least.to_bytes((full + 7) // 8, "little")
            data += pack([s - least for s in grain], bits)
            read += [2 * s for s in grain]
            continue
        best = None
        for shift in range(max(0, (m * top).bit_length() - lane) + 1):
            c0, half = m * top + 1 >> 1, 1 << lane - 1
            lanes = [min(max((s - c0 >> shift) + half, 0), 2 * half - 1) for s in grain]
            back = [2 * c0 + (q - half << shift + 1) + (1 << shift) - 1 for q in lanes]
            error = sum((2 * s - t) ** 2 for s, t in zip(grain, back))
            if best is None or error < best[0]:
                best = (error, shift, lanes, back)
        data += bytes([best[1]]) + pack(best[2], lane)
        read += best[3]
    return data, read


# ---- One exchange.

class Case:
    def __init__(self, name, n, count, block, bits, down, missing=(), feedback=False,
                 previous=False, model=False, floor=0):
        self.name, self.n, self.count, self.block, self.bits = name, n, count, block, bits
        self.down, self.previous, self.model, self.feedback = down, previous, model, feedback
        self.floor = floor
        self.ranks = [k for k in range(n) if k not in missing]
        self.blocks = blocks_of(count, block)
        self.residuals = [[Fraction(0)] * count for _ in range(n)]
        self.kept, self.known, self.lines = None, None, []

    def say(self, *words):
        self.lines.append(" ".join(str(w) for w in words))

    def part(self, values, b):
        first, _, real = self.blocks[b]
        return values[first:first + real]

    def round(self, op, bits, count, ups, down):
        self.say("round", op, bits, count)
        for rank, up in enumerate(ups):
            self.say("up", rank, up.hex())
        self.say("down", down.hex())

    def send(self, codes_of_rank, agreed, widths, active):
        """The rounds of codes: gives twice the sums and own codes by block."""
        twice, own, exact = {}, {}, {}
        for width in range(1, 9):
            chosen = [b for b in range(len(self.blocks)) if widths[b] == width]
            if not chosen:
                continue
            lanes = []
            for k in range(self.n):
                mine = []
                for b in chosen:
                    place = self.blocks[b]
                    codes = [0] * place[1]
                    if k in active:
                        x = self.part(self.x[k], b)
                        if self.mine[k][b] == 0 and codes_of_rank(k, b) < ABOVE_FAINT:
                            x = []  # what is left there waits
                        codes = encode(self, x, place, codes_of_rank(k, b), width, k)
                    own[k, b] = codes
                    mine += codes
                lanes.append(mine)
            sums = [sum(lanes[k][i] for k in self.ranks) for i in range(len(lanes[0]))]
            down, read = write_sums(sums, self, len(self.ranks), width)
            self.round("lane_sum", width, len(sums), [pack(l, width) for l in lanes], down)
            for b in chosen:
                twice[b], read = read[:self.blocks[b][1]], read[self.blocks[b][1]:]
        chosen = [b for b in range(len(self.blocks)) if widths[b] == "exact"]
        if chosen:
            self.send_exact(chosen, active, exact)
        return twice, own, exact

    def send_exact(self, chosen, active, exact):
        ups, total = [b""] * self.n, b""
        for b in chosen:
            size = self.blocks[b][1]
            for k in range(self.n):
                values = self.part(self.x[k], b) if k in active else []
                values = list(values) + [Fraction(0)] * (size - len(values))
                ups[k] += b"".join(struct.pack("<I", bits_of(v)) for v in values)
            sums = []
            for i in range(self.blocks[b][2]):
                terms = [self.part(self.x[k], b)[i] for k in self.ranks]
                sums.append(INFINITE if INFINITE in terms else f32(sum(terms)))
            exact[b] = sums
            padded = sums + [Fraction(0)] * (size - len(sums))
            total += b"".join(struct.pack("<I", bits_of(v)) for v in padded)
        self.round("f32_sum", 32, sum(self.blocks[b][1] for b in chosen), ups, total)

    def step(self, number, gradients):
        self.key, self.number = key_of(7, number, 1), number
        self.x = [[g if g == INFINITE else f32(g + r) for g, r in zip(gradient, residual)]
                  for gradient, residual in zip(gradients, self.residuals)]
        mine = [[my_code(self.part(self.x[k], b), self.part(gradients[k], b), place[1])
                 for b, place in enumerate(self.blocks)] for k in range(self.n)]
        self.mine = mine
        agreed = [max(mine[k][b] for k in self.ranks) for b in range(len(self.blocks))]
        self.say("step", number)
        self.round("max", 12, len(agreed), [pack(codes, 12) for codes in mine], pack(agreed, 12))
        now = allot(self, agreed)
        now = ["exact" if c == 4095 else w for c, w in zip(agreed, now)]
        used = list(agreed)
        if self.kept is None:
            widths = now
            results = self.send(lambda k, b: agreed[b], agreed, widths, self.ranks)
        else:
            widths = allot(self, self.kept)
            results = self.send(lambda k, b: max(self.kept[b], mine[k][b] - 4), agreed, widths,
                                range(self.n))
            again = [c == 4095 or abs(c - k) > 16 or (c == 0) != (k == 0)
                     for c, k in zip(agreed, self.kept)]
            used = [c if a else k for a, c, k in zip(again, agreed, self.kept)]
            if any(again):
                self.say("again")
                more = self.send(lambda k, b: agreed[b], agreed,
                                 [w if a else 0 for w, a in zip(now, again)], self.ranks)
                widths = [n if a else w for a, n, w in zip(again, now, widths)]
                for old, new in zip(results, more):
                    old.update(new)
        self.finish(gradients, used, widths, results)
        if self.previous:
            self.kept = agreed
        if self.model:
            self.known = [(c, place[1], place[2]) for c, place in zip(agreed, self.blocks)]

    def finish(self, gradients, used, widths, results):
        twice, own, exact = results
        mean = b""
        for b, place in enumerate(self.blocks):
            first, _, real = place
            if widths[b] == 0:
                mean += bytes(4 * real)
            elif widths[b] == "exact":
                for total in exact[b]:
                    mean += struct.pack("<I", bits_of(INFINITE if total == INFINITE
                                                      else f32(total / len(self.ranks))))
            else:
                for value, sign in decode(self, twice[b], place, used[b], widths[b], self.ranks,
                                          False):
                    value = f32(value / (GAIN if used[b] < LEAST else 1))
                    mean += struct.pack("<I", bits_of(value) | (sign << 31 if value == 0 else 0))
            for k in range(self.n):
                self.keep(k, b, used[b], widths[b], own)
        self.say("mean", mean.hex())
        if not self.feedback:
            self.residuals = [[Fraction(0)] * self.count for _ in range(self.n)]
            return
        for k in range(self.n):
            rest = b"".join(struct.pack("<I", bits_of(v)) for v in self.residuals[k])
            self.say("residual", k, rest.hex())

    def keep(self, k, b, code, width, own):
        first, _, real = self.blocks[b]
        x = self.part(self.x[k], b)
        if k in self.ranks and width == "exact":
            for i in range(real):
                if x[i] != INFINITE:
                    self.residuals[k][first + i] = Fraction(0)
            return
        taken = [(Fraction(0), 0)] * real
        if k in self.ranks and width != 0:
            taken = decode(self, [2 * q for q in own[k, b]], self.blocks[b], code, width, [k], True)
        gain = GAIN if 0 < code < LEAST else 1
        for i in range(real):
            if x[i] != INFINITE:
                self.residuals[k][first + i] = f32(f32(x[i] * gain - taken[i][0]) / gain)


# ---- The cases.

def value(worker, i, step):
    """Sixteen-bit integers by powers of two, so that no program rounds them."""
    number = (i * 37 + worker * 53 + step * 29 + i * i * 7) % 101 - 50
    return Fraction(number) * Fraction(2) ** (-4 - 2 * (i // 64 % 3))


def gradients_of(case, step):
    return [[value(k, i, step) for i in range(case.count)] for k in range(case.n)]


def weak_gradients_of(case, step):
    """Three blocks of 64 in four have almost nothing."""
    return [[v / (1 if i // 64 % 4 == 0 else 1 << 12) for i, v in enumerate(g)]
            for g in gradients_of(case, step)]


def faint_gradients_of(case, step):
    """By block of 64: faint and twice as large, faint and then not, the other way round, faint and
    then zero, and at the end faint and then much fainter, while worker 0 waits."""
    shifts = {3: (80, 120, 0, 100, 70), 4: (79, 10, 70, None, 110)}[step]

    def of(k, i, v):
        gone = shifts[i // 64] is None or (step == 4 and k == 0 and i >= 256)
        return 0 if gone else v * Fraction(1, 1 << shifts[i // 64])

    return [[of(k, i, v) for i, v in enumerate(g)] for k, g in enumerate(gradients_of(case, step))]


def cases():
    full = Case("full", 2, 200, 256, 4, "full")
    full.step(3, gradients_of(full, 0))
    yield full
    rounded = Case("round", 3, 300, 64, 3, "round", missing=[1], feedback=True)
    for step in (3, 4):
        rounded.step(step, gradients_of(rounded, step))
    yield rounded
    infinite = Case("infinite", 2, 200, 64, 5, "narrow", feedback=True)
    gradients = gradients_of(infinite, 0)
    gradients[1][70] = INFINITE
    infinite.step(3, gradients)
    yield infinite
    previous = Case("previous", 2, 330, 64, 4, "full", feedback=True, previous=True)
    for step in (3, 4):
        gradients = gradients_of(previous, step)
        if step == 4:  # one block outgrows its scale, one is damped
            gradients = [[v * (64 if i < 64 else 2 if i < 128 else 1) for i, v in enumerate(g)]
                         for g in gradients]
        previous.step(step, gradients)
    yield previous
    model = Case("model", 2, 64 * 24, 64, 3.5, "full", model=True)
    for step in (3, 4):
        model.step(step, gradients_of(model, step))
    yield model
    floor = Case("floor", 2, 64 * 24 + 40, 64, 2, "full", model=True, floor=1)
    for step in (3, 4):
        floor.step(step, weak_gradients_of(floor, step))
    yield floor
    turns = Case("turns", 2, 64 * 24 + 40, 64, 1, "full", model=True, floor=1)
    for step in (3, 4, 5, 6):
        turns.step(step, weak_gradients_of(turns, step))
    yield turns
    woken = Case("woken", 2, 330, 64, 2, "narrow", feedback=True, previous=True, floor=1)
    for step in (3, 4):
        gradients = weak_gradients_of(woken, step)
        if step == 3:
            gradients = [[0 if i < 128 else v for i, v in enumerate(g)] for g in gradients]
        woken.step(step, gradients)
    yield woken
    faint = Case("faint", 2, 300, 64, 4, "narrow", feedback=True, previous=True, floor=1)
    for step in (3, 4):
        faint.step(step, faint_gradients_of(faint, step))
    yield faint


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else "."
    for case in cases():
        with open(f"{folder}/{case.name}.txt", "w", encoding="ascii") as file:
            file.write("\n".join(case.lines) + "\n")


if __name__ == "__main__":
    main()
