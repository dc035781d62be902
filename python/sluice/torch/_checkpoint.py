"""Saving and loading a hook's state, so that weights_only loads it.

What a memory holds is the library's bytes, in one tensor; only the library reads them. Beside them
is what it does not know: the step, and the names of its tensors.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import torch

from sluice.torch._former_checkpoints import KEYS as FORMER_KEYS
from sluice.torch._former_checkpoints import KINDS, check_names, fitted, upgraded

if TYPE_CHECKING:
    from sluice.torch._state import State

VERSION = 3
FRESH = {"version": VERSION, "rank": -1, "world": 0}  # and a step: saved before the first bucket
KEYS = {**FORMER_KEYS, VERSION: (*FRESH, "step", "names", "memory")}

Saved = dict  # what state_dict() gives


def save(state: "State") -> Saved:
    if not state._started:
        return {**FRESH, "step": state.step}
    memory = torch.frombuffer(state.memory.save(), dtype=torch.uint8)
    return {"version": VERSION, "rank": state.ranks.rank, "world": state.ranks.size,
            "step": state.step, "names": list(state.tensors.names), "memory": memory}


def load(state: "State", saved: Any) -> None:
    """Everything is checked before anything changes, but for codec state where the step says that
    the other codecs of start_step are to be used."""
    everybody = check_form(saved)
    step, is_known = everybody[0]["step"], bool(state.tensors.names)
    if everybody[0]["world"] != 0:
        everybody = [upgraded(state, one, grows=not is_known) for one in everybody]
        if is_known:  # Else the hook learns of them with the first buckets.
            for one in everybody:
                check_names("names", set(map(str, one["names"])) ^ set(state.tensors.names))
        state.tensors.begin_step(step)  # so that codec states are those of that step
        try:
            _load(state, everybody, first=0, grows=not is_known)
        except BaseException:
            state.tensors.begin_step(state.step)
            raise
    state.steps.step = step


def restore_tensors(state: "State", saved: Any, first: int) -> None:
    """The memory of tensors from `first` on, for a hook that learns of them bucket by bucket."""
    everybody = check_form(saved)
    if everybody[0]["world"] != 0:
        everybody = [upgraded(state, one, grows=True) for one in everybody]
        _load(state, everybody, first, grows=True)


def check_form(saved: Any) -> list[Saved]:
    """The states, as a list of at least one, each with all that a state has, of one step."""
    everybody = list(saved) if isinstance(saved, (list, tuple)) else [saved]
    for one in everybody or [None]:
        if not isinstance(one, dict):
            raise ValueError(f"a state of {type(one).__name__}; accepted: what state_dict() gives,"
                             " or a list of that of all ranks")
        if one.get("version") not in KEYS:
            raise ValueError(f"state of version {one.get('version')!r}; accepted: version"
                             f" {' or '.join(map(str, KEYS))}, as state_dict() gives")
        keys = FRESH if one.get("world") == 0 else KEYS[one["version"]]
        kinds = {**KINDS, "rank": int, "world": int, "names": (list, tuple)}
        lacking = [key for key in keys
                   if key not in one or not isinstance(one[key], kinds.get(key, object))]
        if lacking:
            raise ValueError(f"state without {', '.join(lacking)}; accepted: what state_dict()"
                             " gives")
        step = one.get("step")
        if isinstance(step, bool) or not isinstance(step, int) or step < 0:
            raise ValueError(f"state of step {step!r}; accepted: a whole number from 0 on")
        for key in ("step", "world"):
            if one[key] != everybody[0][key]:
                raise ValueError(f"state of {key} {one[key]!r}; accepted: {everybody[0][key]!r}")
    return everybody


def _load(state: "State", everybody: list[Saved], first: int, grows: bool) -> None:
    memories = [fitted(one["memory"], torch.uint8, "the memory of a state") for one in everybody]
    try:
        state.memory.load([(one.data_ptr(), one.numel()) for one in memories], first, grows)
    except ValueError as error:  # which knows tensors by their numbers
        names = state.tensors.names
        raise ValueError(re.sub(r"^saved state: tensor (\d+)", lambda found: (
            f"{found[0]} ({names[int(found[1])]})"), str(error))) from None
