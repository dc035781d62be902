"""The part of sluice.h that the PyTorch carrier calls, as Python objects."""

from __future__ import annotations

import ctypes as c
from typing import Callable, Iterator, NamedTuple, Sequence

from sluice import _library
from sluice.torch._errors import SluiceError

EXACT, SPARSE = 0xFFFFFFFF, 0xFFFFFFFE
DONE, SHARDS, MAXIMUM, SUM, WHOLE = range(5)


class Sized(c.Structure):
    """A struct that may grow: its first field is its size, which is set here."""

    def __init__(self, **fields: int) -> None:
        super().__init__(size=c.sizeof(self), **fields)


class Options(Sized):
    _fields_ = [("size", c.c_size_t), ("rank", c.c_uint32), ("workers", c.c_uint32),
                ("seed", c.c_uint64), ("feedback", c.c_char_p), ("chunk", c.c_uint32),
                ("window", c.c_uint32), ("timeout", c.c_double), ("keep_before", c.c_uint32),
                ("sparse", c.c_char_p)]


class TensorInfo(c.Structure):
    _fields_ = [("id", c.c_uint64), ("rows", c.c_uint64), ("cols", c.c_uint64)]


class Job(c.Structure):
    _fields_ = [("tensor", c.c_uint32), ("count", c.c_uint64), ("gradient", c.c_void_p),
                ("mean", c.c_void_p)]


class Order(Sized):
    _fields_ = [("size", c.c_size_t), ("step", c.c_uint64), ("sequence", c.c_uint64),
                ("part", c.c_uint32), ("parts", c.c_uint32), ("digest", c.c_uint32),
                ("probe", c.c_uint32)]


class Step(Sized):
    _fields_ = [("size", c.c_size_t), ("collective", c.c_uint32), ("receives_vary", c.c_uint32),
                ("answers_vary", c.c_uint32), ("send_sizes", c.POINTER(c.c_uint64)),
                ("receive_sizes", c.POINTER(c.c_uint64)), ("answer_sizes", c.POINTER(c.c_uint64)),
                ("lane_count", c.c_uint64)]


class Probe(c.Structure):
    _fields_ = [("tensor", c.c_uint32), ("blocks", c.c_uint64), ("live", c.c_uint64),
                ("silent", c.c_uint64), ("error_energy", c.c_double), ("exact_energy", c.c_double)]


class Report(Sized):
    _fields_ = [("size", c.c_size_t), ("digest", c.c_uint64), ("infinite", c.c_uint64),
                ("rounds", c.c_uint64), ("bytes_up", c.c_uint64), ("bytes_down", c.c_uint64),
                ("chunks", c.c_uint64), ("encode_seconds", c.c_double),
                ("decode_seconds", c.c_double)]
    probes: Sequence[Probe] = ()


class Traffic(Sized):
    _fields_ = [("size", c.c_size_t), ("sent_bytes", c.c_uint64), ("received_bytes", c.c_uint64),
                ("retransmits", c.c_uint64)]


