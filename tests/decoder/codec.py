"""What the decoders share: one tensor's trip through the exchanges of a dump."""

import randomness
from float32 import f32, from_bytes, to_bytes


class Codec:
    """A subclass takes the rounds of an exchange and writes `mean`. Where inputs are known it says
    what every worker must have sent, and leaves in `left` what feedback keeps."""

    def __init__(self, manifest):
        self.n, self.seed, self.count = (manifest[k] for k in ("workers", "seed", "count"))
        self.options = manifest["options"]

    def step(self, exchange, inputs, gradients):
        """The mean of a chunk, from the bytes down alone. The workers' inputs (gradient plus
        residual; none: do not check the bytes up) are replaced by what feedback keeps."""
        self.at, self.number = exchange["offset"], exchange["step"]
        self.inputs, self.gradients = inputs, gradients
        self.mean, self.left = [0.0] * exchange["count"], [list(x) for x in inputs]
        steps = [list(step) for step in exchange["rounds"]]
        self.take(steps)
        assert not any(steps), "rounds that the README does not know"
        inputs[:] = self.left
        return self.mean

    def words(self, purpose, count, rank=randomness.EVERYONE):
        return randomness.words(
            randomness.stream(self.seed, self.number, purpose, rank=rank), count)

    def place(self, target, first, values):
        """Writes a block; padding falls off."""
        end = min(first + len(values), len(target))
        target[first:end] = values[: end - first]

    def block(self, x, first, size):
        """A block of x, padded with zeros."""
        return x[first : first + size] + [0.0] * (first + size - len(x))

    def keep(self, k, first, own, gain=1.0):
        """Worker k's residual: its input less what its own codes say, both times `gain`."""
        x = self.block(self.inputs[k], first, len(own))
        rest = f32(a * gain - b for a, b in zip(x, own))
        self.place(self.left[k], first, f32(v / gain for v in rest))

    def floats(self, round_, blocks, only, grain):
        """Blocks that travel as float32."""
        count = sum(size for _, size in blocks)
        round_.expect(only, op="f32_sum", bits=32, grain=grain, count=count)
        members = round_.contributors()
        sums = iter(from_bytes(round_.down))
        for first, size in blocks:
            self.place(self.mean, first, f32(next(sums) / len(members) for _ in range(size)))
        for k, x in enumerate(self.inputs):
            sent = [v for block in blocks for v in self.block(x, *block)]
            counted = only is None or k in members
            assert round_.up[k] == to_bytes(sent if counted else [0.0] * count), "floats"
            for first, size in blocks if k in members else []:  # Where x is not finite it was 0.
                self.place(self.left[k], first, [0.0] * size)
