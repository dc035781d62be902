"""The part of sluice.h that the PyTorch carrier calls, as Python objects."""

from __future__ import annotations

import ctypes as c
import itertools
import threading
from typing import Any, Callable, Sequence

import torch

from sluice import _library
from sluice.torch._errors import SluiceError

SEND, RECEIVED, ANSWER, GATHERED = range(4)  # buffers of a port over collectives …
ON_DEVICE = 4  # … and, added to these, the same on its device
ALL_TO_ALL, ALL_GATHER, MAXIMUM, SUM = range(1, 5)  # collectives
CLOSED, BUCKET, TURN = range(3)  # events of a queue


class Sized(c.Structure):
    """A struct that may grow: its first field is its size, which is set here."""

    def __init__(self, **fields: Any) -> None:
        super().__init__(size=c.sizeof(self), **fields)


class Options(Sized):
    _fields_ = [("size", c.c_size_t), ("rank", c.c_uint32), ("workers", c.c_uint32),
                ("seed", c.c_uint64), ("feedback", c.c_char_p), ("chunk", c.c_uint32),
                ("window", c.c_uint32), ("timeout", c.c_double), ("keep_before", c.c_uint32),
                ("reserved", c.c_uint32), ("device", c.c_void_p)]


class TensorInfo(c.Structure):
    _fields_ = [("id", c.c_uint64), ("rows", c.c_uint64), ("cols", c.c_uint64)]


class SavedBytes(c.Structure):
    _fields_ = [("bytes", c.c_void_p), ("size", c.c_size_t)]


class Entry(c.Structure):
    _fields_ = [("tensor", c.c_uint32), ("count", c.c_uint64), ("gradient", c.c_void_p),
                ("mean", c.c_void_p)]


class Order(Sized):
    _fields_ = [("size", c.c_size_t), ("step", c.c_uint64), ("number", c.c_uint64),
                ("digest", c.c_uint32), ("probe", c.c_uint32), ("on_device", c.c_uint32),
                ("format", c.c_uint32), ("ready", c.c_void_p)]


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
                ("retransmits", c.c_uint64), ("collectives", c.c_uint64),
                ("encode_seconds", c.c_double), ("decode_seconds", c.c_double),
                ("combine_seconds", c.c_double), ("network_seconds", c.c_double)]


class DeviceCounts(Sized):
    _fields_ = [("size", c.c_size_t), ("waves", c.c_uint64), ("launches", c.c_uint64),
                ("launches_most", c.c_uint64), ("uploaded_bytes", c.c_uint64),
                ("grown", c.c_uint64)]


class Collective(Sized):
    _fields_ = [("size", c.c_size_t), ("kind", c.c_uint32), ("source", c.c_uint32),
                ("target", c.c_uint32), ("is_small", c.c_uint32),
                ("send_sizes", c.POINTER(c.c_uint64)), ("receive_sizes", c.POINTER(c.c_uint64)),
                ("count", c.c_uint64), ("step", c.c_uint64), ("number", c.c_uint64)]


RESERVE = c.CFUNCTYPE(c.c_void_p, c.c_void_p, c.c_uint32, c.c_uint64)
START = c.CFUNCTYPE(c.c_int, c.c_void_p, c.POINTER(Collective))
TEST = c.CFUNCTYPE(c.c_int, c.c_void_p, c.POINTER(c.c_uint32))
WAIT = c.CFUNCTYPE(c.c_int, c.c_void_p, c.c_double)


class Callbacks(Sized):
    """sluice_collectives."""

    _fields_ = [("size", c.c_size_t), ("context", c.c_void_p), ("reserve", RESERVE),
                ("start", START), ("test", TEST), ("wait", WAIT)]


class Event(Sized):
    _fields_ = [("size", c.c_size_t), ("kind", c.c_uint32), ("number", c.c_uint64),
                ("digest", c.c_uint64), ("infinite", c.c_uint64), ("_probes", c.POINTER(Probe)),
                ("_probe_count", c.c_size_t), ("port", c.c_size_t)]

    @property
    def probes(self) -> list[Probe]:
        """Valid until the port serves again."""
        return self._probes[:self._probe_count] if self._probe_count else []


