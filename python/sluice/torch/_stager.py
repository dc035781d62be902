"""Gradients of a device come to the host on a thread of its own: the hook does not wait for what is
still computed, and buckets are put in the order that the hook got them."""

from __future__ import annotations

import queue
import threading

import torch

from sluice.torch._steps import Steps
from sluice.torch._work import DenseWork, Work


class Stager:
    """From the first bucket of a device on, all buckets go through it."""

    def __init__(self, steps: Steps, device: torch.device) -> None:
        self._steps, self._device = steps, device
        self._queue: queue.SimpleQueue[tuple[Work, bool] | threading.Event | None] = \
            queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="sluice-stager", daemon=True)
        self._thread.start()

    def put(self, work: Work, is_last: bool) -> None:
        self._queue.put((work, is_last))

    def drain(self) -> None:
        """Until all that it was given is put."""
        drained = threading.Event()
        self._queue.put(drained)
        drained.wait()

    def close(self) -> None:
        """After what it was given."""
        self._queue.put(None)
        if self._thread is not threading.current_thread():
            self._thread.join(timeout=5)

    def _run(self) -> None:
        torch.cuda.set_device(self._device)
        while (item := self._queue.get()) is not None:
            if isinstance(item, threading.Event):
                item.set()
                continue
            work, is_last = item
            try:
                if isinstance(work, DenseWork):
                    work.unpack()
                self._steps.put(work, is_last)
            except BaseException as error:
                self._steps.fail(work.where, error)
                work.complete(self._steps.error)
            del item, work
