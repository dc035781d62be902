"""Sluice for PyTorch DDP: one line after wrapping the model.

    import sluice.torch
    handle = sluice.torch.attach(ddp_model, codec="tide:bits=4")

Gradients then travel compressed and are summed while compressed, overlapped with the backward
pass, with the same bits on every rank.
"""

from __future__ import annotations

import weakref
from typing import Any, Mapping, Sequence

import torch
from torch.nn.parallel import DistributedDataParallel

from sluice.torch._errors import SluiceError
from sluice.torch._hook import Attachment, hook
from sluice.torch._settings import table as environment_table
from sluice.torch._state import State as SluiceState
from sluice.torch._tensors import sparse_names

__all__ = ["Handle", "SluiceError", "SluiceState", "attach", "environment_table", "hook"]

# What the hooks of DDP models lead to. Not an attribute of the model: its copies have no hook.
_attachments: weakref.WeakKeyDictionary[DistributedDataParallel, Attachment] = \
    weakref.WeakKeyDictionary()


class Handle:
    """What attach() returns."""

    def __init__(self, state: SluiceState) -> None:
        self.state = state

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.Handle of {self.state!r}>"

    def stats(self) -> dict[str, Any]:
        """Bytes, seconds by phase, and the error as measured, of this rank since attach()."""
        return self.state.stats()

    def choose(self, pattern: str, codec: str) -> None:
        """Another codec for the compressed parameters that match, from the coming step on.

        Every rank calls it with the same, between the same steps. What error feedback still owes
        stays; with ``"f32"`` it is sent with the next step. Raises ValueError if nothing matches or
        the codec refuses, SluiceError if ranks disagree; nothing has changed then.
        """
        self.state.choose(pattern, codec)

    def detach(self) -> None:
        """Gradients travel uncompressed from here on; every rank calls it after the same step.

        DDP cannot take a hook back, so the hook stays and runs a plain all-reduce, until the next
        attach().
        """
        self.state.close()

    def state_dict(self) -> dict[str, Any]:
        """Residuals, codec state and step of this rank; save it beside the model, per rank."""
        return self.state.state_dict()

    def load_state_dict(self, saved: Any) -> None:
        """What state_dict() gave on this rank; or a list of what it gave on all ranks of a job with
        another number of ranks, so that the sum of residuals is kept."""
        self.state.load_state_dict(saved)


def _unwrap(model: Any) -> DistributedDataParallel:
    inner = getattr(model, "_orig_mod", model)  # torch.compile(DDP(…))
    if not isinstance(inner, DistributedDataParallel):
        raise TypeError(f"attach() got a {type(model).__module__}.{type(model).__qualname__};"
                        " accepted: a torch.nn.parallel.DistributedDataParallel model")
    return inner


def _has_trained(model: DistributedDataParallel) -> bool:
    """Gradients tell, and where they were dropped the count that DDP keeps, one forward behind."""
    counted = int(model._get_ddp_logging_data().get("iteration", 0))
    return counted > 0 or any(p.grad is not None for p in model.parameters() if p.requires_grad)


def attach(model: torch.nn.Module, codec: str | Mapping[str, str] | None = None, *,
           feedback: str | None = None, exclude: Sequence[str] | None = None,
           min_size: int | None = None, start_step: int | None = None, **options: Any) -> Handle:
    """Compresses the gradients of a DDP model.

    Call it on every rank, after wrapping and before the first backward pass, or after detach().
    Copies of the model (copy.deepcopy, pickle, torch.save) are not attached. What is not given
    comes from the environment (SLUICE_CODEC, …), then from the defaults; `environment_table()`
    lists all options.

    Parameters
    ----------
    model
        A DistributedDataParallel model, compiled or not.
    codec
        A codec SPEC such as ``"tide:bits=4"``; or SPECs by shell patterns on names, of which the
        first match wins: ``{"embed.*": "lossless", "*": "tide:bits=4"}``. They are for parameters
        that are compressed at all.
    feedback
        A SPEC: ``"none"``; ``"ef"``: what compression loses is sent with the next step; ``"dgc"``:
        so is a momentum of it, ``"dgc:momentum=0.9"``.
    exclude
        Names or shell patterns of parameters that travel exactly.
    min_size
        Parameters of fewer elements travel exactly. So do all with fewer than two dimensions.
    start_step
        Steps before this one travel exactly.
    options
        ``sparse_codec`` (``"lossless"`` or ``"f32"``), ``seed``, ``tracks``, ``wave``,
        ``timeout``, ``check_every``, ``probe_every``, ``backend``, ``carrier`` (``"auto"``,
        ``"torch"`` or ``"stream"``), ``aggregators``.

    Raises
    ------
    TypeError, ValueError
        The model is not DDP, an option is unknown or out of range.
    SluiceError
        Attached twice or after training began; ranks disagree or are missing.
    """
    ddp = _unwrap(model)
    attachment = _attachments.get(ddp)
    if attachment is not None and not attachment.state.detached:
        raise SluiceError("Sluice is attached to this model already; accepted: once per DDP model,"
                          " or after detach()")
    if attachment is None and _has_trained(ddp):
        raise SluiceError("attach() after a backward pass; accepted: before the first one, right"
                          " after wrapping the model")
    state = SluiceState(ddp.process_group, codec=codec, feedback=feedback, exclude=exclude,
                        min_size=min_size, start_step=start_step, **options)
    named = [(name, p) for name, p in ddp.module.named_parameters()
             if p.requires_grad and name not in ddp.parameters_to_ignore]
    state.start(named, sparse=sparse_names(ddp.module))
    if attachment is not None:
        attachment.state = state
        return Handle(state)
    attachment = Attachment(state)
    try:
        ddp.register_comm_hook(attachment, hook)
    except RuntimeError as error:
        state.close()
        raise SluiceError(f"DDP refused the hook: {error}") from error
    _attachments[ddp] = attachment
    return Handle(state)