_HANDLE, _OUT = c.c_void_p, c.POINTER(c.c_void_p)
_SIGNATURES = {
    "sluice_codec_make": (c.c_int, [c.c_char_p, _OUT]),
    "sluice_codec_free": (None, [_HANDLE]),
    "sluice_codec_spec": (c.c_char_p, [_HANDLE]),
    "sluice_device_open": (c.c_int, [c.c_uint32, _OUT]),
    "sluice_device_free": (None, [_HANDLE]),
    "sluice_memory_make": (c.c_int, [c.POINTER(Options), _OUT]),
    "sluice_memory_free": (None, [_HANDLE]),
    "sluice_memory_add": (c.c_int, [_HANDLE, _HANDLE, c.POINTER(TensorInfo), c.c_size_t]),
    "sluice_memory_add_rows": (c.c_int, [_HANDLE, _HANDLE, c.POINTER(TensorInfo), c.c_size_t]),
    "sluice_memory_choose": (c.c_int, [_HANDLE, c.POINTER(c.c_uint32), c.c_size_t, _HANDLE]),
    "sluice_memory_spec": (c.c_char_p, [_HANDLE, c.c_uint32]),
    "sluice_memory_resumes": (c.c_int, [_HANDLE, c.c_uint32, c.c_char_p]),
    "sluice_memory_kept": (c.c_int, [_HANDLE, c.c_uint32, c.c_uint32, _OUT,
                                     c.POINTER(c.c_uint64)]),
    "sluice_memory_kept_name": (c.c_char_p, [_HANDLE, c.c_uint32]),
    "sluice_memory_state": (c.c_int, [_HANDLE, c.c_uint32, _OUT, c.POINTER(c.c_size_t)]),
    "sluice_memory_model": (c.c_int, [_HANDLE, c.c_char_p, _OUT, c.POINTER(c.c_size_t)]),
    "sluice_memory_save": (c.c_int, [_HANDLE, c.c_void_p, c.c_size_t, c.POINTER(c.c_size_t)]),
    "sluice_memory_load": (c.c_int, [_HANDLE, c.POINTER(SavedBytes), c.c_size_t, c.c_uint32,
                                     c.c_uint32]),
    "sluice_memory_pay": (c.c_int, [_HANDLE, c.c_uint32, c.c_void_p, c.c_uint64]),
    "sluice_memory_end_step": (c.c_int, [_HANDLE]),
    "sluice_memory_undo_step": (c.c_int, [_HANDLE]),
    "sluice_memory_shorten": (c.c_int, [_HANDLE, c.c_uint32, c.c_char_p, c.c_void_p,
                                        c.c_uint64, c.c_void_p]),
    "sluice_aggregator_start": (c.c_int, [c.c_char_p, _OUT]),
    "sluice_aggregator_addresses": (c.c_char_p, [_HANDLE]),
    "sluice_aggregator_free": (None, [_HANDLE, c.c_double]),
    "sluice_port_open": (c.c_int, [_HANDLE, c.c_char_p, c.c_uint64, c.c_uint32, c.c_double,
                                   c.c_int, _OUT]),
    "sluice_port_over": (c.c_int, [_HANDLE, c.POINTER(Callbacks), c.c_double, _OUT]),
    "sluice_port_over_device": (c.c_int, [_HANDLE, c.POINTER(Callbacks), c.c_void_p, c.c_uint32,
                                          c.c_uint64, c.c_double, _OUT]),
    "sluice_port_reserve": (c.c_int, [_HANDLE]),
    "sluice_port_stop": (c.c_int, [_HANDLE]),
    "sluice_port_device_counts": (c.c_int, [_HANDLE, c.POINTER(DeviceCounts)]),
    "sluice_port_free": (None, [_HANDLE]),
    "sluice_port_run": (c.c_int, [_HANDLE, c.POINTER(Order), c.POINTER(Entry), c.c_size_t]),
    "sluice_port_report": (c.c_int, [_HANDLE, c.POINTER(Report)]),
    "sluice_port_probes": (c.c_size_t, [_HANDLE, c.POINTER(Probe), c.c_size_t]),
    "sluice_port_traffic": (c.c_int, [_HANDLE, c.POINTER(Traffic)]),
    "sluice_queue_make": (c.c_int, [_OUT, c.c_size_t, c.c_uint64, _OUT]),
    "sluice_queue_free": (None, [_HANDLE]),
    "sluice_queue_put": (c.c_int, [_HANDLE, c.POINTER(Order), c.POINTER(Entry), c.c_size_t,
                                   c.POINTER(c.c_uint64)]),
    "sluice_queue_put_turn": (c.c_int, [_HANDLE, c.POINTER(c.c_uint64)]),
    "sluice_queue_serve": (c.c_int, [_HANDLE, c.c_size_t, c.POINTER(Event)]),
    "sluice_queue_serve_all": (c.c_int, [_HANDLE, c.POINTER(Event)]),
    "sluice_queue_close": (c.c_int, [_HANDLE, c.c_uint32]),
    "sluice_widen": (c.c_int, [c.c_char_p, c.c_void_p, c.c_uint64, c.c_void_p]),
}


