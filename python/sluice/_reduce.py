"""The mean of arrays of this process, as that many workers would compute it."""

from __future__ import annotations

import ctypes
import operator
from typing import Any, Iterable

from . import _library


def reduce(arrays: Iterable[Any], codec: str = "tide:bits=4", *, seed: int = 0,
           step: int = 0) -> Any:
    """Average arrays with a codec, one array per worker, without a network.

    Parameters
    ----------
    arrays
        One array per worker, 1 to 4096, all of one shape and dtype: NumPy arrays, torch CPU
        tensors, anything with ``__dlpack__``, ``__array__`` or the buffer protocol, or sequences of
        numbers. A 2-D array is its rows. float32 is taken as it is, without a copy if contiguous;
        float64, float16 and bfloat16 are converted to float32 first, so that float64 loses digits
        and becomes infinite beyond 3.4e38.
    codec
        A SPEC such as ``"f32"`` or ``"tide:bits=2"``; `codecs()` lists names and options.
    seed, step
        0 to 2^64 - 1. They name all randomness: equal arguments give equal bytes, on any machine.

    Returns
    -------
    array
        The mean: shape and dtype of the first array, of its library. NumPy for sequences and for
        libraries that have no ``from_dlpack``. Never the memory of an argument.

    Raises
    ------
    ValueError
        No arrays, shapes or dtypes that differ, a dtype that is not accepted, arrays that are not
        in host memory, an unknown codec or option.
    RuntimeError
        The reduction itself failed.
    MemoryError
        There is not enough memory, which takes as much again as all arrays.
    LibraryError
        libsluice.so is missing or of another version.
    """
    import numpy as np  # The only user of NumPy: sluice.info works without.

    from . import _arrays

    workers = list(arrays)
    if not workers:
        raise ValueError("arrays is empty; accepted: one array per worker, 1 to 4096")
    inputs = []
    for rank, array in enumerate(workers):
        values, kind = _arrays.as_float32(array, f"arrays[{rank}]")
        if rank == 0:
            first_shape, first_kind = values.shape, kind
        if (values.shape, kind) != (first_shape, first_kind):
            raise ValueError(f"arrays[{rank}] is {kind} of shape {values.shape}, arrays[0] is"
                             f" {first_kind} of shape {first_shape}; accepted: all alike")
        inputs.append(values)
    addresses = (ctypes.c_void_p * len(inputs))(*(values.ctypes.data for values in inputs))
    mean = np.empty(first_shape, np.float32)
    _library.check(_library.load().sluice_reduce_local(
        _spec(codec), len(inputs), mean.size, addresses, _whole("seed", seed),
        _whole("step", step), mean.ctypes.data))
    return _arrays.like(mean, workers[0], first_kind)


def _spec(codec: str) -> bytes:
    if not isinstance(codec, str) or "\0" in codec:
        raise ValueError(f"codec is {codec!r}; accepted: a SPEC such as 'f32' or 'tide:bits=4'")
    return codec.encode()


def _whole(name: str, value: int) -> int:
    number = operator.index(value)
    if not 0 <= number < 2**64:
        raise ValueError(f"{name} is {number}; accepted: 0 to 2^64 - 1")
    return number
