"""The library's catalogue: codecs with their options, and carriers."""

from __future__ import annotations

import ctypes
import dataclasses
from typing import Optional, Union

from . import _library

KINDS = ("integer", "real", "choice")


class _Option(ctypes.Structure):
    """sluice_codec_option of sluice.h."""

    _fields_ = [("key", ctypes.c_char_p), ("help", ctypes.c_char_p), ("text", ctypes.c_char_p),
                ("kind", ctypes.c_uint32), ("multiple_of", ctypes.c_uint32),
                ("preset", ctypes.c_double), ("minimum", ctypes.c_double),
                ("maximum", ctypes.c_double), ("choices", ctypes.POINTER(ctypes.c_char_p)),
                ("choice_count", ctypes.c_size_t)]


@dataclasses.dataclass(frozen=True)
class OptionInfo:
    """An option of a codec, as in a SPEC ``codec:key=value``; str() is one line about it."""

    key: str
    kind: str  # "integer", "real" or "choice"
    default: Union[int, float, str]
    minimum: Optional[float]  # None of a choice
    maximum: Optional[float]
    multiple_of: Optional[int]  # of an integer
    choices: tuple[str, ...]  # of a choice
    help: str
    text: str = dataclasses.field(repr=False)  # key, default and what is accepted

    def __str__(self) -> str:
        return self.text


class CodecInfo(str):
    """A codec: its name, which goes wherever a SPEC does, and what it accepts.

    >>> import sluice
    >>> tide = next(codec for codec in sluice.codecs() if codec == "tide")
    >>> print(tide.options[0])
    bits=4 (1 to 8)
    """

    summary: str
    options: tuple[OptionInfo, ...]

    def __new__(cls, name: str, summary: str, options: tuple[OptionInfo, ...]) -> CodecInfo:
        made = super().__new__(cls, name)
        made.summary = summary
        made.options = options
        return made

    @property
    def name(self) -> str:
        return str(self)

    def __getnewargs__(self) -> tuple[str, str, tuple[OptionInfo, ...]]:
        return str(self), self.summary, self.options  # For copies and pickles.


def codecs() -> list[CodecInfo]:
    """The codecs, for the SPEC of reduce(): names that know what options they accept."""
    library = _library.load()
    return [_codec(library, index) for index in range(library.sluice_codec_count())]


def _codec(library: ctypes.CDLL, index: int) -> CodecInfo:
    count = ctypes.c_size_t()
    options = ctypes.cast(library.sluice_codec_options(index, ctypes.byref(count)),
                          ctypes.POINTER(_Option))
    return CodecInfo(library.sluice_codec_name(index).decode(),
                     library.sluice_codec_summary(index).decode(),
                     tuple(_option(options[i]) for i in range(count.value)))


def _option(raw: _Option) -> OptionInfo:
    kind = KINDS[raw.kind]
    number = int if kind == "integer" else float
    choices = tuple(raw.choices[i].decode() for i in range(raw.choice_count))
    is_choice = kind == "choice"
    return OptionInfo(
        key=raw.key.decode(), kind=kind,
        default=choices[int(raw.preset)] if is_choice else number(raw.preset),
        minimum=None if is_choice else number(raw.minimum),
        maximum=None if is_choice else number(raw.maximum),
        multiple_of=raw.multiple_of if kind == "integer" else None,
        choices=choices, help=raw.help.decode(), text=raw.text.decode())


def carriers() -> list[str]:
    """Names of the carriers that the library was built with."""
    library = _library.load()
    return [library.sluice_carrier_name(i).decode()
            for i in range(library.sluice_carrier_count())]
