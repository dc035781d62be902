"""Steps: what is on its way, where a step ends, and what became of it all.

The hook's thread puts buckets, tracks take what the queue says of them. A track knows this object
and not the hook's state, so that a model which is dropped is gone although its tracks wait for
buckets.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from typing import TYPE_CHECKING, Any, Iterator

from sluice.torch import _native
from sluice.torch._errors import SluiceError
from sluice.torch._measured import Measured
from sluice.torch._settings import Settings
from sluice.torch._work import Work

if TYPE_CHECKING:
    from sluice.torch._tracks import Track

log = logging.getLogger("sluice")

COUNTED = ("steps", "buckets", "gradient_bytes", "skipped_steps", "checks", "exact_buckets",
           "sparse_buckets", "sparse_rows")
ECHO_SECONDS = 1.0  # for the track that a failure comes from, to say so
WORDS_SECONDS = 30.0  # and for its words


class Comparison(Work):
    """The turn at the end of a step in which ranks compare what they got."""

    def __init__(self, steps: Steps) -> None:
        super().__init__(f"comparing the mean of step {steps.step}")
        self._steps = steps
        self.done = threading.Event()

    def run(self, track: Track, number: int) -> None:
        self._steps.totals["checks"] += 1
        track.collectives.compare(f"the mean of step {self._steps.step}",
                                 self._steps.digest_of_others(number))

    def complete(self, error: BaseException | None) -> None:
        self.done.set()


class Steps:
    """One thread puts, any may take."""

    def __init__(self, settings: Settings) -> None:
        self.step = 0
        self.error: BaseException | None = None
        self.failing = threading.Event()  # a track knows of a failure and finds words for it
        self.totals = dict.fromkeys(COUNTED, 0)
        self.measured = Measured()
        self.lock = threading.Lock()
        self._changed = threading.Condition(self.lock)
        self._settings = settings
        self._ranks: Any = None
        self._memory: Any = None
        self._queue: _native.Queue | None = None
        self._works: dict[int, Work] = {}  # on their way, by number; the oldest first
        self._held: list[Work] = []  # done, in a step that is still to be compared
        self._given_up: list[Work] = []  # after a failure: tracks may still write to their memory
        self._has_last = False  # the step's last bucket has come
        self._compares = False
        self._digest = self._infinite = 0

    def begin(self, ranks: Any, memory: _native.Memory, queue: _native.Queue | None) -> None:
        self._ranks, self._memory, self._queue = ranks, memory, queue

    # --- any thread ---

    def position(self, number: int) -> str:
        """That of a bucket, or else of the oldest that is on its way."""
        with self.lock:
            work = self._works.get(number) or next(iter(self._works.values()), None)
            return work.where if work else f"step {self.step}, at rest"

    def is_busy(self) -> bool:
        with self.lock:
            return bool(self._works)

    def is_echo(self) -> bool:
        """Whether a track that was ended by the queue owes that to another track, or to the end."""
        return not self._ranks.watch.doom() and self.failing.wait(ECHO_SECONDS)

    def is_due(self, every: int) -> bool:
        return every > 0 and self.step % every == 0

    def close(self, at_once: bool) -> None:
        """Ends what tracks serve."""
        if self._queue is not None:
            self._queue.close(at_once)

    # --- the hook's thread ---

    def put(self, work: Work, is_last: bool) -> None:
        """Sends it on its way; all ranks put the same in the same order."""
        with self._or_the_cause(work.where), self.lock:
            self.check()
            self._has_last = is_last
            self._compares = is_last and self.is_due(self._settings.check_every)
            self._put(work)
            if self._compares:
                self._put(Comparison(self))

    @contextlib.contextmanager
    def _or_the_cause(self, where: str) -> Iterator[None]:
        """Of a queue that takes nothing any more, raises why."""
        try:
            yield
        except _native.Unavailable as error:
            self._ranks.check(lambda: where)
            with self._changed:  # A track has failed and looks for words.
                self._changed.wait_for(lambda: self.error is not None, WORDS_SECONDS)
            self.check()
            raise error

    def check(self) -> None:
        if self.error is not None:
            raise SluiceError(f"Sluice has failed before: {self.error}")

    def _put(self, work: Work) -> None:
        number = self._queue.put_turn() if work.entries is None else \
            self._queue.put(self.order(work), work.entries)
        self._works[number] = work

    def order(self, work: Work, number: int = 0) -> _native.Order:
        every = self._settings.probe_every
        probe = work.step // every % 2**31 + 1 if work.is_probed and self.is_due(every) else 0
        return _native.Order(step=work.step, number=number, probe=probe, **work.place())

    def await_rest(self) -> None:
        """Until nothing is on its way."""
        with self._changed:
            self._changed.wait_for(lambda: not self._works)

    def end_untold(self) -> None:
        """Where nobody said which bucket of a step was its last."""
        self.await_rest()
        self.check()
        if not self.is_due(self._settings.check_every):
            self._end()
            return
        comparison = Comparison(self)
        with self._or_the_cause(comparison.where), self.lock:
            self._has_last = self._compares = True
            self._put(comparison)
        comparison.done.wait()
        self.check()

    # --- tracks ---

    def take(self, track: Track, event: _native.Event) -> None:
        """What the queue has to say; raises what fails everything."""
        number = event.number
        with self.lock:
            work = self._works.get(number)
        if work is None:  # It was given up.
            return
        infinite, probes = event.infinite, event.probes
        work.stream = track.stream
        with track.active():
            if event.kind == _native.TURN:
                track.turn(work, number)
                infinite, probes = work.infinite, work.probes
            infinite += int(work.repack(self._memory))
            digest = work.digest(track) if self.is_due(self._settings.check_every) else 0
        track.check()
        with self._changed:
            if self._works.pop(number, None) is None:
                return
            self._infinite += infinite
            self._digest += digest
            self.measured.add(probes)
            self._count(work)
            self._held.append(work)
            ends = not self._works and self._has_last
            done = [] if self._compares and not ends else self._release()
            self._changed.notify_all()
        # Whoever is last ends the step before its future completes: the next step's first bucket
        # can come only after that.
        if ends:
            try:
                self._end()
            except BaseException as error:
                self._give_up(done, error)
                raise
        for one in done:
            one.complete(None)

    def digest_of_others(self, number: int) -> int:
        """Once everything but that turn is done."""
        with self._changed:
            self._changed.wait_for(lambda: self._works.keys() <= {number})
            if self.error is not None:
                raise self.error
            return self._digest

    def _count(self, work: Work) -> None:
        for name, count in work.counts().items():
            self.totals[name] += count

    def _release(self) -> list[Work]:
        held, self._held = self._held, []
        return held

    def _end(self) -> None:
        if self._infinite and self._settings.feedback != "none":
            self._memory.undo_step()
        else:
            self._memory.end_step()
        self.count_step(self._infinite > 0)
        self._ranks.at_step(self.step)
        self._digest = self._infinite = 0
        self._has_last = self._compares = False

    def count_step(self, skipped: bool) -> None:
        self.totals["steps"] += 1
        self.totals["skipped_steps"] += int(skipped)
        self.step += 1

    def fail(self, position: str, error: BaseException) -> None:
        """Everything on its way fails: other ranks may have stopped anywhere."""
        self.failing.set()
        self._ranks.tell(position, error)
        with self._changed:
            is_first = self.error is None
            self.error = error = self.error or error
            works = [*self._works.values(), *self._release()]
            self._works.clear()
            self._changed.notify_all()
        if is_first:
            log.error("sluice: %s", error)
        self.close(at_once=True)
        self._give_up(works, error)

    def _give_up(self, works: list[Work], error: BaseException) -> None:
        self._given_up += works
        for work in works:
            work.complete(error)
