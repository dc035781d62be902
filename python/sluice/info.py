"""What is here: versions, library, codecs, environment.

    python -m sluice.info [--json]

Paste its output into reports. Exit 1 if the library cannot be used.
"""

from __future__ import annotations

import argparse
import ctypes.util
import importlib
import json
import os
import platform
import sys
from typing import Any, Optional

from . import _library
from ._catalogue import carriers, codecs

MPI_NAMES = ("mpi", "mpich")


def gather() -> dict[str, Any]:
    """All that the command prints, as plain values; None where something is missing."""
    info: dict[str, Any] = {
        "sluice": None,
        "abi": None,
        "abi_needed": _library.ABI_VERSION,
        "library": str(_library.path()),
        "error": None,
        "kernels": None,
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
    info["codecs"] = codecs()
    info["carriers"] = carriers()
    return info


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
            lines.append(f"{key.replace('_', ' '):<12} {'not found' if value is None else value}")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m sluice.info",
                                     description="Says what is here, for reports.")
    parser.add_argument("--json", action="store_true", help="as JSON")
    info = gather()
    if parser.parse_args().json:
        print(json.dumps(info, indent=2))
    else:
        print(_text(info))
    return 0 if info["error"] is None else 1


if __name__ == "__main__":
    sys.exit(main())
