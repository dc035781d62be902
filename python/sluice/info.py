"""What is here: versions, library, codecs, whether GPUs can be used, environment.

    python -m sluice.info [--json]

Paste its output into reports. Exit 1 if the library cannot be used, 2 if standard output cannot be
written.
"""

from __future__ import annotations

import argparse
import ctypes.util
import errno
import importlib
import json
import os
import platform
import signal
import sys
from typing import Any, Optional

from . import _library
from ._catalogue import carriers, codecs

MPI_NAMES = ("mpi", "mpich")
CUDA_VARIABLE = "SLUICE_CUDA_LIBRARY"


def gather() -> dict[str, Any]:
    """All that the command prints, as plain values; None where something is missing."""
    info: dict[str, Any] = {
        "sluice": None,
        "abi": None,
        "abi_needed": _library.ABI_VERSION,
        "library": str(_library.path()),
        "error": None,
        "kernels": None,
        "gpu_codecs": None,
        "codecs": [],
        "carriers": [],
        "python": platform.python_version(),
        "numpy": _module_version("numpy"),
        "torch": _module_version("torch"),
        "mpi": _mpi(),
        "platform": platform.platform(),
        "machine": platform.machine(),
        "processors": os.cpu_count(),
        "environment": {k: v for k, v in sorted(os.environ.items()) if k.startswith("SLUICE_")},
    }
    try:
        library = _library.load()
    except _library.LibraryError as error:
        info["error"] = str(error)
        return info
    info["sluice"] = _library.version()
    info["abi"] = library.sluice_abi_version()
    info["kernels"] = library.sluice_kernel_level().decode()
    info["gpu_codecs"] = _gpu_codecs()
    info["codecs"] = codecs()
    info["carriers"] = carriers()
    return info


def _gpu_codecs() -> str:
    """Whether codecs can run on a GPU: yes and on what, no and why not, or unknown."""
    why_not = _library.gpu_status()
    if why_not is None:
        return "unknown: this library is too old to say"
    if why_not:
        return f"no: {why_not}"
    refusals = _library.gpu_refusals()
    refused = "; ".join(filter(None, refusals))
    if refused and all(refusals):
        return f"no: {refused}"
    return f"yes ({_gpus()})" + (f", but not on all: {refused}" if refused else "")


def _gpus() -> str:
    """The GPUs that this process sees, and what their driver supports."""
    if os.environ.get(CUDA_VARIABLE) == "emulated":
        return f"emulated on the host: {CUDA_VARIABLE}"
    try:
        driver = ctypes.CDLL("libcuda.so.1")
        version, count = ctypes.c_int(), ctypes.c_int()
        if driver.cuInit(0) or driver.cuDriverGetVersion(ctypes.byref(version)) or \
                driver.cuDeviceGetCount(ctypes.byref(count)):
            return "the driver does not say on what"
        names = {_gpu_name(driver, i): None for i in range(count.value)}  # each once, in order
    except (OSError, AttributeError) as error:
        return f"the driver does not say on what: {error}"
    devices = "1 device" if count.value == 1 else f"{count.value} devices"
    return (f"{devices}, {', '.join(names)}, driver of CUDA"
            f" {version.value // 1000}.{version.value % 1000 // 10}")


def _gpu_name(driver: ctypes.CDLL, ordinal: int) -> str:
    text = ctypes.create_string_buffer(256)
    failed = driver.cuDeviceGetName(text, len(text), ordinal)
    return f"device {ordinal}" if failed else text.value.decode("utf-8", "replace")


def _module_version(name: str) -> Optional[str]:
    try:
        return str(importlib.import_module(name).__version__)
    except ImportError:
        return None


def _mpi() -> Optional[str]:
    """The file name of an MPI library that the loader would find."""
    return next(filter(None, map(ctypes.util.find_library, MPI_NAMES)), None)


def _text(info: dict[str, Any]) -> str:
    lines = []
    for key, value in info.items():
        if key == "environment":
            value = " ".join(f"{k}={v}" for k, v in value.items()) or "no SLUICE_* is set"
        elif isinstance(value, list):
            value = ", ".join(value) or None
        if key != "error" or value:
            name = key.replace("_", " ").replace("gpu", "GPU")
            lines.append(f"{name:<12} {'not found' if value is None else value}")
    return "\n".join(lines)


def _say(text: str) -> int:
    """Prints it; the exit status that this alone asks for."""
    try:
        if sys.stdout is None:  # it was closed when the process started
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        print(text, flush=True)
        return 0
    except OSError as error:
        # Whatever is still to be written would fail again while the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if isinstance(error, BrokenPipeError):
            return 128 + signal.SIGPIPE  # whoever read it has seen enough
        print(f"sluice.info: standard output: cannot be written: {error.strerror}",
              file=sys.stderr)
        return 2


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m sluice.info",
                                     description="Says what is here, for reports.")
    parser.add_argument("--json", action="store_true", help="as JSON")
    info = gather()
    as_json = parser.parse_args().json
    said = _say(json.dumps(info, indent=2) if as_json else _text(info))
    return said if said != 0 or info["error"] is None else 1


if __name__ == "__main__":
    sys.exit(main())
