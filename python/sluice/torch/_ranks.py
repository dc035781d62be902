"""The ranks of a job: process groups of our own, agreement at the start, and who is missing.

The framework's process group is never used for rounds: its own collectives would mix with ours in
an order that ranks need not share.
"""

from __future__ import annotations

import collections
import datetime
import inspect
import json
import logging
import threading
import time
import traceback
import weakref
from typing import Any, Callable

import torch
import torch.distributed as dist

import sluice
from sluice.torch import _groups
from sluice.torch._door import Door, Line, knock
from sluice.torch._errors import SluiceError, may_be_own
from sluice.torch._groups import own_timeout
from sluice.torch._placement import Place
from sluice.torch._watch import DIED, FAILED, LEFT, Watch, Word

log = logging.getLogger("sluice")

CONNECT_SECONDS = 60.0  # for ranks that have met, to connect to rank 0
GRACE_SECONDS = 10.0  # for ranks whose connections stand, to say that they have failed too
LONGER = "timeout= or SLUICE_TIMEOUT gives it longer"

# How often these ranks attached; the same on all of them, since they do it in the same order.
_attached: "collections.Counter[tuple[int, ...]]" = collections.Counter()


def _list(ranks: list[int]) -> str:
    return ("rank " if len(ranks) == 1 else "ranks ") + ", ".join(map(str, ranks))


def _first_line(error: BaseException) -> str:
    """Without the frames of C++ that torch adds."""
    text = str(error).partition("Exception raised from")[0].strip()
    return (text.splitlines() or [type(error).__name__])[0][:500]


def _global_ranks(group: Any) -> list[int]:
    if group is None or dist.get_world_size(group) == dist.get_world_size():
        return list(range(dist.get_world_size()))
    if "use_local_synchronization" in inspect.signature(dist.new_group).parameters:
        return dist.get_process_group_ranks(group)
    raise SluiceError("a process group of some of the ranks needs torch 2.1 or later;"
                      f" this is {torch.__version__}")


def _agree(facts: list[dict[str, Any]]) -> None:
    """Facts are compared as they are, or by what they mean where that has several spellings."""
    for name in sorted(set().union(*facts)):
        given = [one.get(name) for one in facts]
        pairs = [(one["is"], one["said"]) if isinstance(one, dict) else (one, one) for one in given]
        values = [value for value, _ in pairs]
        kinds: list[Any] = []
        for value in values:
            if value not in kinds:
                kinds.append(value)
        if len(kinds) > 1:
            said = ", ".join(
                f"{_list([rank for rank, value in enumerate(values) if value == kind])}"
                f" {pairs[values.index(kind)][1]!r}" for kind in kinds)
            raise SluiceError(f"ranks disagree on {name}: {said}; accepted: the same on every rank")


