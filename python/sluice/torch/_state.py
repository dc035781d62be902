"""The hook's state: what happens to a bucket from the hook's call to its future's completion."""

from __future__ import annotations

import logging
import os
import threading
import warnings
import weakref
from typing import Any, Callable, Sequence

import torch
import torch.distributed as dist

import sluice
from sluice.torch import _checkpoint, _closing, _native, _placement, _settings, _time_slices
from sluice.torch._alone import Alone, is_alone
from sluice.torch._choices import Choices
from sluice.torch._errors import SluiceError
from sluice.torch._parts import Parts
from sluice.torch._placement import Place
from sluice.torch._ranks import Ranks
from sluice.torch._sparse import SparseWork
from sluice.torch._steps import Steps
from sluice.torch._stream import Stream
from sluice.torch._tensors import Tensors
from sluice.torch._tracks import COUNTED, PHASES, Track
from sluice.torch._watch import LEFT
from sluice.torch._work import HALVES, BucketWork, DenseWork, DeviceWork, PlainWork, Plan, \
    Tensor, as_reals

log = logging.getLogger("sluice")

# The last backward pass in which a model over NCCL had a bucket, and which model; by device.
_backwards: dict[torch.device, tuple[int, object]] = {}
# Its number in this process; -1 outside of one, and where torch, before 2.1, does not say.
_current_backward: Callable[[], int] = getattr(torch._C, "_current_graph_task_id", lambda: -1)

SPARSE_CODECS = ("lossless", "f32")  # those that add no error of their own