class Unavailable(SluiceError):
    """What was asked for has failed before, or was ended."""


class TimedOut(SluiceError):
    """Somebody has not come in time."""


TIMEOUT = 5  # SLUICE_TIMEOUT
_KINDS = {_library.INVALID_ARGUMENT: ValueError, _library.UNAVAILABLE: Unavailable,
          _library.OUT_OF_MEMORY: MemoryError, TIMEOUT: TimedOut}
_KINDS_OF_SAVED = {**_KINDS, _library.MISMATCH: ValueError, _library.MALFORMED: ValueError}
# Functions that may use a device. Of a queue and its ports, what is freed last gives memory back.
_OF_DEVICES = ("sluice_device_", "sluice_memory_", "sluice_port_", "sluice_queue_free")
_loaded: c.CDLL | None = None


def _in_place(function: Callable[..., Any]) -> Callable[..., Any]:
    """Calls it so that the caller's current GPU stays what it was: the library makes its own the
    current one."""
    def call(*arguments: Any) -> Any:
        if not torch.cuda.is_initialized():
            return function(*arguments)
        before = torch.cuda.current_device()
        try:
            return function(*arguments)
        finally:
            _make_current(before)
    return call


def _make_current(device: int) -> None:
    """Without taking memory of a GPU that this process does not use, where torch can do that."""
    getattr(torch.cuda, "_maybe_exchange_device", torch.cuda.set_device)(device)


def lib() -> c.CDLL:
    """The library with the signatures above declared."""
    global _loaded
    if _loaded is None:
        library = _library.load()
        for name, (result, arguments) in _SIGNATURES.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
            if name.startswith(_OF_DEVICES):
                setattr(library, name, _in_place(function))
        library.sluice_last_error.restype = c.c_char_p
        _loaded = library
    return _loaded


def check(code: int, kinds: dict[int, type[Exception]] = _KINDS) -> None:
    """Turns a code into an exception: ValueError for the user's mistake, MemoryError, SluiceError
    otherwise."""
    if code == _library.OK:
        return
    text = lib().sluice_last_error().decode("utf-8", "replace")
    raise kinds.get(code, SluiceError)(text)


class Codec:
    """A codec of the catalogue, by its SPEC."""

    def __init__(self, spec: str) -> None:
        self._handle = c.c_void_p()
        self.given = spec
        if "\0" in spec:
            raise ValueError(f"codec {spec!r}; accepted: a SPEC such as 'f32' or 'tide:bits=4'")
        check(lib().sluice_codec_make(spec.encode(), c.byref(self._handle)))
        self.spec: str = lib().sluice_codec_spec(self._handle).decode()

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            lib().sluice_codec_free(self._handle)


class Device:
    """A GPU, by its number in this process."""

    def __init__(self, number: int) -> None:
        self._handle = c.c_void_p()
        check(lib().sluice_device_open(number, c.byref(self._handle)))

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            lib().sluice_device_free(self._handle)