class Ranks:
    """The workers of one attached model, as process groups and a watch over who is there.

    Ranks are counted within the group, from 0.
    """

    def __init__(self, group: Any, place: Place, timeout: float | None, carrier: str) -> None:
        if not (dist.is_available() and dist.is_initialized()):
            raise SluiceError("torch.distributed is not initialised; accepted: after"
                              " init_process_group")
        self.rank = dist.get_rank(group)
        self.size = dist.get_world_size(group)
        self.timeout = timeout or own_timeout(group)
        self.place, self.device = place, place.group_device
        self._agreements: "collections.Counter[int]" = collections.Counter()  # before each step
        self._told = threading.Lock()  # held from the first word about a failure on
        self._ranks = _global_ranks(group)
        _attached[tuple(self._ranks)] += 1
        name = f"sluice/{'-'.join(map(str, self._ranks))}/{_attached[tuple(self._ranks)]}"
        self._store = dist.PrefixStore(name, dist.distributed_c10d._get_default_store())
        self.watch: Any = None  # until ranks have met
        self.watch = Watch(self.rank, self._meet(
            {**place.facts(), "carrier": carrier, "version": sluice.__version__}))
        self._end_watch = weakref.finalize(self, Watch.close, self.watch)  # also at exit
        self.groups: list[Any] = []
        self.stops: list[Callable[[], None]] = []  # of ports on a device: see stop()
        self._dropping = threading.Lock()
        self._texts = 0  # that went through the store
        self._make_groups()
        self.gathers_flat = self._gathers_flat()

    def group_of(self, track: int) -> Any:
        return self.groups[track % self.place.group_count]

    def _make_groups(self) -> None:
        """On a thread: torch waits in C++ for all ranks, and nothing wakes it if one dies then."""
        position = "attach, making process groups"
        attached = _attached[tuple(self._ranks)]
        ends: list[BaseException | None] = []
        news, given_up = threading.Event(), threading.Event()

        def make() -> None:
            try:
                if self.device.type == "cuda":
                    torch.cuda.set_device(self.device)
                for _ in range(self.place.group_count):
                    self.groups.append(self._new_group())
                    if given_up.is_set():
                        self.drop_all()
                        return
                if self.device.type == "cuda":
                    _groups.connect(self.groups[0], self.size, self.device)
                ends.append(None)
            except BaseException as error:
                ends.append(error)
            news.set()

        with _groups.own_numbers(attached), _groups.unbound():
            thread = threading.Thread(target=make, name="sluice-groups", daemon=True)
            thread.start()
            self.watch.on_loss(news.set)
            news.wait(2 * self.timeout + CONNECT_SECONDS)  # NCCL has no time-out of its own.
        if not ends:
            given_up.set()
            self.tell(position, None)
            self.drop_all()  # which ends what waits for the rank on the device
            raise self._explain(position, None)
        thread.join()
        error = ends[0]
        if error is None:
            return
        if may_be_own(error):
            raise self.failed(position, error, self.drop_all) from None
        if isinstance(error, RuntimeError):
            raise self.lost(position, error, self.drop_all) from None
        self.tell(position, error)
        self.drop_all()
        raise error

    def _new_group(self) -> Any:
        # Over NCCL ours is the time-out that counts.
        more = CONNECT_SECONDS if self.place.backend == "nccl" else 0
        return _groups.new(self._ranks, self.place.backend, self.timeout + more, self.device)

    def _gathers_flat(self) -> bool:
        """Whether the groups have the all-gather that needs no memory of its own."""
        if self.place.backend == "nccl":
            return True
        try:
            dist.all_gather_into_tensor(torch.empty(self.size, dtype=torch.uint8),
                                        torch.zeros(1, dtype=torch.uint8), group=self.groups[0])
        except (AttributeError, RuntimeError):  # Gloo before torch 2.
            return False
        return True

    def _wait_for(self, key: Callable[[int], str], seconds: float) -> list[int]:
        """The other ranks that do not set their key in time, or before one of them is gone."""
        until = time.monotonic() + seconds
        missing = [rank for rank in range(self.size) if rank != self.rank]
        while missing:
            left = max(0.01, min(1.0, until - time.monotonic()))
            try:
                self._store.wait([key(missing[0])], datetime.timedelta(seconds=left))
                missing.pop(0)
            except Exception:  # The class differs between versions of torch.
                gone = self.watch is not None and self.watch.doom()
                if gone or time.monotonic() >= until:
                    return [rank for rank in missing if not self._is_set(key(rank))]
        return []

    def _is_set(self, key: str) -> bool:
        try:
            self._store.wait([key], datetime.timedelta(seconds=0.01))
            return True
        except Exception:
            return False

    def _meet(self, facts: dict[str, Any]) -> dict[int, Line]:
        """All ranks are here and want the same groups; without that, making them would hang. The
        lines of the watch."""
        door = Door() if self.rank == 0 and self.size > 1 else None
        try:
            told = {**facts, "door": door and door.facts}
            self._store.set(f"attach/{self.rank}", json.dumps(told))
            missing = self._wait_for(lambda rank: f"attach/{rank}", self.timeout)
            if missing:
                raise SluiceError(f"rank {self.rank} of {self.size} attached, but {_list(missing)}"
                                  f" did not within {self.timeout:g} s; accepted: every rank"
                                  f" attaches; {LONGER}")
            every = [json.loads(self._store.get(f"attach/{rank}")) for rank in range(self.size)]
            doors = [one.pop("door", None) for one in every]  # an older Sluice has none
            _agree(every)
            if door is None:
                return {0: knock(doors[0], self.rank, self._connect_seconds)} if self.rank else {}
            return self._admit(door)
        finally:
            if door is not None:
                door.close()

    @property
    def _connect_seconds(self) -> float:
        return min(CONNECT_SECONDS, self.timeout)

    def _admit(self, door: Door) -> dict[int, Line]:
        lines = door.admit(self.size, self._connect_seconds)
        missing = [rank for rank in range(1, self.size) if rank not in lines]
        if missing:
            text = (f"{_list(missing)} did not connect to rank 0, port {door.facts['port']} at"
                    f" {', '.join(door.facts['hosts'])}, within {self._connect_seconds:g} s;"
                    " accepted: an address of rank 0 that all ranks reach; set GLOO_SOCKET_IFNAME"
                    " to its network interface on every host")
            for line in lines.values():  # Or they would take this rank for dead.
                line.send(json.dumps(Word(0, FAILED, "attach", text, -1)).encode())
                line.socket.close()
            raise SluiceError(text)
        return lines

    def on_loss(self, act: Callable[[], None]) -> None:
        """Calls it, on the watch's thread, when a rank has gone."""
        self.watch.on_loss(act)

    def at_step(self, step: int) -> None:
        """Which a goodbye tells."""
        self.watch.step = step

    def say_goodbye(self) -> None:
        """So that a rank which waits for this one knows that it has left."""
        self._end_watch()

    def close(self) -> None:
        """Says goodbye and gives the process groups back."""
        self.say_goodbye()
        for group in list(self.groups):
            self.drop(group)

    def drop(self, group: Any) -> None:
        """Gives one process group back."""
        self._end(group, dist.destroy_process_group)

    def stop(self) -> None:
        """Nothing is decoded on a device any more: gradients and residuals stay as they are. Any
        thread, any number of times, for good."""
        for stop in self.stops:
            stop()

    def abort(self, group: Any) -> None:
        """Gives one of NCCL's back in the middle of its collectives: what waits for others on the
        device ends. Any thread, any number of times. What arrived by then may be anything: first
        nothing is decoded any more."""
        self.stop()
        self._end(group, lambda one: _groups.abort(one, self.device))

    def _end(self, group: Any, end: Callable[[Any], None]) -> None:
        with self._dropping:
            if group not in self.groups:
                return
            self.groups.remove(group)
        try:
            end(group)
        except Exception:  # It is of no use any more, whatever is wrong with it.
            pass

    @property
    def are_groups_gone(self) -> bool:
        """Whether one was given back: what came over it may be anything."""
        return len(self.groups) < self.place.group_count

    def drop_all(self) -> None:
        """Gives all process groups back, after a failure."""
        for group in list(self.groups):
            (self.abort if self.place.backend == "nccl" else self.drop)(group)

    def gather(self, values: list[int]) -> list[list[int]]:
        """Every rank's few 64-bit integers, over Gloo."""
        mine = torch.tensor(values, dtype=torch.int64)
        all_of_them = [torch.empty_like(mine) for _ in range(self.size)]
        dist.all_gather(all_of_them, mine, group=self.groups[0])
        return [part.tolist() for part in all_of_them]

    def gather_texts(self, text: str) -> list[str]:
        """Every rank's text."""
        if self.place.backend == "nccl":
            return self._texts_from_store(text)
        data = text.encode()
        sizes = [size for size, in self.gather([len(data)])]
        padded = torch.zeros(max(sizes), dtype=torch.uint8)
        padded[:len(data)] = torch.frombuffer(bytearray(data), dtype=torch.uint8)
        all_of_them = [torch.empty_like(padded) for _ in range(self.size)]
        dist.all_gather(all_of_them, padded, group=self.groups[0])
        return [bytes(part[:size].tolist()).decode() for part, size in zip(all_of_them, sizes)]

    def _texts_from_store(self, text: str) -> list[str]:
        """Nobody can be woken who waits for NCCL."""
        self._texts += 1
        key = f"texts/{self._texts}"
        self._store.set(f"{key}/{self.rank}", text)
        missing = self._wait_for(lambda rank: f"{key}/{rank}", self.timeout)
        if missing:
            raise RuntimeError(f"no word of {_list(missing)} within {self.timeout:g} s")
        return [self._store.get(f"{key}/{rank}").decode() for rank in range(self.size)]

    def agree(self, facts: dict[str, Any]) -> None:
        """Raises on every rank, naming the first difference, unless all have the same facts."""
        try:
            texts = self.gather_texts(json.dumps(facts))
        except RuntimeError as error:
            raise self.lost("attach", error, self.drop_all) from None
        _agree([json.loads(text) for text in texts])

    def compare(self, what: str, values: list[int]) -> None:
        """Raises, naming those that differ from the majority, unless all values are equal."""
        usual = max(values, key=values.count)
        odd = [rank for rank, got in enumerate(values) if got != usual]
        if not odd:
            return
        who = f"{_list(odd)} differs from that of the others"
        if 2 * len(odd) >= self.size:  # Nobody can say which of them is right.
            who = f"{_list(list(range(self.size)))} differs, and no majority has the same"
        error = SluiceError(f"ranks disagree: {what} of {who}; parameters have drifted apart")
        error.is_known_to_all = True
        raise error

    def lost(self, position: str, cause: BaseException,
             hang_up: Callable[[], None]) -> SluiceError:
        """What to raise when a collective failed, from None: what it follows from is in the log.
        Hangs up first, so that ranks which wait for this one fail at once and not by the time-out.
        """
        log.debug("sluice: %s", position, exc_info=cause)
        traceback.clear_frames(cause.__traceback__)  # which keep the group's sockets open
        self.tell(position, None)
        hang_up()
        return self._explain(position, cause)

    def failed(self, position: str, cause: BaseException,
               hang_up: Callable[[], None]) -> SluiceError:
        """As lost(), where the cause may be on this rank alone: the others hear of it."""
        if not self.watch.doom():
            self.tell(position, cause)
        return self.lost(position, cause, hang_up)

    def check(self, position: Callable[[], str]) -> None:
        """Raises if a rank without which this step cannot end is known to be gone."""
        if self.watch.doom():
            where = position()
            self.tell(where, None)
            raise self._explain(where, None)

    def agree_between_steps(self, what: str, step: int, facts: dict[str, Any]) -> None:
        """As agree(), through the store: a rank that goes on instead of calling this is named, and
        what it sends meanwhile meets nothing of ours.

        All ranks end alike. The first that has heard everybody, or that gives up, decides for all:
        one that comes too late, and finds everybody, fails too.
        """
        key = self._next_agreement(what, step)
        self._store.set(f"{key}/{self.rank}", json.dumps(facts))
        missing = self._wait_for(lambda rank: f"{key}/{rank}", self.timeout)
        outcome = self._store.compare_set(f"{key}/missing", "", json.dumps(missing))
        missing = json.loads(outcome)
        if missing:  # Who is gone now, but was here for this, is not missed.
            self.check(lambda: what)
            raise SluiceError(f"{what} before step {step}, rank {self.rank} of {self.size}: not on"
                              f" {_list(missing)} within {self.timeout:g} s; accepted: every rank"
                              f" calls it between the same steps; {LONGER}")
        every = [json.loads(self._store.get(f"{key}/{rank}")) for rank in range(self.size)]
        refusals = [f"rank {rank}: {one['refused']}" for rank, one in enumerate(every)
                    if "refused" in one]
        if refusals:
            raise SluiceError(f"{what}, refused by {'; '.join(refusals)}")
        _agree(every)

    def refuse_between_steps(self, what: str, step: int, why: BaseException) -> None:
        """Instead of agree_between_steps(), where this rank's own argument is wrong: nobody waits
        for it in vain."""
        key = self._next_agreement(what, step)
        self._store.set(f"{key}/{self.rank}", json.dumps({"refused": str(why)}))

    def _next_agreement(self, what: str, step: int) -> str:
        """Counted for each step: ranks that have lost count find each other again in the next. A
        key is never used twice, though a loaded state brings a step back."""
        self._agreements[step] += 1
        return f"{what}/{step}/{self._agreements[step]}"

    def tell(self, position: str, cause: BaseException | None) -> None:
        """Gives word of a failure, with its cause if that is here, to ranks that wait in vain.

        The first word counts: what fails later on this rank follows from it.
        """
        if self._told.acquire(blocking=False):
            self.watch.say(FAILED, position, f"{type(cause).__name__}: {cause}" if cause else "")

    def _explain(self, position: str, cause: BaseException | None) -> SluiceError:
        """Who has died, left or failed; if nobody has, every rank that fails says where it was, and
        who says nothing within a while is missing."""
        words = self.watch.words(self.size - 1, min(GRACE_SECONDS, 2 * self.timeout + 1))
        reasons = self._reasons(words)
        if not reasons:
            reasons = [_first_line(cause)] if cause else []
            silent = sorted(set(range(self.size)) - {self.rank} - {word.rank for word in words})
            if silent:
                reasons.append(f"missing: {_list(silent)} (no answer and no word, but not dead; the"
                               f" time-out is {self.timeout:g} s; {LONGER})")
            reasons += [f"rank {word.rank} gave up at {word.text}" for word in words
                        if word.kind == FAILED and (cause is None or word.text != position)]
        return SluiceError(f"{position}, rank {self.rank} of {self.size}: {'; '.join(reasons)}")

    def _reasons(self, words: list[Word]) -> list[str]:
        reasons = []
        for why in dict.fromkeys(word.text for word in words if word.kind == DIED):
            dead = [word.rank for word in words if word.kind == DIED and word.text == why]
            reasons.append(f"missing: {_list(dead)} ({why})")
        for word in words:
            if word.kind == LEFT and word.dooms(self.watch.step):
                when = f"after {word.steps} steps" if word.steps >= 0 else "while attaching"
                reasons.append(f"missing: rank {word.rank} (left {when})")
        reasons += [f"rank {word.rank} failed at {word.text}: {word.cause}" for word in words
                    if word.kind == FAILED and word.cause]
        return reasons
