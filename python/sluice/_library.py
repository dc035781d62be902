"""Finds, loads and checks libsluice.so."""

from __future__ import annotations

import ctypes
import os
import pathlib
import sys
import threading
from typing import Optional

ABI_VERSION = 7  # SLUICE_ABI_VERSION of the sluice.h that this package is written for.
VARIABLE = "SLUICE_LIBRARY"
OK = 0
INVALID_ARGUMENT = 1
MALFORMED = 3
MISMATCH = 4
UNAVAILABLE = 6
OUT_OF_MEMORY = 7
GPUS_MAX = 64  # of a process

_lock = threading.Lock()
_loaded: Optional[ctypes.CDLL] = None


class LibraryError(ImportError):
    """libsluice.so is missing, cannot be loaded or is of another version."""


def path() -> pathlib.Path:
    """Where libsluice.so is looked for: SLUICE_LIBRARY, else in the package."""
    chosen = os.environ.get(VARIABLE)
    if chosen:
        return pathlib.Path(chosen)
    # An editable install has two folders: the tree's, and one for what was built.
    folders = [pathlib.Path(__file__).parent, *map(pathlib.Path, sys.modules[__package__].__path__)]
    files = [folder / "libsluice.so" for folder in folders]
    return next((file for file in files if file.is_file()), files[0])


def load() -> ctypes.CDLL:
    """The library, loaded and checked at the first call.

    Raises
    ------
    LibraryError
        It is missing, cannot be loaded, or its ABI version is not this package's.
    """
    global _loaded
    with _lock:
        if _loaded is None:
            _loaded = _open(path())
        return _loaded


def version() -> str:
    """The library's version."""
    return str(load().sluice_version().decode())


def gpu_status() -> Optional[str]:
    """"" if codecs can run on a GPU here, or why not; None if the library is too old to know."""
    library = load()
    if not hasattr(library, "sluice_gpu_status"):
        return None
    library.sluice_gpu_status.argtypes = []
    library.sluice_gpu_status.restype = ctypes.c_char_p
    return str(library.sluice_gpu_status().decode("utf-8", "replace"))


def gpu_refusals() -> list[str]:
    """Of each GPU why codecs cannot run on it, or "". Opens them, which loads kernels."""
    library, found = load(), []
    library.sluice_device_open.argtypes = [ctypes.c_uint32, ctypes.POINTER(ctypes.c_void_p)]
    library.sluice_device_open.restype = ctypes.c_int
    library.sluice_device_free.argtypes = [ctypes.c_void_p]
    library.sluice_device_free.restype = None
    for number in range(GPUS_MAX):
        device = ctypes.c_void_p()
        code = library.sluice_device_open(number, ctypes.byref(device))
        if code == INVALID_ARGUMENT:  # There are no more.
            break
        found.append("" if code == OK else last_error())
        if code == OK:
            library.sluice_device_free(device)
    return found


def last_error() -> str:
    """The text of the calling thread's last error."""
    return str(load().sluice_last_error().decode("utf-8", "replace"))


def check(code: int) -> None:
    """Raises with the library's message unless the code is SLUICE_OK: ValueError for the caller's
    mistake, MemoryError, or RuntimeError."""
    if code == INVALID_ARGUMENT:
        raise ValueError(last_error())
    if code == OUT_OF_MEMORY:
        raise MemoryError(last_error())
    if code != OK:
        raise RuntimeError(last_error() or f"sluice failed with code {code}")


def _open(file: pathlib.Path) -> ctypes.CDLL:
    hint = (f"{VARIABLE} names it" if os.environ.get(VARIABLE) else
            f"install the package, or set {VARIABLE} to the libsluice.so of a build")
    if not file.is_file():
        raise LibraryError(f"sluice: there is no library {file} ({hint})", path=str(file))
    try:
        library = ctypes.CDLL(str(file.resolve()))
    except OSError as error:
        raise LibraryError(f"sluice: cannot load {file} ({hint}): {error}",
                           path=str(file)) from error
    try:
        _check_version(library, file, hint)
        _declare(library)
    except AttributeError as error:
        raise LibraryError(f"sluice: {file} is no libsluice.so of ABI version {ABI_VERSION}"
                           f" ({hint}): {error}", path=str(file)) from error
    if library.sluice_check_environment() != OK:
        raise ValueError(library.sluice_last_error().decode("utf-8", "replace"))
    return library


def _check_version(library: ctypes.CDLL, file: pathlib.Path, hint: str) -> None:
    library.sluice_abi_version.argtypes = []
    library.sluice_abi_version.restype = ctypes.c_uint32
    library.sluice_version.argtypes = []
    library.sluice_version.restype = ctypes.c_char_p
    found = library.sluice_abi_version()
    if found != ABI_VERSION:
        raise LibraryError(
            f"sluice: {file} is sluice {library.sluice_version().decode()} with ABI version"
            f" {found}, this package needs ABI version {ABI_VERSION} ({hint})", path=str(file))


def _declare(library: ctypes.CDLL) -> None:
    for name in ("sluice_last_error", "sluice_kernel_level"):
        getattr(library, name).argtypes = []
        getattr(library, name).restype = ctypes.c_char_p
    for kind in ("codec", "carrier"):
        count = getattr(library, f"sluice_{kind}_count")
        count.argtypes = []
        count.restype = ctypes.c_size_t
    for name in ("sluice_codec_name", "sluice_codec_summary", "sluice_carrier_name"):
        getattr(library, name).argtypes = [ctypes.c_size_t]
        getattr(library, name).restype = ctypes.c_char_p
    library.sluice_codec_options.argtypes = [ctypes.c_size_t, ctypes.POINTER(ctypes.c_size_t)]
    library.sluice_codec_options.restype = ctypes.c_void_p
    # Addresses travel as integers: an array of them is quicker to fill than one of float pointers.
    library.sluice_reduce_local.argtypes = [
        ctypes.c_char_p, ctypes.c_uint32, ctypes.c_uint64, ctypes.POINTER(ctypes.c_void_p),
        ctypes.c_uint64, ctypes.c_uint64, ctypes.c_void_p]
    library.sluice_reduce_local.restype = ctypes.c_int