class Memory:
    """What one worker keeps between steps, on the host or on a device."""

    def __init__(self, rank: int, workers: int, seed: int, feedback: str,
                 device: Device | None = None) -> None:
        self._handle = c.c_void_p()
        if "\0" in feedback:
            raise ValueError(f"feedback {feedback!r}; accepted: a SPEC such as 'none' or 'ef'")
        options = Options(rank=rank, workers=workers, seed=seed, feedback=feedback.encode(),
                          keep_before=int(feedback != "none"),
                          device=device and device._handle)
        check(lib().sluice_memory_make(c.byref(options), c.byref(self._handle)))

    def add(self, codec: Codec, tensors: Sequence[TensorInfo], rows: bool = False) -> None:
        """More tensors; `rows`: whose entries bring as many of their rows as the step has."""
        add = lib().sluice_memory_add_rows if rows else lib().sluice_memory_add
        array = (TensorInfo * len(tensors))(*tensors)
        check(add(self._handle, codec._handle, array, len(tensors)))

    def choose(self, tensors: Sequence[int], codec: Codec) -> None:
        """Between steps: the codec of these tensors from here on."""
        array = (c.c_uint32 * len(tensors))(*tensors)
        check(lib().sluice_memory_choose(self._handle, array, len(tensors), codec._handle))

    def spec(self, tensor: int) -> str:
        """Of its codec, where options that follow the feedback have their meaning."""
        return lib().sluice_memory_spec(self._handle, tensor).decode()

    def resumes(self, tensor: int, spec: str) -> bool:
        """Whether codec state that was saved under this spec fits."""
        return lib().sluice_memory_resumes(self._handle, tensor, spec.encode()) == _library.OK

    def kept_names(self) -> list[str]:
        """Of feedback's memories, the residual first."""
        names = (lib().sluice_memory_kept_name(self._handle, which) for which in itertools.count())
        return [name.decode() for name in itertools.takewhile(bool, names)]

    def kept(self, tensor: int) -> dict[str, c.Array]:
        """Feedback's memories of a tensor by name, to read and write: floats. None of what was
        always exact."""
        found = {}
        for which, name in enumerate(self.kept_names()):
            address, count = c.c_void_p(), c.c_uint64()
            check(lib().sluice_memory_kept(self._handle, tensor, which, c.byref(address),
                                           c.byref(count)))
            if count.value:
                found[name] = (c.c_float * count.value).from_address(address.value)
        return found

    def state(self, tensor: int) -> c.Array:
        """Bytes, to read and write."""
        return self._bytes(lib().sluice_memory_state, tensor)

    def model(self, spec: str) -> c.Array:
        """Of a codec that tensors have: bytes, to read and write."""
        return self._bytes(lib().sluice_memory_model, spec.encode())

    def _bytes(self, find: Any, which: Any) -> c.Array:
        address, size = c.c_void_p(), c.c_size_t()
        check(find(self._handle, which, c.byref(address), c.byref(size)))
        return (c.c_uint8 * size.value).from_address(address.value or 0)

    def save(self) -> c.Array:
        """All that it holds, as bytes."""
        size = c.c_size_t()
        check(lib().sluice_memory_save(self._handle, None, 0, c.byref(size)))
        saved = (c.c_uint8 * size.value)()
        check(lib().sluice_memory_save(self._handle, saved, size, c.byref(size)))
        return saved

    def load(self, saved: Sequence[tuple[int, int]], first: int, grows: bool) -> None:
        """What save() gave, on this rank or on all; address and number of bytes of each."""
        array = (SavedBytes * len(saved))(*saved)
        check(lib().sluice_memory_load(self._handle, array, len(saved), first, int(grows)),
              _KINDS_OF_SAVED)

    def pay(self, tensor: int, gradient: int, count: int) -> None:
        """What the memories owe, to a gradient that goes to nobody else."""
        check(lib().sluice_memory_pay(self._handle, tensor, gradient, count))

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
    """This worker's end of a carrier."""

    def __init__(self, memory: Memory, handle: c.c_void_p) -> None:
        self._memory = memory  # outlives the port
        self._handle: c.c_void_p | None = handle
        self._last = Traffic()
        self._last_counts = DeviceCounts()
        self._freeing = threading.Lock()

    @classmethod
    def open(cls, memory: Memory, aggregators: Sequence[str], job: int, window: int,
             timeout: float, bell: int) -> Port:
        """To aggregators. Once the descriptor `bell` is readable, waiting for them fails."""
        handle = c.c_void_p()
        check(lib().sluice_port_open(memory._handle, ",".join(aggregators).encode(), job, window,
                                     timeout, bell, c.byref(handle)))
        return cls(memory, handle)

    @classmethod
    def over(cls, memory: Memory, callbacks: Callbacks, timeout: float) -> Port:
        """Over collectives of the caller, who keeps the callbacks as long as the port."""
        handle = c.c_void_p()
        check(lib().sluice_port_over(memory._handle, c.byref(callbacks), timeout,
                                     c.byref(handle)))
        return cls(memory, handle)

    @classmethod
    def over_device(cls, memory: Memory, callbacks: Callbacks, stream: int, carries: bool,
                    wave: int, timeout: float) -> Port:
        """The same for buckets on the memory's device; `carries`: collectives move its bytes."""
        handle = c.c_void_p()
        check(lib().sluice_port_over_device(memory._handle, c.byref(callbacks), stream,
                                            int(carries), wave, timeout, c.byref(handle)))
        return cls(memory, handle)

    def reserve(self) -> None:
        """Between steps, over a device: memory for waves as they are by now."""
        check(lib().sluice_port_reserve(self._handle))

    def stop(self) -> None:
        """From any thread: the device decodes nothing any more. For good."""
        with self._freeing:
            if self._handle:
                lib().sluice_port_stop(self._handle)

    def run(self, order: Order, entries: c.Array) -> Report:
        """Averages a bucket by itself; blocks, without Python's lock."""
        check(lib().sluice_port_run(self._handle, c.byref(order), entries, len(entries)))
        report = Report()
        check(lib().sluice_port_report(self._handle, c.byref(report)))
        count = lib().sluice_port_probes(self._handle, None, 0)
        report.probes = (Probe * count)()
        lib().sluice_port_probes(self._handle, report.probes, count)
        return report

    def traffic(self) -> Traffic:
        """Since the port was made; of a closed one what it was."""
        if self._handle:
            check(lib().sluice_port_traffic(self._handle, c.byref(self._last)))
        return self._last

    def device_counts(self) -> DeviceCounts:
        """What its device has done; of a closed port what that was."""
        if self._handle:
            check(lib().sluice_port_device_counts(self._handle, c.byref(self._last_counts)))
        return self._last_counts

    def close(self) -> None:
        """When no queue serves it any more."""
        self.traffic()
        self.device_counts()
        with self._freeing:
            handle, self._handle = self._handle, None
        if handle:
            lib().sluice_port_free(handle)

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self.close()


