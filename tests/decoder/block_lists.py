"""Lists of blocks: block_sum in the comment at the top of src/round/reduction.h."""


def body_of(integers, size):
    """Form and body, the shortest."""
    there = [(at, value) for at, value in enumerate(integers) if value]
    dense = b"".join(value.to_bytes(size, "little") for value in integers)
    bitmap = sum(1 << at for at, _ in there).to_bytes(len(integers) // 8, "little") + b"".join(
        value.to_bytes(size, "little") for _, value in there)
    pairs = len(there).to_bytes(2, "little") + b"".join(
        at.to_bytes(2, "little") + value.to_bytes(size, "little") for at, value in there)
    form = min(range(3), key=lambda each: (len((dense, bitmap, pairs)[each]), each))
    return bytes([form]) + (dense, bitmap, pairs)[form]


def write(blocks, bits):
    """From a dictionary of block number to integers below 2^bits."""
    return len(blocks).to_bytes(4, "little") + b"".join(
        number.to_bytes(4, "little") + body_of(blocks[number], bits // 8)
        for number in sorted(blocks))


def read(data, what):
    """The dictionary back, in any form; anything else is an AssertionError."""
    grain, size, at = what["grain"], what["bits"] // 8, 0

    def take(count, of=1):
        nonlocal at
        at += count * of
        assert at <= len(data), "list too short"
        piece = data[at - count * of : at]
        return [int.from_bytes(piece[i : i + of], "little") for i in range(0, len(piece), of)]

    blocks = {}
    for _ in range(take(1, 4)[0]):
        (number,), (form,) = take(1, 4), take(1)
        assert max(blocks, default=-1) < number < what["count"] / grain, number
        start, integers = at, [0] * grain
        if form == 0:
            integers = take(grain, size)
        elif form == 1:
            bitmap = take(grain // 8)
            for i in (i for i in range(grain) if bitmap[i // 8] >> i % 8 & 1):
                (integers[i],) = take(1, size)
        else:
            assert form == 2, form
            last = -1
            for _ in range(take(1, 2)[0]):
                (i,) = take(1, 2)
                assert last < i < grain, i
                (integers[i],), last = take(1, size), i
        assert at - start <= grain * size, "longer than all integers"
        blocks[number] = integers
    assert at == len(data), "list too long"
    return blocks


def add(lists, what):
    """The list of the sums of lists."""
    sums = {}
    for data in lists:
        for number, integers in read(data, what).items():
            before = sums.get(number, [0] * what["grain"])
            sums[number] = [(a + b) % (1 << what["bits"]) for a, b in zip(before, integers)]
    return write(sums, what["bits"])
