"""Who is still there: every rank keeps a connection to rank 0 of the group, on which nothing is
said but words about ends.

A connection that closes without a goodbye names a rank that has died. Silence names nobody: a rank
may compute, or be stopped, as long as it likes. Rank 0 hears all others and passes on what it
hears; that rank 0 itself has died, all others hear. A rank that fails says so, and a word cannot be
overtaken by the end of the connection that it travels on.
"""

from __future__ import annotations

import json
import logging
import os
import select
import threading
import weakref
from typing import Callable, NamedTuple

from sluice.torch._door import Line

log = logging.getLogger("sluice")

DIED, LEFT, FAILED = "died", "left", "failed"


class Word(NamedTuple):
    """How a rank ended; the first word of a rank counts, what comes later follows from it."""

    rank: int
    kind: str  # DIED, LEFT, FAILED
    text: str = ""  # DIED: why that is known; FAILED: where it was
    cause: str = ""  # FAILED: why, if the reason lies with this rank
    steps: int = 0  # LEFT: how many it has completed; -1: it did not even attach

    def dooms(self, step: int) -> bool:
        """Whether this step cannot end, for want of that rank."""
        return self.kind != LEFT or self.steps <= step


_watches: "weakref.WeakSet[Watch]" = weakref.WeakSet()


def _forget_in_child() -> None:
    """A connection closes when nobody has it open: children, such as a data loader's, must not."""
    for watch in list(_watches):
        watch.forget()


os.register_at_fork(after_in_child=_forget_in_child)


class Watch:
    """One rank's end; its thread ends with close(), or when all others have left."""

    def __init__(self, rank: int, lines: dict[int, Line]) -> None:
        self.step = -1  # the one that this rank is in; attaching comes before the first
        self._rank = rank
        self._lines = lines  # of rank 0: to all others; of the others: to rank 0
        self._words: dict[int, Word] = {}
        self._heard = threading.Condition()
        self._alarms: list[Callable[[], None]] = []
        self._closing = False
        self._thread: threading.Thread | None = None
        if lines:
            _watches.add(self)
            self._thread = threading.Thread(target=self._listen, name="sluice-watch", daemon=True)
            self._thread.start()

    # --- for this rank ---

    def on_loss(self, alarm: Callable[[], None]) -> None:
        """Calls it, on the watch's thread, once this rank's step cannot end; at once if so."""
        with self._heard:
            self._alarms.append(alarm)
            late = bool(self._doom())
        if late:
            alarm()

    def doom(self) -> list[Word]:
        """Words of ranks for want of which this rank's step cannot end."""
        with self._heard:
            return self._doom()

    def _doom(self) -> list[Word]:
        return [word for word in self._words.values() if word.dooms(self.step)]

    def words(self, others: int, seconds: float) -> list[Word]:
        """All words, once they explain a failure, or so many ranks have said one, or the time is
        over."""
        def is_explained() -> bool:
            return len(self._words) >= others or \
                any(word.kind != FAILED or word.cause for word in self._doom())
        with self._heard:
            self._heard.wait_for(is_explained, seconds)
            return sorted(self._words.values())

    def say(self, kind: str, text: str = "", cause: str = "") -> None:
        """To all other ranks."""
        word = Word(self._rank, kind, text[:2000], cause[:2000], self.step)
        for line in list(self._lines.values()):
            line.send(json.dumps(word).encode())

    def close(self) -> None:
        """Says goodbye. Leaves nothing behind, and may be called twice."""
        if self._closing:
            return
        self.say(LEFT)
        self._closing = True
        for line in list(self._lines.values()):
            line.hang_up()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=5)
        self.forget()

    def forget(self) -> None:
        """Closes this process's descriptors, without a word."""
        self._closing = True
        lines, self._lines = self._lines, {}
        for line in lines.values():
            line.socket.close()

    # --- the watch's thread ---

    def _listen(self) -> None:
        poll = select.poll()
        ends = {line.socket.fileno(): (rank, line) for rank, line in self._lines.items()}
        for descriptor in ends:
            poll.register(descriptor, select.POLLIN)
        ready = list(ends)  # for what has come already
        while ends:
            for descriptor in ready:
                rank, line = ends[descriptor]
                messages, end = line.receive()
                for message in messages if not self._closing else ():
                    self._take(rank, message)
                if not end:
                    continue
                poll.unregister(descriptor)
                del ends[descriptor]
                if not self._closing:
                    self._learn(Word(rank, DIED, end))
                    line.hang_up()
            ready = [descriptor for descriptor, _ in poll.poll()] if ends else []

    def _take(self, rank: int, message: bytes) -> None:
        """A word of the rank at the other end; from rank 0 also of others."""
        try:
            word = Word(*json.loads(message))
            word = Word(int(word.rank), str(word.kind), str(word.text), str(word.cause),
                        int(word.steps))
        except (TypeError, ValueError, RecursionError):
            log.debug("sluice: no word: %r", message)
            return
        self._learn(word if self._rank != 0 else word._replace(rank=rank))

    def _learn(self, word: Word) -> None:
        if word.rank in self._words or word.rank == self._rank:
            return
        if self._rank == 0:  # Passed on first: whoever hears it here may end this process.
            for rank, line in list(self._lines.items()):
                if rank != word.rank:
                    line.send(json.dumps(word).encode())
        with self._heard:
            first = not self._doom()
            self._words[word.rank] = word
            self._heard.notify_all()
            alarms = list(self._alarms) if first and self._doom() else []
        if word.kind == DIED and first:
            log.warning("sluice: rank %d has died: %s", word.rank, word.text)
        for alarm in alarms:
            alarm()


class Bell:
    """A descriptor that becomes readable, for those who wait in the library."""

    def __init__(self) -> None:
        if hasattr(os, "eventfd"):
            self.descriptor = self._writer = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        else:  # Before Python 3.10.
            self.descriptor, self._writer = os.pipe()
        self._lock = threading.Lock()

    def ring(self) -> None:
        with self._lock:
            if self._writer >= 0:
                os.write(self._writer, (1).to_bytes(8, "little"))

    def close(self) -> None:
        """When nobody looks at it any more."""
        with self._lock:
            for descriptor in {self.descriptor, self._writer} - {-1}:
                os.close(descriptor)
            self.descriptor = self._writer = -1
