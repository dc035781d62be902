"""What a user can set, from arguments or the environment."""

from __future__ import annotations

import dataclasses
import os
import warnings
from typing import Any, Mapping, Sequence, Union

PREFIX = "SLUICE_"
Given = Union[str, Mapping[str, str]]  # a SPEC, or SPECs by pattern
RENAMED = {"parcel": "wave"}  # names that are refused, since their values meant something else
TIMEOUT_MAX = 86400.0  # seconds

# Variables of other parts of Sluice, which are none of ours and not unknown either.
OTHERS = ("SLUICE_LIBRARY", "SLUICE_CUDA_LIBRARY", "SLUICE_EMULATED_CARRIES",
          "SLUICE_FORCE_KERNEL", "SLUICE_AGGREGATOR_THREADS", "SLUICE_JOB", "SLUICE_LAB",
          "SLUICE_LAB_INTERFACE", "SLUICE_LAB_CONTROL")


def _patterns(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _codecs(given: object) -> Given:
    """What a user gave: a SPEC, a mapping, or the text of one, "embed.*=lossless;*=tide:bits=4".
    An option of a SPEC has its "=" behind a colon, which no pattern has."""
    if isinstance(given, Mapping):
        if not given or not all(isinstance(one, str) for pair in given.items() for one in pair):
            raise ValueError(given)
        return dict(given)
    if not isinstance(given, str):
        raise ValueError(given)
    parts = [part.strip() for part in given.split(";")]
    if not any("=" in part.partition(":")[0] for part in parts):
        return given
    rules = {}
    for part in filter(None, parts):
        pattern, is_rule, spec = part.partition("=")
        if not is_rule or ":" in pattern or pattern.strip() in rules:
            raise ValueError(given)
        rules[pattern.strip()] = spec.strip()
    return rules


def _count(value: Any) -> int | None:
    if value in ("", "auto"):
        return None
    if not isinstance(value, str) and int(value) != value:
        raise ValueError(value)
    return int(value)


def _seconds(value: Any) -> float | None:
    return None if value in ("", "auto") else float(value)


def _name(text: str) -> str | None:
    return None if text in ("", "auto") else text


@dataclasses.dataclass(frozen=True)
class Option:
    """A row of the table of options: how it is read, what it may be, what it means."""

    name: str
    kind: Any
    default: Any
    accepted: str
    meaning: str
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[Any, ...] = ()  # none: any
    alike: bool = True  # every rank must have the same
    former: str = ""  # the name it had before, which is still accepted

    @property
    def variable(self) -> str:
        return PREFIX + self.name.upper()


OPTIONS = (
    Option("codec", _codecs, "tide:bits=4", "a codec SPEC, see `sluice codecs`; or by shell"
           " patterns on names, the first match wins: embed.*=lossless;*=tide:bits=4",
           "what compresses the gradients"),
    Option("sparse_codec", str, "lossless", "lossless or f32, with their options",
           "what the rows of sparse gradients travel through"),
    Option("feedback", str, "none", "a feedback SPEC: none, ef or dgc, with its options",
           "what happens to what compression loses: forgotten, or sent with later steps"),
    Option("exclude", _patterns, (), "names or shell patterns, comma separated",
           "parameters that always travel exactly"),
    Option("min_size", int, 4096, "0 to 2^40", "parameters of fewer elements travel exactly; so do"
           " all with fewer than two dimensions", 0, 2**40),
    Option("start_step", int, 0, "0 to 2^40", "steps before this one travel exactly", 0, 2**40),
    Option("seed", int, 0, "0 to 2^63 - 1", "of all randomness", 0, 2**63 - 1),
    Option("tracks", _count, None, "auto, 1 to 16", "what waves are spread over: threads, each with"
           " a process group; over nccl streams of one thread. auto: 2, over nccl 6", 1, 16,
           former="lanes"),
    Option("wave", _count, None, "auto, 4096 to 2^28", "elements that travel together at most"
           " (a chunk at least, 2^16 or on a GPU 2^20); auto: 2^21, of gradients that stay on a GPU"
           " 2^23", 4096, 2**28),
    Option("timeout", _seconds, None, "auto, 0.1 to 86400", "seconds until a rank that does not"
           " answer is called missing; auto: 0.9 of the time-out of DDP's process group", 0.1,
           TIMEOUT_MAX),
    Option("check_every", int, 50, "0 to 2^31", "steps between comparisons of all ranks' results;"
           " 0: never", 0, 2**31),
    Option("probe_every", int, 50, "0 to 2^31", "steps between measurements of the error; 0: never",
           0, 2**31),
    Option("backend", _name, None, "auto, gloo, nccl", "of the process groups that rounds run"
           " on; auto: nccl for gradients that stay on a GPU where DDP's is that, else gloo",
           choices=(None, "gloo", "nccl"), alike=False),
    Option("carrier", _name, None, "auto, torch, stream", "what moves the gradients: the process"
           " groups, or UDP to aggregators; auto: these if they are named",
           choices=(None, "torch", "stream")),
    Option("aggregators", _patterns, (), "host:port or host:port-port, comma separated",
           "of carrier stream; none: every rank starts one. Of the command line: each process is"
           " then worker `RANK` of `WORLD_SIZE`"),
)


@dataclasses.dataclass(frozen=True)
class Settings:
    """Validated values of all options; see OPTIONS for their meaning."""

    codec: Given
    sparse_codec: str
    feedback: str
    exclude: tuple[str, ...]
    min_size: int
    start_step: int
    seed: int
    tracks: int | None
    wave: int | None
    timeout: float | None
    check_every: int
    probe_every: int
    backend: str | None
    carrier: str | None
    aggregators: tuple[str, ...]

    @property
    def is_streaming(self) -> bool:
        """Whether gradients travel through aggregators."""
        return self.carrier == "stream" or (self.carrier is None and bool(self.aggregators))

    @property
    def carrier_name(self) -> str:
        return "stream" if self.is_streaming else "torch"

    def shared(self) -> dict[str, Any]:
        """What every rank must have alike."""
        return {**{option.name: _plain(getattr(self, option.name))
                   for option in OPTIONS if option.alike},
                "carrier": self.carrier_name}


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _convert(option: Option, value: Any, said: str) -> Any:
    if isinstance(value, (list, tuple)) and option.kind is _patterns:
        return tuple(str(part) for part in value)
    if value is None:
        return option.default
    if isinstance(value, bool) and option.kind is not str:
        raise ValueError(f"{said} is {value!r}; accepted: {option.accepted}")
    try:
        converted = option.kind(value)
    except (AttributeError, OverflowError, TypeError, ValueError):
        raise ValueError(f"{said} is {value!r}; accepted: {option.accepted}") from None
    if option.kind is int and not isinstance(value, str) and converted != value:
        raise ValueError(f"{said} is {value!r}; accepted: {option.accepted}")
    low, high = option.minimum, option.maximum
    bounded = low is not None and converted is not None
    if (bounded and not low <= converted <= high) or \
            (option.choices and converted not in option.choices):
        raise ValueError(f"{said} is {value!r}; accepted: {option.accepted}")
    return converted


def said(name: str, arguments: Mapping[str, Any]) -> str:
    """What the user set an option with, for words about its value."""
    option = next(option for option in OPTIONS if option.name == name)
    from_environment = arguments.get(name) is None and os.environ.get(option.variable)
    return f"environment variable {option.variable}" if from_environment else name


def _renamed(values: Mapping[str, Any], prefix: str = "", case: Any = str) -> dict[str, Any]:
    """Options that were given by their former name, under the name they have."""
    renamed = dict(values)
    for option in OPTIONS:
        old, name = prefix + case(option.former), prefix + case(option.name)
        if not option.former or old not in values:
            continue
        given = renamed.pop(old)
        if given in (None, ""):  # Not set.
            continue
        if values.get(name) not in (None, ""):
            raise ValueError(f"{old} and {name} are given, which are one option; accepted: {name}")
        renamed[name] = given
    return renamed


def make(arguments: Mapping[str, Any],
         environment: Mapping[str, str] | None = None) -> Settings:
    """Settings from arguments (None: not given), then the environment, then the defaults."""
    environment = os.environ if environment is None else environment
    known = {option.name: option for option in OPTIONS}
    arguments = _renamed(arguments)
    environment = _renamed(environment, PREFIX, str.upper)
    for old, new in RENAMED.items():
        if old in arguments:
            raise TypeError(f"option {old!r} is called {new!r} now; accepted: {new}=…")
        if environment.get(PREFIX + old.upper()):
            raise ValueError(f"environment variable {PREFIX + old.upper()} is set, but the option"
                             f" is called {PREFIX + new.upper()} now; accepted: that")
    for name in arguments:
        if name not in known:
            raise TypeError(f"unknown option {name!r}; accepted: {', '.join(known)}")
    variables = {option.variable for option in OPTIONS} | set(OTHERS)
    for variable in sorted(environment):
        if variable.startswith(PREFIX) and variable not in variables:
            warnings.warn(f"{variable} is set but is no option of Sluice; accepted:"
                          f" {', '.join(sorted(variables))}", stacklevel=3)
    values = {}
    for option in OPTIONS:
        given = arguments.get(option.name)
        if given is not None:
            values[option.name] = _convert(option, given, option.name)
        else:
            text = environment.get(option.variable)
            said = f"environment variable {option.variable}"
            values[option.name] = _convert(option, text if text else None, said)
    settings = Settings(**values)
    if settings.carrier == "torch" and settings.aggregators:
        raise ValueError(f"aggregators {', '.join(settings.aggregators)} with carrier 'torch',"
                         " which has none; accepted: carrier stream or auto")
    return settings


def table() -> Sequence[tuple[str, str, str, str]]:
    """Rows of (variable, default, accepted, meaning), for the documentation."""
    def shown(value: Any) -> str:
        if value is None:
            return "auto"
        return ",".join(value) if isinstance(value, tuple) else str(value)
    return [(o.variable, shown(o.default), o.accepted, o.meaning) for o in OPTIONS]
