"""The error as probes measured it, per layer, since attach() and since it was last asked for.

What a probe finds is an estimate for the whole layer already, so that it is just added up.
"""

from __future__ import annotations

import math
from typing import Any, Iterable, Mapping

from sluice.torch import _native


class _Sums:
    """Of one layer, or of all."""

    def __init__(self) -> None:
        self.blocks = self.live = self.silent = 0
        self.error = self.exact = 0.0

    def add(self, other: Any) -> None:
        self.blocks += other.blocks
        self.live += other.live
        self.silent += other.silent
        self.error += other.error_energy
        self.exact += other.exact_energy

    def figures(self) -> dict[str, Any]:
        return {"vnmse": self.error / self.exact if self.exact else None,
                "silent_blocks": self.silent / self.live if self.live else None,
                "probes": self.blocks}


class _Span:
    """Of a stretch of time."""

    def __init__(self) -> None:
        self._all = _Sums()
        self._layers: dict[int, _Sums] = {}

    def add(self, probe: _native.Probe) -> None:
        self._all.add(probe)
        self._layers.setdefault(probe.tensor, _Sums()).add(probe)

    def figures(self, names: Mapping[str, int]) -> dict[str, Any]:
        none = _Sums()
        return {**self._all.figures(),
                "layers": {name: self._layers.get(index, none).figures()
                           for name, index in names.items()}}


class Measured:
    """What probes found. The caller sees to it that one thread at a time is here."""

    def __init__(self) -> None:
        self._ever, self._interval = _Span(), _Span()

    def add(self, probes: Iterable[_native.Probe]) -> None:
        for probe in probes:
            if math.isfinite(probe.error_energy + probe.exact_energy):
                self._ever.add(probe)
                self._interval.add(probe)

    def figures(self, names: Mapping[str, int]) -> dict[str, Any]:
        """Since the beginning, and under "interval" since this was called before."""
        interval, self._interval = self._interval, _Span()
        return {**self._ever.figures(names), "interval": interval.figures(names)}
