"""Where gradients are averaged: on the host, or on the device that they lie on.

On a device they stay there. Over NCCL bytes go from device to device, over Gloo through memory of
the host that the device writes to.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from typing import Any, ContextManager, Iterable, Sequence

import torch
import torch.distributed as dist

from sluice import _library
from sluice.torch import _groups, _native
from sluice.torch._errors import SluiceError
from sluice.torch._settings import Settings

CPU = torch.device("cpu")
HOST_WAVE, DEVICE_WAVE = 1 << 21, 1 << 23  # elements
HOST_TRACKS, NCCL_TRACKS = 2, 6

# For tests without a GPU: libsluice.so takes the host for a device, and so do we. Gradients on the
# CPU are then on a device, whose streams are nothing, and Gloo stands for NCCL where that would be
# used: with backend="nccl", or where this variable is 1, which says that DDP's backend is.
EMULATED_CARRIES = "SLUICE_EMULATED_CARRIES"


def is_emulated() -> bool:
    return os.environ.get("SLUICE_CUDA_LIBRARY") == "emulated"


@dataclasses.dataclass(frozen=True)
class Place:
    """What a model's gradients are averaged on and by."""

    device: torch.device = CPU  # where gradients lie
    backend: str = "gloo"  # of the process groups
    tracks: int = HOST_TRACKS
    wave: int = HOST_WAVE
    codecs: _native.Device | None = None  # that codecs run on; None: the host
    carries: bool = False  # collectives move bytes of the device, on one thread in one order
    detour: str = ""  # why gradients of a device go through the host
    instead: str = ""  # why their bytes travel by Gloo although DDP has NCCL

    @property
    def on_device(self) -> bool:
        """Whether gradients stay there."""
        return self.codecs is not None

    @property
    def is_cuda(self) -> bool:
        return self.device.type == "cuda"

    @property
    def group_device(self) -> torch.device:
        """Where the process groups take their bytes from."""
        return self.device if self.backend == "nccl" else CPU

    @property
    def group_count(self) -> int:
        return 1 if self.carries else self.tracks

    def facts(self) -> dict[str, Any]:
        """What every rank must have alike, or their groups and messages would not meet."""
        return {"backend": self.backend, "tracks": self.tracks,
                "where codecs run": "device" if self.on_device else "host"}

    def stream(self) -> Any:
        """A stream for a track, before what computes gradients; None where there are none."""
        if not (self.on_device and self.is_cuda):
            return None
        return torch.cuda.Stream(self.device, priority=-1)

    def __str__(self) -> str:
        return f"{self.backend}, codecs on {self.device if self.on_device else 'the host'}"


def active(stream: Any) -> ContextManager[Any]:
    """Within, what is done on a device is done on that stream."""
    return contextlib.nullcontext() if stream is None else torch.cuda.stream(stream)


def choose(settings: Settings, codecs: Sequence[_native.Codec], group: Any,
           devices: Iterable[torch.device], alone: bool) -> Place:
    """By where the parameters are and by DDP's backend, unless the settings say otherwise."""
    device = _the_one(devices)
    emulated = is_emulated() and device == CPU
    wants_nccl = settings.backend == "nccl"
    host = Place(device, tracks=settings.tracks or HOST_TRACKS, wave=settings.wave or HOST_WAVE)
    if wants_nccl and device == CPU and not emulated:
        raise ValueError("backend 'nccl' moves gradients of a GPU, but the parameters are on the"
                         " CPU; accepted: gloo")
    if alone or (device == CPU and not emulated):
        return host
    detour, opened = _look(settings, codecs, dist.get_world_size(group), device)
    if opened is None:
        if wants_nccl:
            raise ValueError(f"backend 'nccl': {detour}; or backend gloo")
        return dataclasses.replace(host, detour=detour)
    carries = wants_nccl or settings.backend is None and _would_carry(group, device, emulated)
    instead = "" if emulated or not carries else _groups.lacks_abort()
    if instead and wants_nccl:
        raise ValueError(f"backend 'nccl': {instead}; or backend gloo")
    carries = carries and not instead
    return Place(device, "nccl" if carries and not emulated else "gloo",
                 settings.tracks or (NCCL_TRACKS if carries else HOST_TRACKS),
                 settings.wave or DEVICE_WAVE, opened, carries, instead=instead)


def _the_one(devices: Iterable[torch.device]) -> torch.device:
    found = sorted(set(map(str, devices)))
    if len(found) > 1:
        raise ValueError(f"parameters on {' and '.join(found)}; accepted: all of a model's"
                         " parameters on one device")
    return torch.device(found[0]) if found else CPU


def _would_carry(group: Any, device: torch.device, emulated: bool) -> bool:
    if emulated:
        return os.environ.get(EMULATED_CARRIES) == "1"
    return _groups.is_nccl(group, device)


def _look(settings: Settings, codecs: Sequence[_native.Codec], size: int,
          device: torch.device) -> tuple[str, _native.Device | None]:
    """The device, if it takes all of this; else why it does not."""
    if is_emulated() and device.type == "cuda":
        return "SLUICE_CUDA_LIBRARY is 'emulated'; accepted: a libsluice_cuda.so", None
    missing = _library.gpu_status()
    if missing:
        return missing, None
    if settings.is_streaming:
        return "carrier 'stream' sends from the host; accepted: carrier torch", None
    try:
        opened = _native.Device(device.index or 0)
    except SluiceError as error:  # A GPU that there are no kernels for.
        return f"{error}; python -m sluice.info says what can be used", None
    try:
        _try(settings, codecs, size, opened)
    except ValueError as error:
        _try(settings, codecs, size, None)  # What the host refuses too is no reason.
        return str(error), None
    return "", opened


def _try(settings: Settings, codecs: Sequence[_native.Codec], size: int,
         device: _native.Device | None) -> None:
    """Whether a memory there takes all of them."""
    memory = _native.Memory(0, size, settings.seed, settings.feedback, device)
    for number, codec in enumerate(codecs):
        memory.add(codec, [_native.TensorInfo(number, 64, 64)])
