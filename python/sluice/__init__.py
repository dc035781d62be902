"""Averages gradients that travel compressed and are summed while compressed.

>>> import numpy, sluice
>>> sluice.reduce([numpy.ones(4, "f4"), 3 * numpy.ones(4, "f4")], codec="f32")
array([2., 2., 2., 2.], dtype=float32)

The work is done by libsluice.so, which is loaded when it is first needed: the one of the package,
or the one that the environment variable SLUICE_LIBRARY names. `python -m sluice.info` says what is
here.
"""

from __future__ import annotations

from ._catalogue import CodecInfo, OptionInfo, carriers, codecs
from ._library import LibraryError
from ._reduce import reduce

__all__ = ["CodecInfo", "LibraryError", "OptionInfo", "__version__", "carriers", "codecs",
           "reduce"]

__version__: str


def __getattr__(name: str) -> str:
    # The library knows its version; asking it only when somebody asks lets `import sluice` and
    # sluice.info work without one.
    if name == "__version__":
        from ._library import version

        return version()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
