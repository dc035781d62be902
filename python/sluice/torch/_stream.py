"""Aggregators of a job: those that are named, or one on every rank.

With one on every rank no link carries everybody's gradients: each rank sends and receives what a
ring would, less what compression saves.
"""

from __future__ import annotations

import os
import secrets

from sluice.torch import _native
from sluice.torch._door import route_to
from sluice.torch._errors import SluiceError
from sluice.torch._ranks import Ranks
from sluice.torch._watch import Bell

WINDOW = 4  # chunks of a track on their way
PATIENCE = 10.0  # seconds that other ranks get to leave


def own_host() -> str:
    """The address that other ranks reach this one at: that of the route to the store's host."""
    master = os.environ.get("MASTER_ADDR", "localhost")
    try:
        host = route_to(master)
    except OSError as error:
        raise SluiceError(f"no address of this host towards MASTER_ADDR={master!r}: {error};"
                          " accepted: aggregators=[…] or SLUICE_AGGREGATORS") from error
    return f"[{host}]" if ":" in host else host


class Stream:
    """Where the ranks' ports join, agreed through the process group."""

    def __init__(self, ranks: Ranks, named: tuple[str, ...]) -> None:
        self._timeout = ranks.timeout
        self._patience = PATIENCE
        self._bell = Bell()  # wakes ports: datagrams of a rank that has died do not
        ranks.watch.on_loss(self._bell.ring)
        self._own: _native.Aggregator | None = None
        self.aggregators = list(named)
        try:
            self._job = ranks.gather([secrets.randbits(62) if ranks.rank == 0 else 0])[0][0]
            if not named:
                self._own = _native.Aggregator(f"{own_host()}:0")
                self.aggregators = ranks.gather_texts(self._own.address)
        except (RuntimeError, ValueError, MemoryError) as error:  # SluiceError is one.
            self.give_up()
            self.close()
            raise ranks.failed("attach, starting aggregators", error, ranks.drop_all) from None

    def port(self, track: int, memory: _native.Memory) -> _native.Port:
        """Joins; returns when all ranks have, for this track."""
        return _native.Port.open(memory, self.aggregators, self._job + track, WINDOW,
                                 self._timeout, self._bell.descriptor)

    def wake(self) -> None:
        """Ends what ports wait for, for good."""
        self._bell.ring()

    def give_up(self) -> None:
        """After a failure: nobody will come for results any more."""
        self._patience = 0.0

    def close(self) -> None:
        """After this rank's ports: other ranks may still lack the last result."""
        own, self._own = self._own, None
        if own is not None:
            own.close(self._patience)
        self._bell.close()
