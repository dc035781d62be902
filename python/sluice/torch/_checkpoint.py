"""Saving and loading a hook's state as tensors and plain values, so that weights_only loads it."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, Iterable, Tuple

import torch

if TYPE_CHECKING:
    from sluice.torch._state import State

VERSION = 1
KEYS = ("version", "rank", "world", "step", "codec", "feedback", "model", "residuals", "states")
FRESH = {"version": VERSION, "rank": -1, "world": 0}  # and a step: saved before the first bucket

Copy = Tuple[torch.Tensor, int, int]  # from, to address, bytes


def _copy_out(address: int, size: int) -> torch.Tensor:
    tensor = torch.empty(size, dtype=torch.uint8)
    ctypes.memmove(tensor.data_ptr(), address, size)
    return tensor


def save(state: "State") -> dict[str, Any]:
    if not state._started:
        return {**FRESH, "step": state.step}
    memory, names = state.memory, state.tensors.names
    residuals, states = {}, {}
    for index, name in enumerate(names):
        address, count = memory.residual(index)
        if count:
            residuals[name] = _copy_out(address, 4 * count).view(torch.float32)
        address, size = memory.state(index)
        if size:
            states[name] = _copy_out(address, size)
    return {"version": VERSION, "rank": state.ranks.rank, "world": state.ranks.size,
            "step": state.step, "codec": memory.spec, "feedback": state.settings.feedback,
            "model": _copy_out(*memory.model()), "residuals": residuals, "states": states}


def load(state: "State", saved: Any) -> None:
    """Everything is checked before anything changes."""
    everybody = check_form(saved)
    if everybody[0]["world"] == 0:
        state.step = everybody[0]["step"]
        return
    mine, whole = _pick(state, everybody)
    for one in everybody:
        _check(state, one, everybody[0])
    copies = list(_tensor_copies(state, mine, whole, 0))
    if whole:
        copies.append(_fit(mine[0]["model"], state.memory.model(), torch.uint8,
                           "the model's state"))
    _copy_in(copies)
    state.step = everybody[0]["step"]


def restore_tensors(state: "State", saved: Any, first: int) -> None:
    """The memory of tensors from `first` on, for a hook that learns of them bucket by bucket."""
    everybody = check_form(saved)
    if everybody[0]["world"] != 0:
        mine, whole = _pick(state, everybody)
        _copy_in(list(_tensor_copies(state, mine, whole, first)))


def check_form(saved: Any) -> list[dict[str, Any]]:
    """The states, as a list of at least one, each with all that a state has."""
    everybody = list(saved) if isinstance(saved, (list, tuple)) else [saved]
    for one in everybody or [None]:
        if not isinstance(one, dict):
            raise ValueError(f"a state of {type(one).__name__}; accepted: what state_dict() gives,"
                             " or a list of that of all ranks")
        if one.get("version") != VERSION:
            raise ValueError(f"state of version {one.get('version')!r}; accepted: version"
                             f" {VERSION}, as state_dict() gives")
        lacking = [key for key in (FRESH if one.get("world") == 0 else KEYS) if key not in one]
        if lacking:
            raise ValueError(f"state without {', '.join(lacking)}; accepted: what state_dict()"
                             " gives")
        step = one.get("step")
        if isinstance(step, bool) or not isinstance(step, int) or step < 0:
            raise ValueError(f"state of step {step!r}; accepted: a whole number from 0 on")
    return everybody


def _pick(state: "State",
          everybody: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], bool]:
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


def _check(state: "State", one: dict[str, Any], first: dict[str, Any]) -> None:
    for name, have in (("feedback", state.settings.feedback), ("step", first["step"]),
                       ("world", first["world"])):
        if one[name] != have:
            raise ValueError(f"state of {name} {one[name]!r}; accepted: {have!r}")
    state.memory.check_resumes(str(one["codec"]))
    if not state.tensors.names:
        return  # A hook without its model: it learns of its tensors with the first buckets.
    for part, sizes in (("residuals", state.memory.residual), ("states", state.memory.state)):
        wanted = {n for i, n in enumerate(state.tensors.names) if sizes(i)[1]}
        strange = sorted(wanted.symmetric_difference(one[part]) - state.tensors.sparse)
        if strange:
            raise ValueError(f"{part} of the state and of the model differ in {strange[:5]};"
                             " accepted: the state of this very model")


def _tensor_copies(state: "State", mine: list[dict[str, Any]], whole: bool,
                   first: int) -> Iterable[Copy]:
    for index, name in enumerate(state.tensors.names[first:], first):
        where = state.memory.residual(index)
        parts = [one["residuals"][name] for one in mine if name in one["residuals"]]
        if where[1]:
            where = (where[0], 4 * where[1])
            total = torch.zeros(where[1] // 4)
            for part in parts:
                total += _fit(part, where, torch.float32, f"the residual of {name}")[0]
            yield total, *where
        where = state.memory.state(index)
        if where[1] and whole and name in mine[0]["states"]:
            yield _fit(mine[0]["states"][name], where, torch.uint8, f"the state of {name}")


def _fit(tensor: Any, where: tuple[int, int], dtype: torch.dtype, what: str) -> Copy:
    if not isinstance(tensor, torch.Tensor) or tensor.dtype != dtype:
        kind = tensor.dtype if isinstance(tensor, torch.Tensor) else type(tensor).__name__
        raise ValueError(f"{what} is {kind}; accepted: a tensor of {dtype}")
    flat = tensor.detach().cpu().contiguous().view(-1)
    if flat.numel() * flat.element_size() != where[1]:
        raise ValueError(f"{what} has {flat.numel() * flat.element_size()} bytes; accepted:"
                         f" {where[1]}")
    return flat, *where


def _copy_in(copies: list[Copy]) -> None:
    for tensor, address, size in copies:
        ctypes.memmove(address, tensor.data_ptr(), size)
