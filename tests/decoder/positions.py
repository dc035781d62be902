"""Sets of positions: Bloom filters and lists of src/codec/lossless/README.md."""

import math

import lanes
from float32 import log2
from randomness import U32, mix

LN2 = 0.6931471805599453


def binary_log(value):
    """log2 to ten binary places."""
    fraction, result = math.frexp(value)
    for place in range(1, 11):
        fraction *= fraction
        if fraction < 0.5:
            fraction, result = 2 * fraction, result - 2.0**-place
    return result


def bloom_shape(count, keys, bits):
    """Bits and hashes of a filter."""
    d = min(max(keys / count, 1e-9), 0.5)
    rate = min(max(d / (LN2 * LN2 * bits * (1 - d)), 1e-9), 0.5)
    size = max(keys, 1.0) * -binary_log(rate) / LN2
    size = min(max(size, 64.0), max(64.0, count))
    return int(size), max(1, math.floor(-binary_log(rate) + 0.5))


def bloom_places(key, coordinate, shape):
    h = mix(key, coordinate)
    return [((h & U32) + j * (h >> 32 | 1) & U32) * shape[0] >> 32 for j in range(shape[1])]


def list_layout(count, places):
    """Elias–Fano: bits below the split, bytes of the lower parts, bytes of the upper."""
    below = log2(places // count)
    upper = lanes.size_of(count + (places - 1 >> below) + 1, 1)
    return below, lanes.size_of(count, below), upper


def list_size(count, places):
    return 4 + sum(list_layout(count, places)[1:])


def write_list(positions, places):
    if not positions:
        return b""
    below, _, upper = list_layout(len(positions), places)
    low = lanes.pack([p & (1 << below) - 1 for p in positions], below) if below else b""
    high = sum(1 << (p >> below) + i for i, p in enumerate(positions))
    return len(positions).to_bytes(4, "little") + low + high.to_bytes(upper, "little")


def read_list(data, places):
    if not data:
        return []
    count = int.from_bytes(data[:4], "little")
    assert 0 < count <= places, "length of a list"
    below, lower, upper = list_layout(count, places)
    assert len(data) == 4 + lower + upper, "size of a list"
    low = lanes.unpack(data[4 : 4 + lower], below, count) if below else [0] * count
    high = int.from_bytes(data[4 + lower :], "little")
    ones = [bit for bit in range(8 * upper) if high >> bit & 1]
    out = [bit - i << below | v for i, (bit, v) in enumerate(zip(ones, low))]
    assert write_list(out, places) == data and out[-1] < places, "list"
    return out
