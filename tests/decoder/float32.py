"""float32 arithmetic: + − × ÷ of float32 operands made in float64 and rounded once is exact."""

import struct
from array import array


def f32(values):
    """Rounded to float32."""
    return array("f", values)


def one(value):
    return f32([value])[0]


def bits_of(values):
    return struct.unpack(f"<{len(values)}I", struct.pack(f"<{len(values)}f", *values))


def from_bits(bits):
    return struct.unpack("<f", struct.pack("<I", bits))[0]


def from_bytes(data):
    return list(struct.unpack(f"<{len(data) // 4}f", data))


def to_bytes(values):
    """NaN as 0x7fc00000."""
    return b"".join(b"\0\0\xc0\x7f" if v != v else struct.pack("<f", v) for v in values)


def log2(power):
    return power.bit_length() - 1


def energy(x):
    """Squares, then halves added to halves."""
    s = f32(v * v for v in x)
    while len(s) > 1:
        half = len(s) // 2
        s = f32(map(float.__add__, s[:half], s[half:]))
    return s[0]


def transform(v, kind=f32):
    """Walsh–Hadamard, pairs at distance 1, 2, 4, …: each pass moves the lowest place bit on top."""
    for _ in range(log2(len(v))):
        pairs = list(zip(v[::2], v[1::2]))
        v = kind([a + b for a, b in pairs] + [a - b for a, b in pairs])
    return v
