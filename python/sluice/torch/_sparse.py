"""Sparse gradients, such as those of embeddings: ranks agree on the rows that any of them has, and
these rows travel, packed. Nothing here is as large as the table.

Row r is looked after by rank r modulo the number of ranks: all who have it tell that rank, which
tells everybody. So what a rank sends does not grow with the number of ranks as an all-gather's
would, and rows that are often used, which tables tend to begin with, are spread over the ranks.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from sluice.torch import _native
from sluice.torch._errors import SluiceError
from sluice.torch._work import HALVES, BucketWork, Tensor

if TYPE_CHECKING:
    from sluice.torch._tracks import Track
    from sluice.torch._steps import Steps

# Indexes made here are right; torch 2 warns where nobody says whether to look.
UNCHECKED = {"check_invariants": False} \
    if hasattr(torch.sparse, "check_sparse_tensor_invariants") else {}
BITS = torch.tensor([1 << bit for bit in range(8)], dtype=torch.uint8)


# --- sets of rows ---


def _listed_as(count: int) -> torch.dtype:
    return torch.int32 if count <= 2**31 else torch.int64


def write_rows(rows: Tensor, count: int) -> Tensor:
    """Rows below `count`, ascending, as bytes: a list, or a bit for each that could be there if
    that is not longer."""
    listed = rows.to(_listed_as(count)).view(torch.uint8)
    size = -(-count // 8)
    if listed.numel() < size:
        return listed
    marks = torch.zeros(8 * size, dtype=torch.uint8)
    marks[rows] = 1
    return (marks.view(size, 8) * BITS).sum(1, dtype=torch.uint8)


def read_rows(data: Tensor, count: int) -> Tensor:
    """What write_rows() was given; ValueError if it cannot have been."""
    kind, size = _listed_as(count), -(-count // 8)
    if data.numel() == size:
        rows = data.view(size, 1).bitwise_and(BITS).view(-1).nonzero().view(-1)
    elif data.numel() > size or 8 * data.numel() % torch.iinfo(kind).bits:
        raise ValueError(f"{data.numel()} bytes; accepted: {size} at most, in whole rows")
    else:
        rows = data.clone().view(kind).long()  # A clone is aligned.
    if rows.numel() and not 0 <= int(rows.min()) <= int(rows.max()) < count:
        raise ValueError(f"rows {int(rows.min())} to {int(rows.max())}; accepted: below {count}")
    return rows


def union_of_rows(rows: Tensor, total: int, track: Track, where: str) -> Tensor:
    """The rows that any rank has, of `total`; ascending, as this rank's."""
    ranks, size = track.ranks, track.ranks.size
    counts = [(total + size - 1 - rank) // size for rank in range(size)]  # looked after by a rank
    keepers, order = torch.sort(rows % size, stable=True)
    parts = (rows[order] // size).split(torch.bincount(keepers, minlength=size).tolist())

    def read(rank: int, data: Tensor, count: int) -> Tensor:
        try:
            return read_rows(data, count)
        except ValueError as error:
            raise SluiceError(f"{where}: from rank {rank} came {error}") from None

    told = track.collectives.swap([write_rows(*one) for one in zip(parts, counts)])
    mine = counts[ranks.rank]
    kept = torch.unique(torch.cat([read(rank, data, mine) for rank, data in enumerate(told)]))
    told = track.collectives.share(write_rows(kept, mine))
    union = torch.cat([read(rank, data, count) * size + rank
                       for rank, (data, count) in enumerate(zip(told, counts))])
    return union.sort().values


# --- a bucket ---


class SparseWork(BucketWork):
    """A bucket of one sparse gradient, which is how DDP hands those over: a turn.

    Rows are those of the first dimension, even where more dimensions are sparse: ranks that have
    none cannot tell, and neither can DDP where such a rank has ended.
    """

    def __init__(self, steps: "Steps", tensor: int, index: int, gradient: Tensor) -> None:
        super().__init__(index, gradient, gradient, steps.step)
        self._steps, self._tensor = steps, tensor
        self._width = math.prod(self.buffer.shape[1:])
        self.rows = torch.empty(0, dtype=torch.int64)  # the union, once it is known
        self._packed = torch.empty(0)

    @property
    def where(self) -> str:
        return f"step {self.step}, bucket {self.index}, rows"

    def run(self, track: Track, number: int) -> None:
        rows, values = self._host_rows()
        self.rows = union_of_rows(rows, self.buffer.shape[0], track, self.where)
        self._packed = torch.zeros(self.rows.numel(), self._width)
        self._packed[torch.searchsorted(self.rows, rows)] = values
        count, address = self._packed.numel(), self._packed.data_ptr()
        if count:
            entries = (_native.Entry * 1)((self._tensor, count, address, address))
            report = track.run(self._steps.order(self, number), entries)
            self.infinite, self.probes = report.infinite, report.probes

    def counts(self) -> dict[str, int]:
        return {"buckets": 1, "sparse_buckets": 1, "sparse_rows": self.rows.numel(),
                "gradient_bytes": 4 * self._packed.numel()}

    def _host_rows(self) -> tuple[Tensor, Tensor]:
        """The numbers of this rank's rows, ascending, each once, and the rows as float32."""
        self.await_device()
        # Widened before what is there more than once is added up.
        indexes, values = self.buffer._indices(), self.buffer._values().float()
        if self.buffer.sparse_dim() == 1:
            flat = torch.sparse_coo_tensor(indexes, values.reshape(indexes.shape[1], self._width),
                                           (self.buffer.shape[0], self._width), **UNCHECKED)
            flat = flat._coalesced_(True) if self.buffer.is_coalesced() else flat.coalesce()
            return flat._indices()[0].cpu(), flat._values().cpu()
        rows, places = torch.unique(indexes[0], return_inverse=True)
        whole = values.new_zeros(rows.numel(), *self.buffer.shape[1:])
        whole.index_put_((places, *indexes[1:]), values, accumulate=True)
        return rows.cpu(), whole.view(rows.numel(), self._width).cpu()

    def repack(self, memory: _native.Memory) -> bool:
        values, overflowed = self._packed, False
        if self.buffer.dtype in HALVES:
            values = values.to(self.buffer.dtype)
            overflowed = not bool(torch.isfinite(values).all())
        indexes = self.rows.view(1, -1)
        values = values.view(self.rows.numel(), *self.buffer.shape[1:])
        if self.buffer.sparse_dim() > 1:  # DDP's copy does not change their number.
            cells = values.to_sparse(self.buffer.sparse_dim())
            indexes, values = cells._indices().clone(), cells._values()
            indexes[0] = self.rows[indexes[0]]
        means = torch.sparse_coo_tensor(indexes, values, self.buffer.shape, **UNCHECKED)
        self.result = means._coalesced_(True).to(self.buffer.device)
        return overflowed
