"""Which parameters are compressed, and names that survive bucket rebuilds and restarts."""

from __future__ import annotations

import collections
import fnmatch
import hashlib
import itertools
from typing import Iterable, Sequence

import torch

from sluice.torch import _native
from sluice.torch._choices import Choices
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
    """The parameters of a model as tensors of the memory, each with its codec."""

    def __init__(self, memory: _native.Memory, settings: Settings, choices: Choices,
                 sparse_codec: _native.Codec, on_device: bool) -> None:
        self._memory, self._settings, self._choices = memory, settings, choices
        self._sparse_codec, self._exact = sparse_codec, _native.Codec("f32")
        # Tensors that had it once keep feedback's memories.
        self._keeper = _native.Codec("tide" if on_device else "lossless")
        self._indexes: dict[int, int] = {}  # id() of a parameter -> tensor
        self._kept: dict[int, tuple[str, torch.Tensor]] = {}  # by id(), which this keeps valid
        self._codecs: dict[str, _native.Codec] = {}  # of what is compressed, by name
        self._is_exact = False  # whether all travels exactly for now
        self.names: list[str] = []  # of the memory's tensors
        self.sparse: set[str] = set()  # names of parameters with sparse gradients
        self.unmatched = set(settings.exclude)

    @property
    def compressed(self) -> dict[str, int]:
        """Names and numbers of the tensors that a user chooses codecs for."""
        return {name: index for index, name in enumerate(self.names) if name in self._codecs}

    @property
    def dense(self) -> dict[str, int]:
        """Names and numbers of all tensors but the sparse ones."""
        return {name: index for index, name in enumerate(self.names) if name not in self.sparse}

    def infos(self) -> list[_native.TensorInfo]:
        """Of the memory's tensors, in order."""
        return [_info(name, parameter, name in self.sparse)
                for name, parameter in self._kept.values()]

    def specs(self) -> dict[str, int]:
        """How many tensors have each codec in the coming step."""
        return dict(collections.Counter(map(self._memory.spec, range(len(self.names)))))

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
        """The memory's codecs may refuse them."""
        self.sparse.update(sparse)
        named = [(plain_name(name), parameter) for name, parameter in named]
        names = self.names + [name for name, _ in named]
        if len(set(names)) != len(names):
            twice = sorted({name for name in names if names.count(name) > 1})
            raise ValueError(f"parameter names are not unique: {', '.join(twice)}")
        exact = {name for name, parameter in named if self._stays_exact(name, parameter)}
        chosen = self._choices.of(name for name, _ in named
                                  if name not in exact and name not in self.sparse)

        def codec(item: tuple[str, torch.Tensor]) -> _native.Codec:
            if item[0] in self.sparse:
                return self._sparse_codec
            return chosen.get(item[0], self._exact)

        for (rows, _), items in itertools.groupby(
                named, lambda item: (item[0] in self.sparse, id(codec(item)))):
            group = list(items)
            self._memory.add(codec(group[0]), [_info(*item, rows) for item in group],
                             rows)
            for name, parameter in group:
                self._kept[id(parameter)] = name, parameter
                self._indexes[id(parameter)] = len(self.names)
                self.names.append(name)
        self._codecs.update(chosen)
        # Where gradients are of half precision, f32 has something to keep, too.
        keepers = [name for name, codec in chosen.items() if codec.spec == self._exact.spec]
        if self._settings.feedback != "none":
            self.remember(keepers)
        if self._is_exact:
            self._apply(chosen)

    def _stays_exact(self, name: str, parameter: torch.Tensor) -> bool:
        matched = [p for p in self._settings.exclude if name == p or fnmatch.fnmatchcase(name, p)]
        self.unmatched.difference_update(matched)
        small = parameter.dim() < 2 or float_count(parameter) < self._settings.min_size
        return bool(matched) or small or parameter.numel() == 0

    def begin_step(self, step: int) -> bool:
        """Between steps: those before start_step are exact. Whether codecs have changed."""
        is_exact = step < self._settings.start_step
        if is_exact == self._is_exact:
            return False
        self._is_exact = is_exact
        self._apply(self.compressed)
        return True

    def choose(self, names: Iterable[str], codec: _native.Codec) -> None:
        """Between steps; the codec may refuse them, and then nothing has changed."""
        names = list(names)
        self._memory.choose([self.compressed[name] for name in names], codec)
        self._codecs.update(dict.fromkeys(names, codec))
        if self._is_exact:
            self._apply(names)

    def remember(self, names: Iterable[str]) -> None:
        """Feedback keeps memories of them, although their codec may be exact."""
        names = list(names)
        if names:
            self._memory.choose([self.names.index(name) for name in names], self._keeper)
            self._apply(names)

    def _apply(self, names: Iterable[str]) -> None:
        by_codec: dict[_native.Codec, list[int]] = {}
        for name in names:
            codec = self._exact if self._is_exact else self._codecs.get(name, self._exact)
            by_codec.setdefault(codec, []).append(self.names.index(name))
        for codec, indexes in by_codec.items():
            self._memory.choose(indexes, codec)

    def cut(self, buffer: torch.Tensor, parameters: Sequence[torch.Tensor],
            where: str) -> list[tuple[int, int, int]]:
        """(tensor, offset, elements) of every parameter of a bucket, end to end.

        Together they are the buffer, or nothing is cut: what no slice has would keep this rank's
        values, and what comes after it would be taken for another parameter.
        """
        slices, at = [], 0
        for parameter in parameters:
            count = float_count(parameter)
            slices.append((self._indexes[id(parameter)], at, count))
            at += count
        self.check_covered(buffer, parameters, at, where)
        return [one for one in slices if one[2]]

    def check_covered(self, buffer: torch.Tensor, parameters: Sequence[torch.Tensor], count: int,
                      where: str) -> None:
        if count != buffer.numel() or not buffer.is_contiguous():
            held = ", ".join(f"{self._kept[id(p)][0]} {tuple(p.shape)} of {p.dtype}"
                             for p in parameters)
            raise SluiceError(f"{where}: a buffer of {tuple(buffer.shape)} {buffer.dtype} for"
                              f" parameters of {count} numbers ({held}); accepted: one that has"
                              " them end to end. This torch hands gradients over in a form that"
                              " Sluice does not know; please report it")

    def index(self, parameter: torch.Tensor) -> int:
        return self._indexes[id(parameter)]


def _info(name: str, parameter: torch.Tensor, brings_rows: bool) -> _native.TensorInfo:
    rows = parameter.shape[0] if parameter.dim() > 1 or brings_rows else 1
    return _native.TensorInfo(tensor_id(name), rows, float_count(parameter) // max(1, rows))
