"""The hook's state: what happens to a bucket from the hook's call to its future's completion."""

from __future__ import annotations

import logging
import os
import threading
import warnings
import weakref
from typing import Any, Sequence

import torch
import torch.distributed as dist

import sluice
from sluice.torch import _checkpoint, _closing, _native, _settings, _time_slices
from sluice.torch._alone import Alone, is_alone
from sluice.torch._errors import SluiceError
from sluice.torch._lanes import Lane, StreamLane
from sluice.torch._measured import Measured
from sluice.torch._ranks import Ranks
from sluice.torch._sparse import SparseWork
from sluice.torch._stream import Stream
from sluice.torch._tensors import Tensors
from sluice.torch._watch import LEFT
from sluice.torch._work import HALVES, DenseWork, Tensor, Work, as_reals

log = logging.getLogger("sluice")

SPARSE_CODECS = ("lossless", "f32")  # those that add no error of their own


class State:
    """State of the DDP communication hook; see `attach` for the options.

    Made without a model (`SluiceState(codec=…)`), it starts at the first bucket.
    """

    def __init__(self, process_group: Any = None, **options: Any) -> None:
        self.settings = _settings.make(options)
        self._codec = self._make_codec("codec", options)  # says early what is wrong with it
        self._sparse_codec = self._make_codec("sparse_codec", options)
        if self._sparse_codec.spec.partition(":")[0] not in SPARSE_CODECS:
            raise ValueError(f"{_settings.said('sparse_codec', options)} is"
                             f" {self.settings.sparse_codec!r}, which would change the rows;"
                             f" accepted: {' or '.join(SPARSE_CODECS)}, with their options")
        self.process_group = process_group
        self._lock = threading.Lock()
        self._at_rest = threading.Condition(self._lock)  # no bucket is on its way
        self._pid = os.getpid()
        self._started = False
        self.detached = False
        self.ranks: Any = None  # Ranks, or Alone
        self._lanes: list[Lane] = []
        self._stream: Stream | None = None
        self._saved: Any = None  # what load_state_dict got for tensors that are not there yet
        self._error: BaseException | None = None
        self._warned: set[str] = set()
        self.step = 0
        self._sequence = 0
        self._open = 0  # buckets of the step on their way
        self._last_seen = False
        self._seen: set[int] = set()  # id() of the parameters that came in this step
        self._expected = 0  # so many come in every step; 0: unknown
        self._digest = 0
        self._infinite = 0
        self._totals = dict.fromkeys(("steps", "buckets", "gradient_bytes", "skipped_steps",
                                      "checks", "exact_buckets", "sparse_buckets",
                                      "sparse_rows"), 0)
        self._measured = Measured()

    def _make_codec(self, name: str, options: dict[str, Any]) -> _native.Codec:
        try:
            return _native.Codec(getattr(self.settings, name))
        except ValueError as error:
            raise ValueError(f"{_settings.said(name, options)}: {error}") from None

    def __repr__(self) -> str:
        where = "detached" if self.detached else \
            f"{self.ranks.size} ranks" if self._started else "not started"
        return (f"<sluice.torch.SluiceState: {self.settings.codec}, feedback"
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
              sparse: Sequence[str] = ()) -> None:
        """Makes process groups, memory and threads; every rank calls it, in the same order."""
        _closing.await_closers()
        try:
            with _time_slices.short():
                self._start(named, group or self.process_group, sparse)
        except BaseException:
            self._give_back()
            raise

    def _start(self, named: Sequence[tuple[str, Tensor]], group: Any,
               sparse: Sequence[str]) -> None:
        settings, codec = self.settings, self._codec
        alone = is_alone(group)
        self.ranks = Alone() if alone else \
            Ranks(group, settings.lane_count, settings.timeout, settings.backend,
                  settings.carrier_name)
        self.ranks.agree(self._facts(named, sparse))
        self.memory = _native.Memory(codec, self.ranks.rank, self.ranks.size, settings.seed,
                                     settings.feedback, self._sparse_codec.spec)
        self.tensors = Tensors(self.memory, settings)
        self.tensors.add(named, sparse)
        self._expected = len(named)
        if self.tensors.unmatched and not named:
            raise ValueError(f"exclude {sorted(self.tensors.unmatched)} of a hook that does not"
                             " know its model's names; accepted: attach(model, exclude=…)")
        if self.tensors.unmatched:
            raise ValueError(f"exclude {sorted(self.tensors.unmatched)} matches no parameter;"
                             f" accepted: names or patterns of {[n for n, _ in named][:20]}")
        if not alone:
            self._stream = Stream(self.ranks, settings.aggregators) \
                if settings.is_streaming else None
            self._make_lanes()
        # Also when the model is dropped, and at exit: a thread that is still on its way out of C++
        # then would end the process. Process groups go at exit without our help.
        self._close_lanes = weakref.finalize(self, _closing.close_lanes, self._lanes, self._stream,
                                             self.ranks, self._pid)
        self._close_groups = weakref.finalize(self, _closing.close_groups, self._close_lanes,
                                              self.ranks, self._pid)
        self._close_groups.atexit = False
        self.ranks.at_step(self.step)
        self.ranks.on_loss(_closing.weak(self._heard_of_loss))
        self._started = True
        if self._saved is not None:
            _checkpoint.load(self, self._saved)
        self._log()

    def _facts(self, named: Sequence[tuple[str, Tensor]], sparse: Sequence[str]) -> dict[str, Any]:
        """What every rank must have alike."""
        return {**self.settings.shared(),
                "codec": {"is": self._codec.spec, "said": self.settings.codec},
                "sparse_codec": {"is": self._sparse_codec.spec, "said": self.settings.sparse_codec},
                "version": sluice.__version__,
                "all-gather into one tensor": self.ranks.gathers_flat,
                "parameters": [(name, list(p.shape), str(p.dtype)) for name, p in named],
                "sparse parameters": list(sparse)}

    def _log(self) -> None:
        settings = self.settings
        over = f"aggregators {', '.join(self._stream.aggregators)}" if self._stream else \
            settings.backend or "gloo"
        how = f"{self.ranks.size} ranks, {settings.lane_count} lanes over {over}" if self._lanes \
            else "1 rank, so that nothing travels and nothing is compressed"
        if self.ranks.rank == 0:
            log.info("sluice %s: %s, feedback %s, %s", sluice.__version__, settings.codec,
                     settings.feedback, how)

    def _make_lanes(self) -> None:
        for i in range(self.settings.lane_count):
            lane = Lane(i, self.ranks, self.memory) if self._stream is None else \
                StreamLane(i, self.ranks, self.memory, self._stream)
            self._lanes.append(lane)

    def _give_back(self) -> None:
        """After a start that failed."""
        self._started = False
        lanes, stream, ranks = self._lanes, self._stream, self.ranks
        self._lanes, self._stream, self.ranks = [], None, None
        if stream is not None:
            stream.give_up()
        if ranks is not None:
            _closing.close_lanes(lanes, stream, ranks, self._pid)
            ranks.close()

    def close(self) -> None:
        """Ends the threads; buckets then go through the framework's own all-reduce."""
        self.detached = True
        if self._started and os.getpid() == self._pid:
            self._close_lanes()
            if self._error is None:
                self._close_groups()

    # --- buckets ---

    def submit(self, bucket: dist.GradBucket) -> torch.futures.Future:
        """The hook: returns at once with a future of the averaged bucket."""
        if os.getpid() != self._pid:
            raise SluiceError("this process was forked after Sluice was attached; accepted: use it"
                              " in the process that attached it")
        if self._error is not None:
            raise SluiceError(f"Sluice has failed before: {self._error}")
        if not self._started:
            self.start()
        self._check(bucket)
        self._learn(bucket)
        parameters = {id(parameter) for parameter in bucket.parameters()}
        self._end_untold_step(parameters)
        if isinstance(self.ranks, Alone):
            return self.ranks.average(self, bucket, self._is_last(bucket, parameters))
        work = self._make_work(bucket)
        with self._lock:
            self._open += 1
            self._last_seen = self._is_last(bucket, parameters)
        if work.understood:
            self._send(work)
        else:
            self._send_plain(work)
        return work.future.then(lambda _: _result(work))

    def _check(self, bucket: dist.GradBucket) -> None:
        """Raises if a rank has gone since the last bucket."""
        self.ranks.at_step(self.step)
        try:
            self.ranks.check(f"step {self.step}, bucket {bucket.index()}")
        except SluiceError as error:
            with self._lock:
                self._error = self._error or error
            self._hang_up()
            raise

    def _heard_of_loss(self) -> None:
        """On the watch's thread. That a rank has left means nothing to one that is at rest, and may
        leave too."""
        with self._lock:
            is_busy = self._open > 0
        has_failed = any(word.kind != LEFT for word in self.ranks.watch.doom())
        if self._stream is not None and has_failed:
            self._stream.give_up()
        if is_busy or has_failed:
            self._hang_up()

    def _hang_up(self) -> None:
        """So that those who wait for this rank fail at once. A lane that is in a collective does it
        when that fails; it does, as every rank hangs up."""
        for lane in self._lanes:
            lane.submit(lambda lane: lane.hang_up())

    def _is_last(self, bucket: dist.GradBucket, parameters: set[int]) -> bool:
        """Of its step. DDP does not say so in the first one of a static graph that has several
        dtypes: there it is when all parameters have come."""
        self._seen |= parameters
        return bucket.is_last() or len(self._seen) == self._expected

    def _end_untold_step(self, parameters: set[int]) -> None:
        """Where nobody knows how many parameters there are, a step is over when one comes again."""
        if self._lanes and not self._seen.isdisjoint(parameters):
            with self._at_rest:
                self._at_rest.wait_for(lambda: self._open == 0)
            self._end_step()

    def _make_work(self, bucket: dist.GradBucket) -> Work:
        buffer = as_reals(bucket.buffer())
        if buffer.dtype != torch.float32 and buffer.dtype not in HALVES:
            return Work(bucket, self.step)
        return (SparseWork if buffer.is_sparse else DenseWork)(self, bucket, self.step)

    def _learn(self, bucket: dist.GradBucket) -> None:
        """Takes parameters on that are new, in the first step of a hook without its model.

        The memory grows only while nothing is on its way.
        """
        parameters = bucket.parameters()
        if self.tensors.knows(parameters):
            return
        with self._at_rest:
            self._at_rest.wait_for(lambda: self._open == 0)
        first = len(self.tensors.names)
        self.tensors.add_unnamed(parameters, bucket.buffer().is_sparse)
        if self._saved is not None:
            _checkpoint.restore_tensors(self, self._saved, first)

    def _send(self, work: Work) -> None:
        """Numbers are taken for as many parcels as there may be: part 0 finds out how many there
        are, and every lane that may have some of them takes its own, one after the other."""
        ready = threading.Event()
        first = self._sequence
        self._sequence += work.parts_max
        work.left = min(work.parts_max, len(self._lanes))
        for part in range(work.left):
            lane = self._lanes[(first + part) % len(self._lanes)]
            lane.submit(lambda lane, part=part: self._run(lane, work, part, first, ready))

    def _send_plain(self, work: Work) -> None:
        kind = f"{'sparse ' if work.buffer.is_sparse else ''}gradients of {work.buffer.dtype}"
        if kind not in self._warned:
            self._warned.add(kind)
            warnings.warn(f"Sluice does not compress {kind}: they travel exactly; compressed are"
                          " float32, bfloat16 and float16", stacklevel=2)
        lane = self._lanes[self._sequence % len(self._lanes)]
        self._sequence += 1
        self._totals["exact_buckets"] += 1
        lane.submit(lambda lane: self._run_plain(lane, work))

    def _run(self, lane: Lane, work: Work, part: int, first: int, ready: Any) -> None:
        """A lane's parcels of a bucket. Part 0's lays out the jobs; the others wait for that."""
        try:
            if part == 0:
                self._prepare(lane, work, ready)
            ready.wait()
            self._go_on()
            if work.jobs is None:
                raise work.error or SluiceError("the bucket could not be unpacked")
            for part in range(part, work.parts, len(self._lanes)):
                self._go_on()
                order = _native.Order(step=work.step, sequence=first + part, part=part,
                                      parts=work.parts, probe=self._probe())
                self._count(lane.run(order, work.jobs, work.index))
        except BaseException as error:
            self._fail(lane, work, error)
            lane.hang_up()
        self._lane_done(work)

    def _prepare(self, lane: Lane, work: Work, ready: Any) -> None:
        try:
            self._go_on()
            work.unpack(lane)
        except BaseException as error:
            self._fail(lane, work, error)  # before the others see that there are no jobs
            raise
        finally:
            ready.set()

    def _run_plain(self, lane: Lane, work: Work) -> None:
        try:
            self._go_on()
            mean = lane.plain(work.buffer, work.index, work.step)
            if mean.is_sparse:
                work.result = mean
            else:
                work.buffer.copy_(mean)
        except BaseException as error:
            self._fail(lane, work, error)
            lane.hang_up()
        self._lane_done(work)

    def _go_on(self) -> None:
        """After a failure nothing more is sent: other ranks may have stopped anywhere."""
        if self._error is not None:
            raise self._error

    def _is_due(self, every: int) -> bool:
        return every > 0 and self.step % every == 0

    def _probe(self) -> int:
        """The number of the step's probe, from 1; 0 without one."""
        every = self.settings.probe_every
        return self.step // every % 2**31 + 1 if self._is_due(every) else 0

    def _fail(self, lane: Lane, work: Work, error: BaseException) -> None:
        self.ranks.tell(lane.position, error)
        if self._stream is not None:
            self._stream.give_up()
        with self._lock:
            first = self._error is None
            work.error = work.error or error
            self._error = self._error or error
        if first:
            log.error("sluice: %s", error)

    def _count(self, report: _native.Report) -> None:
        with self._lock:
            self._infinite += report.infinite
            self._measured.add(report.probes)

    def _lane_done(self, work: Work) -> None:
        with self._lock:
            work.left -= 1
            if work.left:
                return
        try:
            if work.error is None:
                overflowed = work.jobs is not None and work.repack()
                digest = work.digest() if self._is_due(self.settings.check_every) else 0
                with self._lock:
                    self._infinite += int(overflowed)
                    self._digest += digest
        except BaseException as error:
            self._fail(self._lanes[0], work, error)
        self._bucket_done(work)

    def _bucket_done(self, work: Work) -> None:
        with self._lock:
            self._open -= 1
            ends = self._open == 0 and self._last_seen
            self.count_bucket()
            self._totals["gradient_bytes"] += 0 if work.jobs is None else \
                sum(4 * job.count for job in work.jobs)
            if isinstance(work, SparseWork):
                self._totals["sparse_buckets"] += 1
                self._totals["sparse_rows"] += work.rows.numel()
            if self._open == 0:
                self._at_rest.notify_all()
        # Whoever is last ends the step before its future completes: the next step's first bucket
        # can come only after that.
        if ends and work.error is None and self._error is None:
            try:
                self._end_step()
            except BaseException as error:
                self._fail(self._lanes[0], work, error)
        work.future.set_result(None)

    def _end_step(self) -> None:
        if self._infinite and self.settings.feedback != "none":
            self.memory.undo_step()
        else:
            self.memory.end_step()
        if self._is_due(self.settings.check_every):
            self._totals["checks"] += 1
            self._lanes[0].compare(f"the mean of step {self.step}", self._digest)
        self.count_step(self._infinite > 0)
        self.ranks.at_step(self.step)
        self._digest = self._infinite = 0
        self._last_seen = False

    def count_bucket(self) -> None:
        self._totals["buckets"] += 1

    def count_step(self, skipped: bool) -> None:
        self._totals["steps"] += 1
        self._totals["skipped_steps"] += int(skipped)
        self.step += 1
        self._seen.clear()

    # --- for the user ---

    def stats(self) -> dict[str, Any]:
        """What happened so far on this rank: bytes, seconds by phase, the error as measured."""
        figures = [lane.figures for lane in self._lanes] if self._started else []
        sent = sum(f.bytes_sent for f in figures)
        size = self.ranks.size if self._started else 1
        ring = self._totals["gradient_bytes"] * 2 * (size - 1) / size
        with self._lock:
            measured = self._measured.figures(self.tensors.names if self._started else ())
        return {
            "codec": self.settings.codec,
            **self._totals,
            "bytes_sent": sent,
            "bytes_received": sum(f.bytes_received for f in figures),
            "collectives": sum(f.collectives for f in figures),
            "retransmits": sum(f.retransmits for f in figures),
            "ratio": ring / sent if sent else None,
            "seconds": {phase: sum(f.seconds[phase] for f in figures)
                        for phase in ("encode", "network", "combine", "decode")},
            **measured,
        }

    def state_dict(self) -> dict[str, Any]:
        """Residuals, codec state and step of this rank, as tensors and plain values."""
        if not self._started and self._saved is not None:
            return self._saved
        return _checkpoint.save(self)

    def load_state_dict(self, saved: Any) -> None:
        """What state_dict() gave on this rank, or a list of what it gave on all ranks of a job with
        another number of them: the sum of residuals is kept then."""
        self._saved = saved
        if self._started:
            _checkpoint.load(self, saved)
            if isinstance(self.ranks, Alone):
                self.ranks.residuals_changed()


def _copy(process_group: Any, options: dict[str, Any], saved: Any, detached: bool) -> State:
    state = State(process_group, **options)
    state._saved, state.detached = saved, detached
    return state


def _result(work: Work) -> Tensor:
    if work.error is not None:
        raise work.error
    return work.result
