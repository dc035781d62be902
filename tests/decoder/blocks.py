"""blocks: src/codec/blocks/README.md."""

import math

import block_lists
from codec import Codec
from float32 import bits_of, f32

MAX = 2.0**128 - 2.0**104


def exponent_of(x):
    """The largest biased exponent; 0 for zeros alone."""
    largest = max(bits & 0x7FFFFFFF for bits in bits_of(x))
    return max(1, largest >> 23) if largest else 0


class Blocks(Codec):
    def take(self, steps):
        size, count = self.options["block"], len(self.mean)
        blocks = [(first, min(size, count - first)) for first in range(0, count, size)]
        agree = steps[0].pop(0)
        agree.expect(None, op="max", bits=8, count=len(blocks), grain=0)
        own = [[exponent_of(x[first : first + c]) for first, c in blocks] for x in self.inputs]
        for mine, up in zip(own, agree.up):
            assert up == bytes(mine), "exponents"
        self.members, exponents = agree.contributors(), agree.down
        rounds = steps[1] if steps[1:] else []
        odd = [block for block, e in zip(blocks, exponents) if e == 255]
        summed = [i for i, e in enumerate(exponents) if 0 < e < 255]
        for k in self.members if self.inputs else []:
            for (first, c), mine in zip(blocks, own[k]):
                if mine == 0:
                    self.place(self.left[k], first, [0.0] * c)
        if summed:
            self.sums(rounds.pop(0), [(*blocks[i], exponents[i], i) for i in summed], own, size)
        if odd:
            self.floats(rounds.pop(0), odd, self.members, size)

    def sums(self, round_, blocks, own, size):
        round_.expect(self.members, op="block_sum", bits=32, count=size * len(blocks), grain=size)
        lists = block_lists.read(round_.down, round_.what)
        assert sorted(lists) == list(range(len(blocks))), "blocks in the sum"
        sent = [{} for _ in self.inputs]
        for number, (first, count, exponent, i) in enumerate(blocks):
            bound, top = math.ldexp(self.n, exponent - 126), 2**31 - 1 - self.n
            factor = bound / (top * len(self.members))
            whole = [v - (v >> 31 << 32) for v in lists[number]]
            mean = f32(v * factor for v in whole[:count])
            if exponent == 254:  # Half a unit more than the largest float is still that.
                mean = f32(max(-MAX, min(MAX, v)) for v in mean)
            self.place(self.mean, first, mean)
            assert not any(whole[count:]), "behind the end of the chunk"
            for k in (k for k in self.members if self.inputs and own[k][i]):
                codes = [round(v * (top / bound)) for v in self.inputs[k][first : first + count]]
                self.keep(k, first, [code * (bound / top) for code in codes])
                padded = codes + [0] * (size - count)
                sent[k][number] = [code % (1 << 32) for code in padded]
        for k, mine in enumerate(sent):
            assert round_.up[k] == block_lists.write(mine, 32), f"blocks of worker {k}"