class State:
    """State of the DDP communication hook; see `attach` for the options.

    Made without a model (`SluiceState(codec=…)`), it starts at the first bucket.
    """

    def __init__(self, process_group: Any = None, **options: Any) -> None:
        self.settings = settings = _settings.make(options)
        # What is wrong with the values of these, the library says.
        self._choices = Choices(settings.codec, _settings.said("codec", options))
        said = _settings.said("sparse_codec", options)
        self._sparse_codec = _say(said, lambda: _native.Codec(settings.sparse_codec))
        if self._sparse_codec.spec.partition(":")[0] not in SPARSE_CODECS:
            raise ValueError(f"{said} is {settings.sparse_codec!r}, which would change the rows;"
                             f" accepted: {' or '.join(SPARSE_CODECS)}, with their options")
        _say(_settings.said("feedback", options),
             lambda: _native.Memory(0, 1, settings.seed, settings.feedback))
        self.process_group = process_group
        self._pid = os.getpid()
        self._started = False
        self.detached = False
        self.ranks: Any = None  # Ranks, or Alone
        self.place = Place()
        self.steps = Steps(settings)
        self._parts = Parts(self.steps)
        self._plans: dict[int, Plan] = {}  # of buckets
        self._saved: Any = None  # what load_state_dict got for tensors that are not there yet
        self._warned: set[str] = set()
        self._seen: set[int] = set()  # id() of the parameters that came in this step
        self._expected = 0  # so many come in every step; 0: unknown
        self._mark = object()  # stands for this state where others see which had the last bucket

    @property
    def step(self) -> int:
        """The coming one, or the one on its way."""
        return self.steps.step

    @property
    def tracks(self) -> list[Track]:
        return self._parts.tracks

    def __repr__(self) -> str:
        where = "detached" if self.detached else \
            f"{self.ranks.size} ranks" if self._started else "not started"
        return (f"<sluice.torch.SluiceState: {self._choices}, feedback"
                f" {self.settings.feedback}, {where}>")

    def __reduce__(self) -> tuple[Any, ...]:
        """For copies, of models too: what is attached cannot be at two places, so the copy of that
        is as after detach(). One that has not started is copied as it is."""
        options = vars(self.settings)
        if self._started or self.detached:
            return _copy, (None, options, None, True)
        return _copy, (self.process_group, options, self._saved, False)

    # --- start and end ---

    def start(self, named: Sequence[tuple[str, Tensor]] = (), group: Any = None,
              sparse: Sequence[str] = (), bucket: Tensor | None = None) -> None:
        """Makes process groups, memory and threads; every rank calls it, in the same order. Without
        names, by the first bucket."""
        _closing.await_closers()
        group = group or self.process_group
        devices = [p.device for _, p in named] if bucket is None else [bucket.device]
        try:
            with _time_slices.short():
                self.place = _placement.choose(self.settings, self._choices.codecs(), group,
                                               devices, is_alone(group))
                self._start(named, group, sparse)
        except BaseException:
            self._give_back()
            raise

    def _start(self, named: Sequence[tuple[str, Tensor]], group: Any,
               sparse: Sequence[str]) -> None:
        settings, place = self.settings, self.place
        alone = is_alone(group)
        self.ranks = Alone() if alone else \
            Ranks(group, place, settings.timeout, settings.carrier_name)
        self.ranks.agree(self._facts(named, sparse))
        self.memory = _native.Memory(self.ranks.rank, self.ranks.size, settings.seed,
                                     settings.feedback, place.codecs)
        self.tensors = Tensors(self.memory, settings, self._choices, self._sparse_codec,
                               place.on_device)
        self._add(named, sparse)
        self.tensors.begin_step(self.step)
        queue = None
        if not alone:
            self._parts.stream = Stream(self.ranks, settings.aggregators) \
                if settings.is_streaming else None
            self._make_tracks()
            queue = self._parts.start(self.ranks)
        self.steps.begin(self.ranks, self.memory, queue)
        # Also when the model is dropped, and at exit: a thread that is still on its way out of C++
        # then would end the process. Process groups go at exit without our help.
        self._close_tracks = weakref.finalize(self, _closing.close_tracks, self._parts, self.ranks,
                                             self._pid)
        self._close_groups = weakref.finalize(self, _closing.close_groups, self._close_tracks,
                                              self.ranks, self._pid)
        self._close_groups.atexit = False
        self.ranks.at_step(self.step)
        self.ranks.on_loss(_closing.weak(self._heard_of_loss))
        self._started = True
        if self._saved is not None:
            _checkpoint.load(self, self._saved)
        self._log()

    def _add(self, named: Sequence[tuple[str, Tensor]], sparse: Sequence[str]) -> None:
        if not named and (self.settings.exclude or self._choices.has_patterns):
            what = "codec patterns" if self._choices.has_patterns else \
                f"exclude {sorted(self.settings.exclude)}"
            raise ValueError(f"{what} of a hook that does not know its model's names; accepted:"
                             " attach(model, …)")
        if named:
            self.tensors.add(named, sparse)
        self._expected = len(named)
        if self.tensors.unmatched:
            raise ValueError(f"exclude {sorted(self.tensors.unmatched)} matches no parameter;"
                             f" accepted: names or patterns of {[n for n, _ in named][:20]}")

    def _facts(self, named: Sequence[tuple[str, Tensor]], sparse: Sequence[str]) -> dict[str, Any]:
        """What every rank must have alike."""
        return {**self.settings.shared(), "tracks": self.place.tracks, "wave": self.place.wave,
                "codec": {"is": self._choices.facts(), "said": self.settings.codec},
                "sparse_codec": {"is": self._sparse_codec.spec, "said": self.settings.sparse_codec},
                "version": sluice.__version__,
                "all-gather into one tensor": self.ranks.gathers_flat,
                "parameters": [(name, list(p.shape), str(p.dtype)) for name, p in named],
                "sparse parameters": list(sparse)}

    def _log(self) -> None:
        settings, place, stream = self.settings, self.place, self._parts.stream
        over = f"aggregators {', '.join(stream.aggregators)}" if stream else place
        how = f"{self.ranks.size} ranks, {place.tracks} tracks over {over}" if self.tracks \
            else "1 rank, so that nothing travels and nothing is compressed"
        if self.ranks.rank != 0:
            return
        log.info("sluice %s: %s, feedback %s, %s", sluice.__version__, self._choices,
                 settings.feedback, how)
        if place.detour:
            log.warning("sluice: gradients of %s go through the host, and codecs run there: %s",
                        place.device, place.detour)
        if place.instead:
            log.warning("sluice: compressed gradients of %s travel by gloo: %s", place.device,
                        place.instead)
        if place.on_device and settings.probe_every:
            log.info("sluice: the error of gradients that stay on a GPU is not measured")

    def _make_tracks(self) -> None:
        for i in range(self.place.tracks):
            self.tracks.append(Track(i, self.ranks, self.steps, self.memory, self._parts.stream))

    def _give_back(self) -> None:
        """After a start that failed."""
        self._started = False
        parts, ranks = self._parts, self.ranks
        self._parts, self.ranks = Parts(self.steps), None
        if parts.stream is not None:
            parts.stream.give_up()
        if ranks is not None:
            _closing.close_tracks(parts, ranks, self._pid)
            ranks.close()

    def close(self) -> None:
        """Ends the threads; buckets then go through the framework's own all-reduce."""
        self.detached = True
        if self._started and os.getpid() == self._pid:
            self._close_tracks()
            if self.steps.error is None:
                self._close_groups()

    # --- buckets ---

    def submit(self, bucket: dist.GradBucket) -> torch.futures.Future:
        """The hook: returns at once with a future of the averaged bucket."""
        if os.getpid() != self._pid:
            raise SluiceError("this process was forked after Sluice was attached; accepted: use it"
                              " in the process that attached it")
        self.steps.check()
        self._check_capture(bucket)
        if not self._started:
            self.start(bucket=bucket.buffer())
        parameters = bucket.parameters()
        self._check_backward()  # first: what this program does wrong, and not who has left for it
        self._check(bucket)
        if not self.tensors.knows(parameters):
            self._learn(bucket, parameters)
        ids = set(map(id, parameters))
        self._end_untold_step(ids)
        if not self._seen and self.tensors.begin_step(self.step):
            self._parts.make_room()
        work = self._make_work(bucket, parameters)
        future = work.future
        self._seen |= ids
        # DDP does not say so in the first step of a static graph that has several dtypes: there it
        # is when all parameters have come.
        is_last = bucket.is_last() or len(self._seen) == self._expected
        if is_last:
            self._seen = set()
        if isinstance(self.ranks, Alone):
            self._average_alone(work, is_last)
        else:
            self._parts.put(work, is_last)
        return future

    def _average_alone(self, work: BucketWork, is_last: bool) -> None:
        if self.settings.feedback != "none":
            self.ranks.average(work, self.memory)
        self.steps.totals["buckets"] += 1
        if is_last:
            self.steps.count_step(skipped=self.ranks.end_step(self.memory))
        work.complete(None)

    def _check(self, bucket: dist.GradBucket) -> None:
        """Raises if a rank has gone since the last bucket."""
        self.ranks.at_step(self.step)
        try:
            self.ranks.check(lambda: f"step {self.step}, bucket {bucket.index()}")
        except SluiceError as error:
            self.steps.fail(f"step {self.step}, bucket {bucket.index()}", error)
            raise

    def _check_capture(self, bucket: dist.GradBucket) -> None:
        if bucket.buffer().is_cuda and torch.cuda.is_current_stream_capturing():
            raise SluiceError("a backward pass within the capture of a CUDA graph, which would"
                              " repeat what is sent in one step; accepted: capture without it, or"
                              " with no_sync()")

    def _check_backward(self) -> None:
        """Two models over NCCL have two communicators, whose collectives would start in another
        order on every rank. Seen by what the program does, and not by what is on its way: so all
        ranks raise, at the same bucket."""
        backward = _current_backward() if self.place.carries else -1
        if backward < 0:
            return
        last, of = _backwards.get(self.place.device, (-1, self._mark))
        if last == backward and of is not self._mark:
            raise SluiceError("gradients of two attached models over NCCL in one backward pass,"
                              " whose collectives have no common order; accepted: a backward pass"
                              " for each, one DDP model around both, or backend gloo for one")
        _backwards[self.place.device] = backward, self._mark

    def _heard_of_loss(self) -> None:
        """On the watch's thread. That a rank has left means nothing to one that is at rest, and may
        leave too. A track that is in a collective hangs up when that fails; it does, as every rank
        hangs up."""
        has_failed = any(word.kind != LEFT for word in self.ranks.watch.doom())
        if self._parts.stream is not None and has_failed:
            self._parts.stream.give_up()
        if has_failed or self.steps.is_busy():
            self.steps.close(at_once=True)
            if self.place.on_device:
                threading.Thread(target=self._parts.give_up, args=(self.ranks,), daemon=True,
                                 name="sluice-loss").start()

    def _end_untold_step(self, ids: set[int]) -> None:
        """Where nobody knows how many parameters there are, a step is over when one comes again."""
        if not self._seen.isdisjoint(ids):
            if self.tracks:
                self._parts.await_rest()
                self.steps.end_untold()
            self._seen = set()

    def _make_work(self, bucket: dist.GradBucket, parameters: list[Tensor]) -> BucketWork:
        result = bucket.buffer()
        buffer = as_reals(result)
        if buffer.dtype != torch.float32 and buffer.dtype not in HALVES:
            self._warn(f"{'sparse ' if buffer.is_sparse else ''}gradients of {buffer.dtype}")
            return PlainWork(bucket.index(), result, buffer, self.step)
        if buffer.is_sparse:
            return SparseWork(self.steps, self.tensors.index(parameters[0]), bucket.index(), result)
        index = bucket.index()
        if buffer.device != self.place.device:
            raise SluiceError(f"step {self.step}, bucket {index}: gradients on {buffer.device};"
                              f" accepted: on {self.place.device}, as all before")
        plan = self._plans.get(index)
        if plan is None or not plan.fits(parameters, buffer):
            slices = self.tensors.cut(buffer, parameters, f"step {self.step}, bucket {index}")
            plan = self._plans[index] = Plan(parameters, slices, buffer)
        kind = DeviceWork if self.place.on_device else DenseWork
        return kind(plan, index, result, buffer, self.step)

    def _warn(self, kind: str) -> None:
        if kind not in self._warned and self.tracks:
            self._warned.add(kind)
            warnings.warn(f"Sluice does not compress {kind}: they travel exactly; compressed are"
                          " float32, bfloat16 and float16", stacklevel=2)

    def _learn(self, bucket: dist.GradBucket, parameters: list[Tensor]) -> None:
        """Takes parameters on that are new, in the first step of a hook without its model.

        The memory grows only while nothing is on its way.
        """
        self._parts.await_rest()
        first = len(self.tensors.names)
        self.tensors.add_unnamed(parameters, bucket.buffer().is_sparse)
        self._parts.make_room()
        if self._saved is not None:
            _checkpoint.restore_tensors(self, self._saved, first)

    # --- for the user ---

    def choose(self, pattern: str, codec: str) -> None:
        """Another codec for parameters from the coming step on; every rank calls it, between the
        same steps."""
        if not self._started or self.detached:
            raise SluiceError("choose() of what is not attached; accepted: between attach() and"
                              " detach()")
        self.steps.check()
        if self._seen:
            raise SluiceError(f"choose() within step {self.step}; accepted: between steps")
        try:
            chosen = _say("codec", lambda: _native.Codec(codec))
            names = self._choices.matched(pattern, self.tensors.compressed)
        except Exception as error:
            self.ranks.refuse_between_steps("choose()", self.step, error)
            raise
        self.ranks.agree_between_steps("choose()", self.step, {
            "codec": {"is": [self.step, pattern, chosen.spec],
                      "said": f"{pattern}={codec} before step {self.step}"}})
        self.tensors.choose(names, chosen)
        self._choices.prefer(pattern, chosen)
        self._parts.make_room()

    def stats(self) -> dict[str, Any]:
        """What happened so far on this rank: bytes, seconds by phase, the error as measured."""
        figures = [track.figures() for track in self.tracks]

        def total(name: str) -> Any:
            return sum(one[name] for one in figures)

        steps, sent = self.steps, total("bytes_sent")
        size = self.ranks.size if self._started else 1
        ring = steps.totals["gradient_bytes"] * 2 * (size - 1) / size
        with steps.lock:
            measured = steps.measured.figures(self.tensors.compressed if self._started else {})
        return {
            "codec": self.settings.codec,
            "codecs": self.tensors.specs() if self._started else {},
            **steps.totals,
            **{name: total(name)
               for name in ("bytes_sent", "bytes_received", "collectives", "retransmits")},
            "ratio": ring / sent if sent else None,
            "seconds": {phase: total(phase) for phase in PHASES},
            "device": self._device_figures(),
            **measured,
        }

    def _device_figures(self) -> dict[str, int]:
        tracks = [track.device_figures() for track in self.tracks]
        return {name: (max if name == "launches_most" else sum)([0, *(one[name] for one in tracks)])
                for name in COUNTED}

    def state_dict(self) -> dict[str, Any]:
        """Residuals, codec state and step of this rank, as tensors and plain values."""
        if not self._started and self._saved is not None:
            return self._saved
        return _checkpoint.save(self)

    def load_state_dict(self, saved: Any) -> None:
        """What state_dict() gave on this rank, or a list of what it gave on all ranks of a job with
        another number of them: the sum of residuals is kept then."""
        if self._started:
            _checkpoint.load(self, saved)
            if isinstance(self.ranks, Alone):
                self.ranks.memories_changed()
        self._saved = saved  # for tensors that are not there yet; not what was refused


def _say(said: str, make: Callable[[], Any]) -> Any:
    """What the library makes of a value, or its words with what the user set the value with."""
    try:
        return make()
    except ValueError as error:
        raise ValueError(f"{said}: {error}") from None


def _copy(process_group: Any, options: dict[str, Any], saved: Any, detached: bool) -> State:
    state = State(process_group, **options)
    state._saved, state.detached = saved, detached
    return state
