"""Sketches that peel: the comments at the top of src/kernels/sketch/sketch.h and
src/kernels/peeling/peeling.h."""

from randomness import U32, mix


def buckets_of(key, rows, coordinates):
    """The three buckets of each."""
    drawn = {}
    for unit in {i // 32 for i in coordinates}:
        u0, u1 = mix(key, 2 * unit), mix(key, 2 * unit + 1)
        row0, row1 = rows * (u0 >> 32) >> 32, (rows - 1) * (u0 & U32) >> 32
        row1 += row1 >= row0
        row2 = (rows - 2) * (u1 >> 32) >> 32
        row2 += row2 >= min(row0, row1)
        row2 += row2 >= max(row0, row1)
        drawn[unit] = [(32 * row, u1 >> 5 * j & 31) for j, row in enumerate((row0, row1, row2))]
    return [[first + (i % 32 ^ mask) for first, mask in drawn[i // 32]] for i in coordinates]


def peel(keys, count):
    """The order, as (key, bucket), and the keys that are stuck."""
    there = [set() for _ in range(count)]
    for key, buckets in enumerate(keys):
        for bucket in buckets:
            there[bucket].add(key)
    queue = [bucket for bucket in range(count) if len(there[bucket]) == 1]
    order = []
    for bucket in queue:  # Which grows.
        if len(there[bucket]) == 1:
            (key,) = there[bucket]
            order.append((key, bucket))
            for each in keys[key]:
                there[each].remove(key)
                if len(there[each]) == 1:
                    queue.append(each)
    return order, sorted(set().union(*there))
