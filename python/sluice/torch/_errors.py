"""The one exception of this package, and what torch's own say."""

from __future__ import annotations

import torch


class SluiceError(RuntimeError):
    """Ranks disagree, somebody is missing, or a reduction failed; the message says who and what."""

    is_known_to_all = False  # Nobody has to be told by hanging up.


# Errors of a device; torch.cuda has the first before torch 2.5, the second came with torch 2.8.
_OF_DEVICE = tuple(getattr(module, name) for module, name in (
    (torch, "OutOfMemoryError"), (torch.cuda, "OutOfMemoryError"), (torch, "AcceleratorError"))
    if hasattr(module, name))


def may_be_own(error: BaseException | None) -> bool:
    """Whether a RuntimeError is not what torch raises where another rank has failed."""
    return isinstance(error, _OF_DEVICE)