_SIGNATURES = {
    "sluice_codec_make": (c.c_int, [c.c_char_p, c.POINTER(c.c_void_p)]),
    "sluice_codec_free": (None, [c.c_void_p]),
    "sluice_codec_spec": (c.c_char_p, [c.c_void_p]),
    "sluice_memory_make": (c.c_int, [c.c_void_p, c.POINTER(Options), c.POINTER(c.c_void_p)]),
    "sluice_memory_free": (None, [c.c_void_p]),
    "sluice_memory_add": (c.c_int, [c.c_void_p, c.POINTER(TensorInfo), c.c_size_t]),
    "sluice_memory_spec": (c.c_char_p, [c.c_void_p]),
    "sluice_memory_resumes": (c.c_int, [c.c_void_p, c.c_char_p]),
    "sluice_memory_residual": (c.c_int, [c.c_void_p, c.c_uint32, c.POINTER(c.c_void_p),
                                         c.POINTER(c.c_uint64)]),
    "sluice_memory_state": (c.c_int, [c.c_void_p, c.c_uint32, c.POINTER(c.c_void_p),
                                      c.POINTER(c.c_size_t)]),
    "sluice_memory_model": (c.c_int, [c.c_void_p, c.POINTER(c.c_void_p), c.POINTER(c.c_size_t)]),
    "sluice_memory_end_step": (c.c_int, [c.c_void_p]),
    "sluice_memory_undo_step": (c.c_int, [c.c_void_p]),
    "sluice_parcel_make": (c.c_int, [c.c_void_p, c.POINTER(c.c_void_p)]),
    "sluice_parcel_free": (None, [c.c_void_p]),
    "sluice_parcel_begin": (c.c_int, [c.c_void_p, c.POINTER(Order), c.POINTER(Job), c.c_size_t]),
    "sluice_parcel_next": (c.c_int, [c.c_void_p, c.POINTER(Step)]),
    "sluice_parcel_pack": (c.c_int, [c.c_void_p, c.c_void_p, c.c_uint64]),
    "sluice_parcel_combine": (c.c_int, [c.c_void_p, c.c_void_p, c.POINTER(c.c_uint64),
                                        c.POINTER(c.c_void_p), c.POINTER(c.c_uint64)]),
    "sluice_parcel_spread": (c.c_int, [c.c_void_p, c.c_void_p, c.c_uint64,
                                       c.POINTER(c.c_uint64)]),
    "sluice_parcel_pack_lanes": (c.c_int, [c.c_void_p, c.c_void_p, c.c_uint64]),
    "sluice_parcel_spread_lanes": (c.c_int, [c.c_void_p, c.c_void_p, c.c_uint64]),
    "sluice_parcel_abandon": (c.c_int, [c.c_void_p]),
    "sluice_parcel_report": (c.c_int, [c.c_void_p, c.POINTER(Report)]),
    "sluice_parcel_probes": (c.c_size_t, [c.c_void_p, c.POINTER(Probe), c.c_size_t]),
    "sluice_aggregator_start": (c.c_int, [c.c_char_p, c.POINTER(c.c_void_p)]),
    "sluice_aggregator_addresses": (c.c_char_p, [c.c_void_p]),
    "sluice_aggregator_free": (None, [c.c_void_p, c.c_double]),
    "sluice_port_open": (c.c_int, [c.c_void_p, c.c_char_p, c.c_uint64, c.c_uint32, c.c_double,
                                   c.c_int, c.POINTER(c.c_void_p)]),
    "sluice_port_free": (None, [c.c_void_p]),
    "sluice_port_run": (c.c_int, [c.c_void_p, c.POINTER(Order), c.POINTER(Job), c.c_size_t]),
    "sluice_port_report": (c.c_int, [c.c_void_p, c.POINTER(Report)]),
    "sluice_port_probes": (c.c_size_t, [c.c_void_p, c.POINTER(Probe), c.c_size_t]),
    "sluice_port_traffic": (c.c_int, [c.c_void_p, c.POINTER(Traffic)]),
    "sluice_widen": (c.c_int, [c.c_char_p, c.c_void_p, c.c_uint64, c.c_void_p]),
    "sluice_memory_shorten": (c.c_int, [c.c_void_p, c.c_uint32, c.c_char_p, c.c_void_p,
                                        c.c_uint64, c.c_void_p]),
}
_loaded: c.CDLL | None = None


def lib() -> c.CDLL:
    """The library with the signatures above declared."""
    global _loaded
    if _loaded is None:
        library = _library.load()
        for name, (result, arguments) in _SIGNATURES.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
        library.sluice_last_error.restype = c.c_char_p
        _loaded = library
    return _loaded


