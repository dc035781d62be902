"""The ranks of a job: process groups of our own, agreement at the start, and who is missing.

The framework's process group is never used for rounds: its own collectives would mix with ours in
an order that ranks need not share.
"""

from __future__ import annotations

import collections
import contextlib
import datetime
import inspect
import json
import threading
import time
import traceback
from typing import Any, Callable, Iterator

import torch
import torch.distributed as dist

from sluice.torch._errors import SluiceError

# How often these ranks attached; the same on all of them, since they do it in the same order.
_attached: "collections.Counter[tuple[int, ...]]" = collections.Counter()


def _list(ranks: list[int]) -> str:
    return ("rank " if len(ranks) == 1 else "ranks ") + ", ".join(map(str, ranks))


def _global_ranks(group: Any) -> list[int]:
    if group is None or dist.get_world_size(group) == dist.get_world_size():
        return list(range(dist.get_world_size()))
    if "use_local_synchronization" in inspect.signature(dist.new_group).parameters:
        return dist.get_process_group_ranks(group)
    raise SluiceError("a process group of some of the ranks needs torch 2.1 or later;"
                      f" this is {torch.__version__}")


@contextlib.contextmanager
def _own_numbers(attached: int) -> Iterator[None]:
    """Numbers process groups apart from the user's while they are made.

    Where only some ranks make them, the count that torch takes names from would differ between the
    ranks afterwards, and the user's next new_group would hang.
    """
    world = getattr(dist.distributed_c10d, "_world", None)
    if not hasattr(world, "group_count"):
        yield
        return
    before, world.group_count = world.group_count, 10**9 + 1000 * attached
    try:
        yield
    finally:
        world.group_count = before


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
    """The workers of one attached model, as process groups and a store for words about failures.

    Ranks are counted within the group, from 0.
    """

    def __init__(self, group: Any, lanes: int, timeout: float, backend: str | None,
                 carrier: str) -> None:
        if not (dist.is_available() and dist.is_initialized()):
            raise SluiceError("torch.distributed is not initialised; accepted: after"
                              " init_process_group")
        self.rank = dist.get_rank(group)
        self.size = dist.get_world_size(group)
        self.timeout = timeout
        self.device = torch.device("cuda", torch.cuda.current_device()) if backend == "nccl" \
            else torch.device("cpu")
        self._told = threading.Lock()  # held from the first word about a failure on
        self._ranks = _global_ranks(group)
        _attached[tuple(self._ranks)] += 1
        name = f"sluice/{'-'.join(map(str, self._ranks))}/{_attached[tuple(self._ranks)]}"
        self._store = dist.PrefixStore(name, dist.distributed_c10d._get_default_store())
        self._meet({"carrier": carrier, "lanes": lanes, "backend": backend or "gloo"})
        with _own_numbers(_attached[tuple(self._ranks)]):
            self.groups = [self._new_group(backend or "gloo") for _ in range(lanes)]
        self.gathers_flat = self._gathers_flat()

    def _new_group(self, backend: str) -> Any:
        whole = len(self._ranks) == dist.get_world_size()
        more: dict[str, Any] = {} if whole else {"use_local_synchronization": True}
        timeout = datetime.timedelta(seconds=self.timeout)
        return dist.new_group(ranks=None if whole else self._ranks, backend=backend,
                              timeout=timeout, **more)

    def _gathers_flat(self) -> bool:
        """Whether the groups have the all-gather that needs no memory of its own."""
        try:
            dist.all_gather_into_tensor(torch.empty(self.size, dtype=torch.uint8,
                                                    device=self.device),
                                        torch.zeros(1, dtype=torch.uint8, device=self.device),
                                        group=self.groups[0])
        except (AttributeError, RuntimeError):  # Gloo before torch 2.
            return False
        return True

    def _wait_for(self, key: Callable[[int], str], seconds: float) -> list[int]:
        """The other ranks that do not set their key in time."""
        until = time.monotonic() + seconds
        missing = []
        for rank in range(self.size):
            if rank == self.rank:
                continue
            left = max(0.01, until - time.monotonic())
            try:
                self._store.wait([key(rank)], datetime.timedelta(seconds=left))
            except Exception:  # The class differs between versions of torch.
                missing.append(rank)
        return missing

    def _meet(self, facts: dict[str, Any]) -> None:
        """All ranks are here and want the same groups; without that, making them would hang."""
        self._store.set(f"attach/{self.rank}", json.dumps(facts))
        missing = self._wait_for(lambda rank: f"attach/{rank}", self.timeout)
        if missing:
            raise SluiceError(f"rank {self.rank} of {self.size} attached, but {_list(missing)} did"
                              f" not within {self.timeout:g} s; accepted: every rank attaches")
        _agree([json.loads(self._store.get(f"attach/{rank}")) for rank in range(self.size)])

    def close(self) -> None:
        """Gives the process groups back."""
        for group in list(self.groups):
            self.drop(group)

    def drop(self, group: Any) -> None:
        """Gives one process group back."""
        if group in self.groups:
            self.groups.remove(group)
            try:
                dist.destroy_process_group(group)
            except Exception:  # It is of no use any more, whatever is wrong with it.
                pass

    def gather(self, values: list[int], group: Any = None) -> list[list[int]]:
        """Every rank's few 64-bit integers."""
        mine = torch.tensor(values, dtype=torch.int64, device=self.device)
        all_of_them = [torch.empty_like(mine) for _ in range(self.size)]
        dist.all_gather(all_of_them, mine, group=group or self.groups[0])
        return [part.tolist() for part in all_of_them]

    def gather_texts(self, text: str) -> list[str]:
        """Every rank's text."""
        data = text.encode()
        sizes = [size for size, in self.gather([len(data)])]
        padded = torch.zeros(max(sizes), dtype=torch.uint8)
        padded[:len(data)] = torch.frombuffer(bytearray(data), dtype=torch.uint8)
        padded = padded.to(self.device)
        all_of_them = [torch.empty_like(padded) for _ in range(self.size)]
        dist.all_gather(all_of_them, padded, group=self.groups[0])
        return [bytes(part[:size].tolist()).decode() for part, size in zip(all_of_them, sizes)]

    def agree(self, facts: dict[str, Any]) -> None:
        """Raises on every rank, naming the first difference, unless all have the same facts."""
        try:
            texts = self.gather_texts(json.dumps(facts))
        except RuntimeError as error:
            raise self.lost("attach", error, lambda: self.drop(self.groups[0])) from error
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
        raise SluiceError(f"ranks disagree: {what} of {who}; parameters have drifted apart")

    def lost(self, position: str, cause: BaseException,
             hang_up: Callable[[], None]) -> SluiceError:
        """What to raise when a collective failed. Hangs up first, so that ranks which wait for this
        one fail at once and not by the time-out."""
        traceback.clear_frames(cause.__traceback__)  # which keep the group's sockets open
        self.tell(position, None)
        hang_up()
        return self._explain(position, cause)

    def tell(self, position: str, cause: BaseException | None) -> None:
        """Leaves word of a failure, with its cause if that is here, for ranks that wait in vain.

        The first word counts: what fails later on this rank follows from it.
        """
        if not self._told.acquire(blocking=False):
            return
        try:
            self._store.set(f"failed/{self.rank}", json.dumps(
                {"position": position,
                 "cause": cause and f"{type(cause).__name__}: {cause}"[:2000]}))
        except Exception:  # Nobody is left to tell.
            pass

    def _explain(self, position: str, cause: BaseException) -> SluiceError:
        """Every rank that fails says where it was; who says nothing within a while is missing."""
        text = f"{position}, rank {self.rank} of {self.size}: {cause}"
        try:
            grace = min(15.0, 2 * self.timeout + 1)
            missing = self._wait_for(lambda rank: f"failed/{rank}", grace)
            self._store.get(f"failed/{self.rank}")  # Or the store is gone, not everybody.
            others = {rank: json.loads(self._store.get(f"failed/{rank}").decode())
                      for rank in range(self.size) if rank not in missing and rank != self.rank}
        except Exception as error:  # The host of the store is gone: that is rank 0 or the launcher.
            return SluiceError(f"{text}; the store on rank 0 does not answer either ({error})")
        if missing:
            text += f"; missing: {_list(missing)} (no answer and no word)"
        for rank, other in others.items():
            if other["cause"]:
                text += f"; rank {rank} failed at {other['position']}: {other['cause']}"
            elif other["position"] != position:
                text += f"; rank {rank} was at {other['position']}"
        return SluiceError(text)
