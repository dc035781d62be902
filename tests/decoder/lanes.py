"""What reductions do to bytes: the comment at the top of src/round/reduction.h."""

import block_lists
from float32 import f32, from_bytes, to_bytes


def size_of(count, width):
    return (count * width + 7) // 8


def unpack(data, width, count):
    assert len(data) == size_of(count, width), (len(data), width, count)
    mask = (1 << width) - 1
    out = []
    for at in range(0, len(data), width):
        eight = int.from_bytes(data[at : at + width], "little")
        out += [eight >> shift & mask for shift in range(0, 8 * width, width)]
    return out[:count]


def pack(values, width):
    out = b""
    for at in range(0, len(values), 8):
        eight = sum(v << i * width for i, v in enumerate(values[at : at + 8]))
        out += eight.to_bytes(width, "little")
    return out[: size_of(len(values), width)]


def value_max(what):
    return max(what["table"]) if what["table"] else (1 << what["bits"]) - 1


def sum_bits(what, n):
    return (n * value_max(what)).bit_length()


def form(what, n):
    """The down form in use: round with lanes as wide as the sum's is full."""
    whole = what["bits"] + what["extra"] >= sum_bits(what, n)
    return "full" if what["down"] == "round" and whole else what["down"]


def grains(round_):
    """(first lane, lanes, contributors) of every grain."""
    for part in round_.parts:
        end = part["first"] + part["count"]
        size = round_.what["grain"] or part["count"]
        for first in range(part["first"], end, size):
            yield first, min(size, end - first), part["from"]


def round_lanes(sums, bits, centre, shift):
    half = 1 << bits - 1
    return [min(max((s - centre >> shift) + half, 0), 2 * half - 1) for s in sums]


def twice_rounded(lanes, bits, centre, shift):
    half = 1 << bits - 1
    return [2 * centre + (lane - half << shift + 1) + (1 << shift) - 1 for lane in lanes]


def down_of_grain(sums, what, n, m):
    """What the aggregator answers for the exact sums of one grain."""
    wide = sum_bits(what, n)
    if form(what, n) == "full":
        return pack(sums, wide)
    if form(what, n) == "narrow":
        low = min(sums)
        width = (max(sums) - low).bit_length()
        return bytes([width]) + low.to_bytes((wide + 7) // 8, "little") + pack(
            [s - low for s in sums], width)
    bits, most = what["bits"] + what["extra"], m * value_max(what)
    best = None
    for shift in range(max(1, most.bit_length() - bits + 1)):
        lanes = round_lanes(sums, bits, most + 1 >> 1, shift)
        read = twice_rounded(lanes, bits, most + 1 >> 1, shift)
        error = sum((2 * s - t) ** 2 for s, t in zip(sums, read))
        if best is None or error < best[0]:
            best = error, bytes([shift]) + pack(lanes, bits)
    return best[1]


def reduce(round_, n):
    """The bytes down that the bytes up of the counted workers must give."""
    what = round_.what
    if what["op"] == "f32_sum":
        (members,) = {tuple(part["from"]) for part in round_.parts}
        total = from_bytes(round_.up[members[0]])
        for rank in members[1:]:
            total = f32(a + b for a, b in zip(total, from_bytes(round_.up[rank])))
        return to_bytes(total)
    if what["op"] == "block_sum":
        (members,) = {tuple(part["from"]) for part in round_.parts}
        return block_lists.add([round_.up[rank] for rank in members], what)
    codes = [unpack(up, what["bits"], what["count"]) for up in round_.up]
    if what["op"] == "max":
        return b"".join(
            pack([max(lane) for lane in zip(*(codes[k][at : at + size] for k in members))],
                 what["bits"]) for at, size, members in grains(round_))
    assert what["op"] == "lane_sum", what
    if what["table"]:
        codes = [[what["table"][c] for c in each] for each in codes]
    return b"".join(
        down_of_grain([sum(lane) for lane in zip(*(codes[k][at : at + size] for k in members))],
                      what, n, len(members)) for at, size, members in grains(round_))


def twice_sums(round_, n):
    """SumReader: twice the sum of every lane of a lane_sum, from the bytes down alone."""
    what, data, at, out = round_.what, round_.down, 0, []

    def take(size):
        nonlocal at
        at += size
        assert at <= len(data), "answer too short"
        return data[at - size : at]

    for _, count, members in grains(round_):
        wide, kind = sum_bits(what, n), form(what, n)
        if kind == "full":
            out += [2 * s for s in unpack(take(size_of(count, wide)), wide, count)]
        elif kind == "narrow":
            width = take(1)[0]
            low = int.from_bytes(take((wide + 7) // 8), "little")
            lanes = unpack(take(size_of(count, width)), width, count) if width else [0] * count
            out += [2 * (low + lane) for lane in lanes]
        else:
            shift, bits = take(1)[0], what["bits"] + what["extra"]
            lanes = unpack(take(size_of(count, bits)), bits, count)
            out += twice_rounded(lanes, bits, len(members) * value_max(what) + 1 >> 1, shift)
    assert at == len(data), "answer too long"
    return out