def check(code: int) -> None:
    """Turns a code into an exception: ValueError for the user's mistake, MemoryError, SluiceError
    otherwise."""
    if code == _library.OK:
        return
    text = lib().sluice_last_error().decode("utf-8", "replace")
    if code == _library.INVALID_ARGUMENT:
        raise ValueError(text)
    raise MemoryError(text) if code == _library.OUT_OF_MEMORY else SluiceError(text)


class Codec:
    """A codec of the catalogue, by its SPEC."""

    def __init__(self, spec: str) -> None:
        self._handle = c.c_void_p()
        if "\0" in spec:
            raise ValueError(f"codec {spec!r}; accepted: a SPEC such as 'f32' or 'tide:bits=4'")
        check(lib().sluice_codec_make(spec.encode(), c.byref(self._handle)))
        self.spec: str = lib().sluice_codec_spec(self._handle).decode()

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            lib().sluice_codec_free(self._handle)


class Memory:
    """What one worker keeps between steps."""

    def __init__(self, codec: Codec, rank: int, workers: int, seed: int, feedback: str,
                 sparse: str) -> None:
        self.codec = codec
        self._handle = c.c_void_p()
        options = Options(rank=rank, workers=workers, seed=seed,
                          feedback=feedback.encode(), keep_before=int(feedback != "none"),
                          sparse=sparse.encode())
        check(lib().sluice_memory_make(codec._handle, c.byref(options), c.byref(self._handle)))

    def add(self, tensors: Sequence[TensorInfo]) -> None:
        array = (TensorInfo * len(tensors))(*tensors)
        check(lib().sluice_memory_add(self._handle, array, len(tensors)))

    @property
    def spec(self) -> str:
        """The codec's, where options that follow the feedback have their meaning."""
        return lib().sluice_memory_spec(self._handle).decode()

    def check_resumes(self, spec: str) -> None:
        """Raises unless a state that was saved under this spec fits."""
        if lib().sluice_memory_resumes(self._handle, spec.encode()):
            raise ValueError(lib().sluice_last_error().decode())

    def residual(self, tensor: int) -> tuple[int, int]:
        """Address and number of floats; (0, 0) without feedback."""
        address, count = c.c_void_p(), c.c_uint64()
        check(lib().sluice_memory_residual(self._handle, tensor, c.byref(address), c.byref(count)))
        return address.value or 0, count.value

    def state(self, tensor: int) -> tuple[int, int]:
        """Address and number of bytes."""
        address, size = c.c_void_p(), c.c_size_t()
        check(lib().sluice_memory_state(self._handle, tensor, c.byref(address), c.byref(size)))
        return address.value or 0, size.value

    def model(self) -> tuple[int, int]:
        """Address and number of bytes."""
        address, size = c.c_void_p(), c.c_size_t()
        check(lib().sluice_memory_model(self._handle, c.byref(address), c.byref(size)))
        return address.value or 0, size.value

    def end_step(self) -> None:
        check(lib().sluice_memory_end_step(self._handle))

    def undo_step(self) -> None:
        check(lib().sluice_memory_undo_step(self._handle))

    def shorten(self, tensor: int, form: bytes, mean: int, count: int, halves: int) -> None:
        """A mean as half-width floats; what that loses goes to the tensor's residual."""
        check(lib().sluice_memory_shorten(self._handle, tensor, form, mean, count, halves))

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            lib().sluice_memory_free(self._handle)


def _report(handle: c.c_void_p, fill: Callable, fill_probes: Callable) -> Report:
    report = Report()
    check(fill(handle, c.byref(report)))
    count = fill_probes(handle, None, 0)
    report.probes = (Probe * count)()
    fill_probes(handle, report.probes, count)
    return report


class Sizes(NamedTuple):
    """What one step moves, per rank."""

    send: list[int]
    receive: list[int] | None  # None: ranks tell each other
    answer: list[int] | None  # None: ranks tell each other


