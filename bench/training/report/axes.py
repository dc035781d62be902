"""Scales and ticks."""

import dataclasses
import math

from .markup import number, power


def ticks(low, high, count=5):
    """Multiples of 1, 2 or 5 times a power of ten within, at most count + 1 of them."""
    if not high > low:
        return [low]
    base = 10.0 ** math.floor(math.log10((high - low) / count))
    step = next(base * n for n in (1, 2, 5, 10, 20) if high - low <= count * base * n)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(n * step, 12 - math.floor(math.log10(step))) for n in range(first, last + 1)]


def log_ticks(low, high, count=5):
    """Powers of ten within, at most count + 1 of them."""
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    return [10.0 ** n for n in range(first, last + 1, max(1, math.ceil((last - first) / count)))]


@dataclasses.dataclass(frozen=True)
class Axis:
    low: float
    high: float
    label: str = ""
    unit: str = ""              # Behind each tick.
    log: bool = False

    def at(self, value):
        """Where a value lies, from 0 to 1; beyond these when it is outside."""
        low, high = self.low, self.high
        if self.log:
            low, high, value = map(math.log10, (low, high, value))
        return (value - low) / (high - low)

    def percent(self, value):
        return f"{100 * self.at(value):.2f}%"

    def ticks(self):
        """(value, text)"""
        if self.log:
            return [(tick, f"10{power(round(math.log10(tick)))}")
                    for tick in log_ticks(self.low, self.high)]
        found = ticks(self.low, self.high)
        step = found[1] - found[0] if found[1:] else 1
        decimals = max(0, -math.floor(math.log10(step) + 1e-9))
        texts = [f"{tick:,.{decimals}f}".replace("-", "−") if decimals < 4 and step < 1e5
                 else number(tick, 2) for tick in found]
        return [(tick, text + self.unit if tick else "0") for tick, text in zip(found, texts)]


def from_zero(values, label="", unit="", room=0.0):
    """Up to the largest, and this share of the axis beyond it for what is written there."""
    return Axis(0.0, max(values, default=0.0) / (1 - room) or 1.0, label, unit)


def around(values, label, below=0.04, above=0.04):
    """All values and, as shares of what they span, some room."""
    low, high = min(values, default=0.0), max(values, default=1.0)
    span = high - low or 0.1 * abs(high) or 1.0
    return Axis(low - below * span, high + above * span, label)


def decades(values, label):
    """Whole powers of ten around values that are all above 0."""
    low = math.floor(math.log10(min(values, default=0.1)) + 1e-9)
    high = math.ceil(math.log10(max(values, default=1.0)) - 1e-9)
    return Axis(10.0 ** low, 10.0 ** max(high, low + 1), label, log=True)
