"""Saving and loading a hook's state as tensors and plain values, so that weights_only loads it.

Version 2 has a codec per tensor and all memories of feedback. Version 1 had one codec, and the
residual alone.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import torch

from sluice.torch import _native

if TYPE_CHECKING:
    from sluice.torch._state import State

VERSION = 2
EXACT = "f32"  # what keeps no memory
KEYS = {1: ("version", "rank", "world", "step", "codec", "feedback", "model", "residuals",
            "states"),
        2: ("version", "rank", "world", "step", "feedback", "codecs", "models", "residuals",
            "memories", "states")}
FRESH = {"version": VERSION, "rank": -1, "world": 0}  # and a step: saved before the first bucket

Saved = dict  # what state_dict() gives, of version 2


def _copy_out(address: int, size: int) -> torch.Tensor:
    tensor = torch.empty(size, dtype=torch.uint8)
    ctypes.memmove(tensor.data_ptr(), address, size)
    return tensor


def save(state: "State") -> Saved:
    if not state._started:
        return {**FRESH, "step": state.step}
    memory, tensors = state.memory, state.tensors.dense  # Nothing is kept of sparse ones.
    kept: dict[str, dict[str, torch.Tensor]] = {name: {} for name in memory.kept_names()}
    states = {}
    for name, index in tensors.items():
        for which, (address, count) in memory.kept(index).items():
            kept[which][name] = _copy_out(address, 4 * count).view(torch.float32)
        address, size = memory.state(index)
        if size:
            states[name] = _copy_out(address, size)
    codecs = {name: memory.spec(index) for name, index in tensors.items()}
    residual, *others = kept or [""]
    return {"version": VERSION, "rank": state.ranks.rank, "world": state.ranks.size,
            "step": state.step, "feedback": state.settings.feedback, "codecs": codecs,
            "models": {spec: _copy_out(*memory.model(spec)) for spec in codecs.values()},
            "residuals": kept.get(residual, {}), "memories": {name: kept[name] for name in others},
            "states": states}


# --- loading ---


def load(state: "State", saved: Any) -> None:
    """Everything is checked before anything changes, but for codec state where the step says that
    the other codecs of start_step are to be used."""
    everybody = check_form(saved)
    step = everybody[0]["step"]
    if everybody[0]["world"] != 0:
        everybody = [_upgraded(state, one) for one in everybody]
        mine, is_whole = _pick(state, everybody)
        for one in everybody:
            _check_alike(state, one, everybody[0])
        state.tensors.begin_step(step)  # so that codec states are those of that step
        try:
            if state.tensors.names:  # Else the hook learns of them with the first buckets.
                for one in everybody:
                    _check_names(state, one)
            _Loading(state, everybody[0], mine, is_whole, first=0).finish()
        except BaseException:
            state.tensors.begin_step(state.step)
            raise
    state.steps.step = step


def restore_tensors(state: "State", saved: Any, first: int) -> None:
    """The memory of tensors from `first` on, for a hook that learns of them bucket by bucket."""
    everybody = check_form(saved)
    if everybody[0]["world"] != 0:
        everybody = [_upgraded(state, one) for one in everybody]
        mine, is_whole = _pick(state, everybody)
        _Loading(state, everybody[0], mine, is_whole, first, is_growing=True).finish()


def check_form(saved: Any) -> list[Saved]:
    """The states, as a list of at least one, each with all that a state has."""
    everybody = list(saved) if isinstance(saved, (list, tuple)) else [saved]
    for one in everybody or [None]:
        if not isinstance(one, dict):
            raise ValueError(f"a state of {type(one).__name__}; accepted: what state_dict() gives,"
                             " or a list of that of all ranks")
        if one.get("version") not in KEYS:
            raise ValueError(f"state of version {one.get('version')!r}; accepted: version"
                             f" {' or '.join(map(str, KEYS))}, as state_dict() gives")
        keys = FRESH if one.get("world") == 0 else KEYS[one["version"]]
        lacking = [key for key in keys if key not in one]
        lacking += [key for key in ("codecs", "models", "residuals", "memories", "states")
                    if key in keys and not isinstance(one.get(key), dict)]
        if lacking:
            raise ValueError(f"state without {', '.join(lacking)}; accepted: what state_dict()"
                             " gives")
        step = one.get("step")
        if isinstance(step, bool) or not isinstance(step, int) or step < 0:
            raise ValueError(f"state of step {step!r}; accepted: a whole number from 0 on")
    return everybody


def _upgraded(state: "State", one: Saved) -> Saved:
    """A state of version 1 as one of version 2, as far as tensors are known."""
    if one["version"] == VERSION:
        return one
    codecs = {name: one["codec"] if name in state.tensors.compressed else EXACT
              for name in state.tensors.dense}
    return {**one, "codecs": codecs, "models": {one["codec"]: one["model"]}, "memories": {}}


def _pick(state: "State", everybody: list[Saved]) -> tuple[list[Saved], bool]:
    """The states this rank takes over: its own, or of another world every size-th."""
    rank, size = state.ranks.rank, state.ranks.size
    world = everybody[0]["world"]
    by_rank = {one["rank"]: one for one in everybody}
    if world == size:
        if rank not in by_rank:
            raise ValueError(f"state of rank {', '.join(map(str, by_rank))}; accepted: that of rank"
                             f" {rank}, or those of all ranks")
        return [by_rank[rank]], True
    if sorted(by_rank) != list(range(world)):
        raise ValueError(f"states of ranks {sorted(by_rank)} of {world}; this job has {size} ranks;"
                         f" accepted: the states of all {world}, as a list")
    return [by_rank[old] for old in range(rank, world, size)], False


def _check_alike(state: "State", one: Saved, first: Saved) -> None:
    for name, have in (("step", first["step"]), ("world", first["world"]),
                       ("codecs", first["codecs"])):
        if one[name] != have:
            raise ValueError(f"state of {name} {one[name]!r}; accepted: {have!r}")
    have = state.settings.feedback
    if str(one["feedback"]).partition(":")[0] != have.partition(":")[0]:  # Options may differ.
        raise ValueError(f"state of feedback {one['feedback']!r}; accepted: {have!r}")


def _check_names(state: "State", one: Saved) -> None:
    memory, known = state.memory, state.tensors.dense
    needed = {name for name, spec in one["codecs"].items() if spec != EXACT} \
        if state.settings.feedback != "none" else set()
    stateful = {name for name, index in known.items() if memory.state(index)[1]
                and memory.resumes(index, str(one["codecs"].get(name)))}
    memories = {f"memories {name}": part for name, part in one["memories"].items()}
    for part, given, wanted in (("codecs", one["codecs"], known.keys()),
                                ("residuals", one["residuals"], needed),
                                ("states", one["states"], stateful),
                                *((name, given, needed) for name, given in memories.items())):
        strange = set(wanted) - set(given) | set(given) - set(known) - state.tensors.sparse
        if strange:
            raise ValueError(f"{part} of the state and of the model differ in"
                             f" {sorted(strange)[:5]}; accepted: the state of this very model")


class _Loading:
    """Values that fit, and then where they go: choosing codecs may move memory.

    Which tensors get memory is decided by what the first state has, alike on all ranks, and never
    by values: a rank of a larger world has none of its own.
    """

    def __init__(self, state: "State", anyones: Saved, mine: list[Saved], is_whole: bool,
                 first: int, is_growing: bool = False) -> None:
        self._memory, self._tensors = state.memory, state.tensors
        self._codecs = anyones["codecs"]
        self._saved_names = set(anyones["residuals"]).union(*anyones["memories"].values())
        self._kept: list[tuple[int, str, torch.Tensor]] = []
        self._states: list[tuple[int, torch.Tensor]] = []
        self._models: list[tuple[str, torch.Tensor]] = []
        self._lost: list[str] = []  # Their codec state is another codec's.
        self._lacking: list[str] = []  # of memory
        names = {name: index for name, index in state.tensors.dense.items() if index >= first}
        for name, index in names.items():
            self._fit_kept(name, index, mine)
            if is_whole:
                self._fit_state(name, index, mine[0])
        if is_whole:
            self._fit_models(mine[0], is_growing)

    def _fit_kept(self, name: str, index: int, mine: list[Saved]) -> None:
        count = self._tensors.count(index)
        for number, which in enumerate(self._memory.kept_names()):
            total = torch.zeros(count)
            for one in mine:
                part = one["residuals"] if number == 0 else one["memories"].get(which, {})
                if name in part:
                    total += _fit(part[name], 4 * count, torch.float32, f"the {which} of {name}")
            if which in self._memory.kept(index):
                self._kept.append((index, which, total))
            elif name in self._saved_names:
                self._lacking += [name] if name not in self._lacking else []
                self._kept.append((index, which, total))

    def _fit_state(self, name: str, index: int, one: Saved) -> None:
        size = self._memory.state(index)[1]
        if size and self._memory.resumes(index, str(self._codecs.get(name))):
            if name in one["states"]:
                flat = _fit(one["states"][name], size, torch.uint8, f"the state of {name}")
                self._states.append((index, flat))
        elif size:
            self._lost.append(name)

    def _fit_models(self, one: Saved, is_growing: bool) -> None:
        """Of codecs that have the same tensors as they had."""
        by_spec: dict[str, dict[str, int]] = {}
        for name, index in self._tensors.dense.items():
            by_spec.setdefault(self._memory.spec(index), {})[name] = index
        for spec, tensors in by_spec.items():
            before = {str(self._codecs.get(name)) for name in tensors}
            was = before.pop()
            had = {name for name, one in self._codecs.items() if one == was}
            if before or was not in one["models"] or not (is_growing or had == set(tensors)) or \
                    not self._memory.resumes(next(iter(tensors.values())), was):
                continue
            size = self._memory.model(spec)[1]
            self._models.append((spec, _fit(one["models"][was], size, torch.uint8,
                                            f"the model's state of {spec}")))

    def finish(self) -> None:
        self._tensors.remember(self._lacking)
        self._tensors.renew(self._lost)
        for index, which, values in self._kept:
            _copy_in(values, self._memory.kept(index)[which][0])
        for index, values in self._states:
            _copy_in(values, self._memory.state(index)[0])
        for spec, values in self._models:
            _copy_in(values, self._memory.model(spec)[0])


def _fit(tensor: Any, size: int, dtype: torch.dtype, what: str) -> torch.Tensor:
    if not isinstance(tensor, torch.Tensor) or tensor.dtype != dtype:
        kind = tensor.dtype if isinstance(tensor, torch.Tensor) else type(tensor).__name__
        raise ValueError(f"{what} is {kind}; accepted: a tensor of {dtype}")
    flat = tensor.detach().cpu().contiguous().view(-1)
    if flat.numel() * flat.element_size() != size:
        raise ValueError(f"{what} has {flat.numel() * flat.element_size()} bytes; accepted:"
                         f" {size}")
    return flat


def _copy_in(values: torch.Tensor, address: int) -> None:
    ctypes.memmove(address, values.data_ptr(), values.numel() * values.element_size())