class Parcel:
    """Chunks in lock-step; the caller runs the collectives that next() names."""

    def __init__(self, memory: Memory, workers: int) -> None:
        self._memory = memory  # outlives the parcel
        self._workers = workers
        self._handle = c.c_void_p()
        self._step = Step()
        check(lib().sluice_parcel_make(memory._handle, c.byref(self._handle)))

    def begin(self, order: Order, jobs: c.Array) -> None:
        check(lib().sluice_parcel_begin(self._handle, c.byref(order), jobs, len(jobs)))

    def steps(self) -> Iterator[Step]:
        """Each step until all means are written; the caller has spread before asking again."""
        while True:
            check(lib().sluice_parcel_next(self._handle, c.byref(self._step)))
            if self._step.collective == DONE:
                return
            yield self._step

    def sizes(self, step: Step) -> Sizes:
        n = self._workers
        return Sizes(step.send_sizes[:n], None if step.receives_vary else step.receive_sizes[:n],
                     None if step.answers_vary else step.answer_sizes[:n])

    def pack(self, address: int, size: int) -> None:
        check(lib().sluice_parcel_pack(self._handle, address, size))

    def combine(self, address: int, sizes: Sequence[int]) -> tuple[int, int]:
        """Address and size of this rank's answer."""
        answer, size = c.c_void_p(), c.c_uint64()
        array = (c.c_uint64 * self._workers)(*sizes)
        check(lib().sluice_parcel_combine(self._handle, address, array, c.byref(answer),
                                          c.byref(size)))
        return answer.value or 0, size.value

    def spread(self, address: int, stride: int, sizes: Sequence[int]) -> None:
        array = (c.c_uint64 * self._workers)(*sizes)
        check(lib().sluice_parcel_spread(self._handle, address, stride, array))

    def pack_lanes(self, address: int, count: int) -> None:
        check(lib().sluice_parcel_pack_lanes(self._handle, address, count))

    def spread_lanes(self, address: int, count: int) -> None:
        check(lib().sluice_parcel_spread_lanes(self._handle, address, count))

    def abandon(self) -> None:
        check(lib().sluice_parcel_abandon(self._handle))

    def report(self) -> Report:
        return _report(self._handle, lib().sluice_parcel_report, lib().sluice_parcel_probes)

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            lib().sluice_parcel_free(self._handle)


class Aggregator:
    """Sums for the workers of a job, on a thread of this process."""

    def __init__(self, address: str) -> None:
        self._handle = c.c_void_p()
        check(lib().sluice_aggregator_start(address.encode(), c.byref(self._handle)))
        self.address: str = lib().sluice_aggregator_addresses(self._handle).decode()

    def close(self, patience: float) -> None:
        """When all workers have left its jobs, or after so many seconds."""
        handle, self._handle = self._handle, None
        if handle:
            lib().sluice_aggregator_free(handle, patience)

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self.close(0)


class Port:
    """This worker's end of a job at aggregators; runs parcels, one at a time."""

    def __init__(self, memory: Memory, aggregators: Sequence[str], job: int, window: int,
                 timeout: float, bell: int) -> None:
        """Once the descriptor `bell` is readable, waiting here and in run() fails."""
        self._memory = memory  # outlives the port
        self._handle = c.c_void_p()
        check(lib().sluice_port_open(memory._handle, ",".join(aggregators).encode(), job, window,
                                     timeout, bell, c.byref(self._handle)))

    def run(self, order: Order, jobs: c.Array) -> Report:
        """Averages a parcel; blocks, without Python's lock."""
        check(lib().sluice_port_run(self._handle, c.byref(order), jobs, len(jobs)))
        return _report(self._handle, lib().sluice_port_report, lib().sluice_port_probes)

    def traffic(self) -> Traffic:
        traffic = Traffic()
        check(lib().sluice_port_traffic(self._handle, c.byref(traffic)))
        return traffic

    def close(self) -> None:
        handle, self._handle = self._handle, None
        if handle:
            lib().sluice_port_free(handle)

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self.close()
