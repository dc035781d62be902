"""States of versions 1 and 2, which had what a memory holds as tensors by name.

Version 2 had a codec per tensor and all memories of feedback. Version 1 had one codec, and the
residual alone.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, Iterable

import torch

from sluice.torch import _native

if TYPE_CHECKING:
    from sluice.torch._state import State

EXACT = "f32"  # what keeps no memory
KEYS = {1: ("version", "rank", "world", "step", "codec", "feedback", "model", "residuals",
            "states"),
        2: ("version", "rank", "world", "step", "feedback", "codecs", "models", "residuals",
            "memories", "states")}
KINDS = dict.fromkeys(("codecs", "models", "residuals", "memories", "states"), dict)


def upgraded(state: "State", one: dict[str, Any], grows: bool) -> dict[str, Any]:
    """A former version's state as one of today: a memory is made as that rank had it, with the
    tensors that are known, and saved. `grows`: more tensors may become known."""
    if one["version"] not in KEYS:
        return one
    known = dict(zip(state.tensors.names, state.tensors.infos()))
    if one["version"] == 1:
        codecs = {name: one["codec"] if name in state.tensors.compressed else EXACT
                  for name in state.tensors.dense}
        one = {**one, "codecs": codecs, "models": {one["codec"]: one["model"]}, "memories": {}}
    memory = _native.Memory(one["rank"], one["world"], 0, str(one["feedback"]))
    parts = {"codecs": one["codecs"], "residuals": one["residuals"], "states": one["states"],
             **{f"memories {name}": part for name, part in one["memories"].items()}}
    if not grows:
        check_names("codecs", set(state.tensors.dense) - set(one["codecs"]))
        for part, given in parts.items():
            check_names(part, set(given) - set(known))

    def fill(values: ctypes.Array, part: str, name: str, kind: torch.dtype, what: str) -> None:
        if name in parts.get(part, ()):
            _copy(fitted(parts[part][name], kind, f"the {what} of {name}"), values,
                  f"the {what} of {name}")
        elif not grows:
            check_names(part, {name})

    for index, (name, info) in enumerate(known.items()):
        spec = str(one["codecs"].get(name, EXACT))
        _add(memory, index, info, spec, name in state.tensors.sparse, name in one["residuals"])
        for number, (which, values) in enumerate(memory.kept(index).items()):
            part = "residuals" if number == 0 else f"memories {which}"
            fill(values, part, name, torch.float32, which)
        if len(memory.state(index)):
            fill(memory.state(index), "states", name, torch.uint8, "state")
        if spec in one["models"] and memory.resumes(index, spec):
            what = f"the model's state of {spec}"
            _copy(fitted(one["models"][spec], torch.uint8, what),
                  memory.model(memory.spec(index)), what)
    return {"version": 3, "rank": one["rank"], "world": one["world"], "step": one["step"],
            "names": list(known), "memory": torch.frombuffer(memory.save(), dtype=torch.uint8)}


def _add(memory: _native.Memory, index: int, info: _native.TensorInfo, spec: str, rows: bool,
         keeps: bool) -> None:
    """With memories where it had some, under a codec that keeps none or that nobody knows, too."""
    try:
        codec = _native.Codec(EXACT if rows else spec)
    except ValueError:
        codec = _native.Codec(EXACT)
    memory.add(_native.Codec("lossless") if keeps and not rows else codec, [info], rows)
    memory.choose([index], codec)


def _copy(values: torch.Tensor, into: ctypes.Array, what: str) -> None:
    if values.numel() != len(into):
        size = values.element_size()
        raise ValueError(f"{what} has {values.numel() * size} bytes; accepted: {len(into) * size}")
    if len(into):
        ctypes.memmove(into, values.data_ptr(), ctypes.sizeof(into))


def check_names(part: str, strange: Iterable[str]) -> None:
    if strange:
        raise ValueError(f"{part} of the state and of the model differ in"
                         f" {sorted(map(str, strange))[:5]}; accepted: the state of this very"
                         " model")


def fitted(tensor: Any, dtype: torch.dtype, what: str) -> torch.Tensor:
    if not isinstance(tensor, torch.Tensor) or tensor.dtype != dtype:
        kind = tensor.dtype if isinstance(tensor, torch.Tensor) else type(tensor).__name__
        raise ValueError(f"{what} is {kind}; accepted: a tensor of {dtype}")
    return tensor.detach().cpu().contiguous().view(-1)
