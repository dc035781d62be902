"""Random words that every rank can name: src/codec/tide/README.md, Randomness."""

from functools import lru_cache

U32, U64 = (1 << 32) - 1, (1 << 64) - 1
EVERYONE = 0xFFFFFFFF


def mix(a, b):
    z = (a + (b + 1) * 0x9E3779B97F4A7C15) & U64
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & U64
    z = (z ^ z >> 27) * 0x94D049BB133111EB & U64
    return z ^ z >> 31


SPREAD = [mix(0x746964, j) >> 32 & ~63 | j for j in range(64)]


def stream(seed, step, purpose, tensor=0, rank=EVERYONE):
    return mix(mix(mix(mix(mix(0x536C75696365, seed), step), tensor), purpose), rank)


@lru_cache(100)
def words(key, count):
    """The first `count` words of a stream."""
    out = []
    for group in range(0, count, 64):
        k = mix(key, group // 64)
        low, high = k & U32, k >> 32 | 1
        for spread in SPREAD[: count - group]:
            r = spread * high + low & U32
            r = (r ^ r >> 16) * 0x7FEB352D & U32
            out.append(r ^ r >> 15)
    return out
