"""Arrays of any library in and out of contiguous float32 NumPy arrays."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

DTYPES = ("float32", "float64", "float16", "bfloat16")
_DLPACK_HOST = (1, 3, 11)  # kDLCPU, kDLCUDAHost, kDLROCMHost


def dtype_name(array: Any) -> str:
    """The name of an array's dtype whatever its library: torch.float32 is "float32"."""
    name = getattr(array.dtype, "name", None) or str(array.dtype)
    return name.rsplit(".", 1)[-1]


def as_float32(array: Any, name: str) -> tuple[np.ndarray, str]:
    """An array as contiguous float32 in NumPy, and the name of the dtype it had.

    No copy where it is contiguous float32 already. `name` is what messages call it.

    Raises
    ------
    ValueError
        Not in host memory, not an array, or not of one of the accepted dtypes.
    """
    host = _host(array, name)
    kind = dtype_name(host)
    if kind not in DTYPES:
        raise ValueError(f"{name} is of dtype {kind}; accepted: {', '.join(DTYPES)}")
    if _is_torch(host):
        # NumPy has no bfloat16, so torch widens it.
        host = np.from_dlpack(host.float() if kind == "bfloat16" else host)
    shape = host.shape
    # order="C" keeps what is contiguous; reshape because ascontiguousarray has no 0-d arrays.
    return np.asarray(host, dtype=np.float32, order="C").reshape(shape), kind


def like(mean: np.ndarray, first: Any, kind: str) -> Any:
    """The mean as an array of the library that `first` is of, in the dtype named `kind`.

    NumPy for NumPy arrays, sequences, and libraries that have no from_dlpack.
    """
    if _is_torch(first):
        torch = sys.modules["torch"]
        return torch.from_dlpack(mean).to(first.dtype)
    if isinstance(first, np.ndarray):
        return mean.astype(first.dtype.newbyteorder("="), copy=False)
    result = mean.astype(kind, copy=False) if kind != "bfloat16" else mean
    from_dlpack = getattr(_namespace(first), "from_dlpack", None)
    if not hasattr(first, "__dlpack__") or from_dlpack is None:
        return result
    result = from_dlpack(result)
    return result if kind != "bfloat16" else result.astype(first.dtype)


def _host(array: Any, name: str) -> Any:
    """As a NumPy array, or as the torch tensor it is; in host memory."""
    if isinstance(array, np.ndarray):
        return array
    if hasattr(array, "__dlpack_device__"):
        device = array.__dlpack_device__()
        if int(device[0]) not in _DLPACK_HOST:
            raise ValueError(f"{name} is on DLPack device {tuple(map(int, device))};"
                             " accepted: arrays in host memory")
    if _is_torch(array):
        if array.layout is not sys.modules["torch"].strided:
            raise ValueError(f"{name} is of layout {array.layout}; accepted: torch.strided")
        return array.detach()
    if hasattr(array, "__dlpack__"):
        try:
            return np.from_dlpack(array)
        except (BufferError, RuntimeError, TypeError):
            pass  # A dtype that NumPy lacks, or an older protocol: __array__ may know more.
    return np.asarray(array)


def _is_torch(array: Any) -> bool:
    """Without importing torch: who has a tensor has imported it."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(array, getattr(torch, "Tensor", ()))


def _namespace(array: Any) -> Any:
    """The module that has the functions of an array's library."""
    if hasattr(array, "__array_namespace__"):
        return array.__array_namespace__()
    return sys.modules.get(type(array).__module__.split(".", 1)[0])
