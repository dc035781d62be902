"""Ends what an attached model holds: tracks, aggregators, process groups.

Also when the model is dropped without a word, and at exit.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any, Callable

from sluice.torch._alone import Alone
from sluice.torch._parts import Parts
from sluice.torch._ranks import Ranks

CLOSER = "sluice-close"  # the name of a thread


def weak(method: Callable[[], None]) -> Callable[[], None]:
    """Calls it as long as its object lives."""
    reference = weakref.WeakMethod(method)

    def call() -> None:
        bound = reference()
        if bound is not None:
            bound()

    return call


def close_tracks(parts: Parts, ranks: Ranks | Alone, pid: int) -> None:
    if os.getpid() == pid:
        ranks.say_goodbye()  # first: a rank that waits for this one should not do so in vain
        parts.close()


def close_groups(end_tracks: Callable[[], Any], ranks: Ranks | Alone, pid: int) -> None:
    """Where the last to know of a model is a track, another thread closes: one that the process
    waits for before it ends, and that can wait for the track."""
    if os.getpid() != pid:
        return

    def close() -> None:
        end_tracks()
        ranks.close()

    if not threading.current_thread().daemon:
        close()
        return
    try:
        threading.Thread(target=close, name=CLOSER).start()
    except RuntimeError:  # The interpreter ends, and has closed the tracks.
        pass


def await_closers() -> None:
    """So that process groups are not made while others are given back."""
    for thread in threading.enumerate():
        if thread.name == CLOSER and thread.ident is not None:
            thread.join()
