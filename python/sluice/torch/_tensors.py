"""Which parameters are compressed, and names that survive bucket rebuilds and restarts."""

from __future__ import annotations

import fnmatch
import hashlib
from typing import Iterable

import torch

from sluice.torch import _native
from sluice.torch._errors import SluiceError
from sluice.torch._settings import Settings


def float_count(parameter: torch.Tensor) -> int:
    """Numbers that travel for a parameter's gradient: a complex element is two."""
    return parameter.numel() * (2 if parameter.is_complex() else 1)


def plain_name(name: str) -> str:
    """The name without what torch.compile puts into it."""
    return ".".join(part for part in name.split(".") if part != "_orig_mod")


def tensor_id(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little")


def sparse_names(model: torch.nn.Module) -> list[str]:
    """Parameters whose gradients are sparse, as DDP tells them: those of embeddings that say so."""
    kinds = (torch.nn.Embedding, torch.nn.EmbeddingBag)
    sparse = {id(parameter) for module in model.modules()
              if isinstance(module, kinds) and module.sparse
              for parameter in module.parameters(recurse=False)}
    return [plain_name(name) for name, parameter in model.named_parameters()
            if id(parameter) in sparse]


class Tensors:
    """The parameters of a model; those that are compressed are tensors of the memory."""

    def __init__(self, memory: _native.Memory, settings: Settings) -> None:
        self._memory = memory
        self._settings = settings
        self._indexes: dict[int, int] = {}  # id() of a parameter -> tensor, or EXACT
        self._kept: dict[int, tuple[str, torch.Tensor]] = {}  # by id(), which this keeps valid
        self.names: list[str] = []  # of the memory's tensors
        self.sparse: set[str] = set()  # names of parameters with sparse gradients
        self.unmatched = set(settings.exclude)

    def knows(self, parameters: Iterable[torch.Tensor]) -> bool:
        return all(id(parameter) in self._indexes for parameter in parameters)

    def add_unnamed(self, parameters: Iterable[torch.Tensor], sparse: bool) -> None:
        """Parameters of a hook without its model, which get numbers for names.

        DDP hands the buckets of the first step over in the same order on every rank and after
        every restart.
        """
        new = [p for p in parameters if id(p) not in self._indexes]
        named = [(f"parameter.{len(self._kept) + i}", p) for i, p in enumerate(new)]
        self.add(named, [name for name, _ in named] if sparse else ())

    def add(self, named: Iterable[tuple[str, torch.Tensor]], sparse: Iterable[str]) -> None:
        infos = []
        self.sparse.update(sparse)
        for name, parameter in list(named):
            name = plain_name(name)
            self._kept[id(parameter)] = name, parameter
            if self._stays_exact(name, parameter):
                self._indexes[id(parameter)] = _native.EXACT
                continue
            rows = parameter.shape[0] if parameter.dim() > 1 else 1
            self._indexes[id(parameter)] = len(self.names)
            self.names.append(name)
            infos.append(_native.TensorInfo(tensor_id(name), rows, float_count(parameter) // rows))
        if len(set(self.names)) != len(self.names):
            twice = sorted({name for name in self.names if self.names.count(name) > 1})
            raise ValueError(f"parameter names are not unique: {', '.join(twice)}")
        self._memory.add(infos)

    def _stays_exact(self, name: str, parameter: torch.Tensor) -> bool:
        matched = [p for p in self._settings.exclude if name == p or fnmatch.fnmatchcase(name, p)]
        self.unmatched.difference_update(matched)
        small = parameter.dim() < 2 or float_count(parameter) < self._settings.min_size
        return bool(matched) or small or parameter.numel() == 0 or name in self.sparse

    def index(self, parameter: torch.Tensor) -> int:
        """The memory's tensor of a parameter, or EXACT."""
        return self._indexes[id(parameter)]

    def cut(self, buffer: torch.Tensor, parameters: Iterable[torch.Tensor],
            where: str) -> list[tuple[int, int, int]]:
        """(tensor or EXACT, offset, elements) of every parameter of a bucket, end to end.

        Together they are the buffer, or nothing is cut: what no slice has would keep this rank's
        values, and what comes after it would be taken for another parameter.
        """
        slices, at = [], 0
        for parameter in parameters:
            count = float_count(parameter)
            slices.append((self.index(parameter), at, count))
            at += count
        if at != buffer.numel() or not buffer.is_contiguous():
            held = ", ".join(f"{self._kept[id(p)][0]} {tuple(p.shape)} of {p.dtype}"
                             for p in parameters)
            raise SluiceError(f"{where}: a buffer of {tuple(buffer.shape)} {buffer.dtype} for"
                              f" parameters of {at} numbers ({held}); accepted: one that has them"
                              " end to end. This torch hands gradients over in a form that Sluice"
                              " does not know; please report it")
        return slices