class Queue:
    """Buckets of a job in one order, over ports that threads serve."""

    def __init__(self, ports: Sequence[Port], wave: int) -> None:
        self._lock = threading.RLock()  # A watch may close it at any time, a finalizer too.
        self._handle: c.c_void_p | None = c.c_void_p()
        array = (c.c_void_p * len(ports))(*(port._handle.value for port in ports))
        check(lib().sluice_queue_make(array, len(ports), wave, c.byref(self._handle)))

    def put(self, order: Order, entries: c.Array) -> int:
        """The bucket's number."""
        number = c.c_uint64()
        check(lib().sluice_queue_put(self._handle, c.byref(order), entries, len(entries),
                                     c.byref(number)))
        return number.value

    def put_turn(self) -> int:
        number = c.c_uint64()
        check(lib().sluice_queue_put_turn(self._handle, c.byref(number)))
        return number.value

    def serve(self, port: int, event: Event) -> None:
        """Runs waves, without Python's lock, until there is an event."""
        check(lib().sluice_queue_serve(self._handle, port, c.byref(event)))

    def serve_all(self, event: Event) -> None:
        """The same of all ports, whose collectives then start in one order."""
        check(lib().sluice_queue_serve_all(self._handle, c.byref(event)))

    def close(self, at_once: bool) -> None:
        """Ends serve(), once what was put is finished or at once."""
        with self._lock:
            if self._handle:
                check(lib().sluice_queue_close(self._handle, int(at_once)))

    def free(self) -> None:
        """When nobody serves it any more; its ports can leave then."""
        with self._lock:
            handle, self._handle = self._handle, None
        if handle:
            lib().sluice_queue_free(handle)

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self.free()
