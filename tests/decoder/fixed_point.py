"""float32 values and their exact sums as integers: src/codec/lossless/README.md."""

import math


def integers(data, bits):
    """Lanes of whole bytes, two's complement."""
    size = bits // 8
    return [int.from_bytes(data[at : at + size], "little", signed=True)
            for at in range(0, len(data), size)]


def to_integers(values, bits):
    """Modulo 2^bits."""
    return b"".join((v % (1 << bits)).to_bytes(bits // 8, "little") for v in values)


def units(value):
    """A finite float32 in units of 2^-149."""
    return int(math.ldexp(value, 149))


def nearest(total, divisor):
    """total / divisor, in units of 2^-149, rounded once to float32."""
    size = abs(total)
    shift = max(0, (size // divisor).bit_length() - 24)
    quotient, rest = divmod(size, divisor << shift)
    quotient += 2 * rest + (quotient & 1) > divisor << shift
    return math.copysign(math.ldexp(quotient, shift - 149), total)


def range_codes(values):
    """Top and low codes of finite values."""
    sizes = [abs(units(v)) for v in values if math.isfinite(v)]
    if not sizes:
        return [0, 0]
    lowest = min((v & -v).bit_length() for v in sizes)
    return [max(sizes).bit_length() + 1, 279 - lowest]
