"""Cases on ranks that die, fail, stop or never come; a launch each, since none goes on after it.

What the other ranks say is returned: the type of the exception and its text, causes included.
"""

import datetime
import os
import signal
import threading
import time

import ddp_kit as kit
import torch
import torch.distributed as dist

from sluice.torch import SluiceState, _native, _ranks, _stream, hook

VICTIM = 1
STEP = 2  # DDP has rebuilt its buckets by then
TIMEOUT = 4.0
SOON = 30.0  # seconds, for all of a case
LONG = 300.0  # more than the launcher's limit: nobody learns of anything by the time-out
OPTIONS = {"codec": "tide", "min_size": 0, "timeout": TIMEOUT, "tracks": 2, "check_every": 0}


def survive(ddp, rank):
    """Trains until something is raised; what that is."""
    try:
        kit.train(ddp, rank, STEP + 3)
    except Exception as error:
        return said(error)
    return ["nothing", "was raised"]


def said(error):
    texts, cause = [], error
    while cause is not None:
        texts.append(f"{type(cause).__name__}: {cause}")
        cause = cause.__cause__ or cause.__context__
    return [type(error).__name__, "\n".join(texts)]


def attempt(work):
    """What it raises."""
    try:
        work()
    except Exception as error:
        return said(error)
    return ["nothing", "was raised"]


def make(**options):
    return kit.attached(kit.net(), ddp={"bucket_cap_mb": 0.02}, **{**OPTIONS, **options})


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def stop():
    threading.Event().wait()


def fault_at_second_bucket(handle, fault):
    """The fault comes after the hook ran for one bucket of the step."""
    state, submit = handle.state, handle.state.submit

    def watched(bucket):
        if state.step == STEP and bucket.index() == 1:
            fault()
        return submit(bucket)

    state.submit = watched


def between_buckets(rank, fault, victim=VICTIM, **options):
    ddp, handle = make(**options)
    if rank == victim:
        fault_at_second_bucket(handle, fault)
    return survive(ddp, rank)


def killed_between_buckets(rank, size):
    return between_buckets(rank, die, timeout=LONG)


def killed_with_its_aggregator(rank, size):
    return between_buckets(rank, die, carrier="stream", timeout=LONG)


def killed_while_a_device_waits(rank, size):
    """For a gradient behind a collective of the user's that hangs: a track that waits for it does
    not come back, and nobody says so."""
    ddp, handle = make(timeout=LONG)
    if rank == VICTIM:
        fault_at_second_bucket(handle, die)
    else:
        def hangs(serve):
            def served(self, *arguments):
                try:
                    return serve(self, *arguments)
                finally:
                    if handle.state.step == STEP:
                        stop()
            return served

        for name in ("serve", "serve_all"):
            setattr(_native.Queue, name, hangs(getattr(_native.Queue, name)))
    began = time.monotonic()
    said = survive(ddp, rank)
    assert time.monotonic() - began < SOON, said
    return said


def rank_0_killed_between_buckets(rank, size):
    return between_buckets(rank, die, victim=0, timeout=LONG)


def rank_0_killed_with_its_aggregator(rank, size):
    return between_buckets(rank, die, victim=0, carrier="stream", timeout=LONG)


def before_the_first_step(rank, victim, carrier):
    """The others may be on their last way through attach()."""
    def work():
        ddp, _ = make(carrier=carrier, timeout=LONG)
        if rank == victim:
            die()
        kit.train(ddp, rank, 2)
    return attempt(work)


def killed_before_the_first_step(rank, size):
    return before_the_first_step(rank, size - 1, "torch")


def rank_0_killed_before_the_first_step_of_stream(rank, size):
    return before_the_first_step(rank, 0, "stream")


def between_steps(rank, victim, carrier):
    """The others compute, and have heard of it when they are done."""
    ddp, handle = make(carrier=carrier, timeout=LONG)
    kit.train(ddp, rank, STEP)
    dist.barrier()  # Nobody lacks anything of that step.
    if rank == victim:
        die()
    handle.state.ranks.watch.words(1, LONG)
    return survive(ddp, rank)


def rank_0_killed_between_steps(rank, size):
    return between_steps(rank, 0, "torch")


def killed_between_steps_of_stream(rank, size):
    return between_steps(rank, size - 1, "stream")


def rank_0_killed_with_the_store(rank, size):
    """As with init_method env:// without torchrun: rank 0 is the host of the store."""
    files = dist.distributed_c10d._get_default_store()
    wait = datetime.timedelta(seconds=30)
    if rank == 0:
        store = dist.TCPStore("127.0.0.1", 0, size, True, wait, wait_for_workers=False)
        files.set("port", str(store.port))
    else:
        port = int(files.get("port"))
        store = dist.TCPStore("127.0.0.1", port, size, False, wait, wait_for_workers=False)
    # Nobody gives up a group that another still connects to.
    files.set(f"up/{rank}", "1")
    files.wait([f"up/{other}" for other in range(size)], wait)
    dist.destroy_process_group()
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=wait)
    return rank_0_killed_between_buckets(rank, size)


def killed_while_attaching(rank, size):
    """Between the ranks' meeting and their agreement."""
    if rank == VICTIM:
        _ranks.Ranks.agree = lambda *_: die()
    return attempt(lambda: make(timeout=LONG))


def killed_while_groups_are_made(rank, size):
    if rank == VICTIM:
        _ranks.Ranks._new_group = lambda *_: die()
    return attempt(lambda: make(timeout=LONG))


def killed_while_joining(rank, size):
    if rank == VICTIM:
        _stream.Stream.port = lambda *_: die()
    said = attempt(lambda: make(carrier="stream", timeout=LONG))
    assert not kit.lane_threads(), kit.lane_threads()
    return said


def stops_between_buckets(rank, size):
    return between_buckets(rank, stop)


def stops_between_buckets_of_stream(rank, size):
    return between_buckets(rank, stop, carrier="stream")


def fails(rank, carrier, place):
    """In our own code, with more waves of every bucket behind it."""
    ddp, handle = make(timeout=LONG, wave=4096, carrier=carrier)
    owner, name = place(handle.state)
    act = getattr(owner, name)

    def watched(*arguments):
        if rank == VICTIM and handle.state.step == STEP:
            raise OSError("the disk is full")
        return act(*arguments)

    setattr(owner, name, watched)
    if rank == VICTIM:
        kit.train(ddp, rank, STEP + 1)
    return survive(ddp, rank)


def fails_on_a_lane(rank, size, carrier="torch"):
    """When a bucket is done."""
    return fails(rank, carrier, lambda state: (state.steps, "take"))


def fails_on_a_lane_of_stream(rank, size):
    return fails_on_a_lane(rank, size, "stream")


def fails_in_a_callback(rank, size):
    """Which nothing may be raised through: the library has called it."""
    return fails(rank, "torch", lambda state: (state.tracks[1].collectives, "start"))


def raises_between_steps(rank, size, carrier="torch"):
    ddp, _ = make(timeout=LONG, carrier=carrier)
    if rank == VICTIM:
        kit.train(ddp, rank, STEP)
        raise OSError("the disk is full")
    return survive(ddp, rank)


def raises_between_steps_of_stream(rank, size):
    return raises_between_steps(rank, size, "stream")


def killed_before_results_are_compared(rank, size):
    ddp, handle = make(check_every=STEP, timeout=LONG)
    for track in handle.state.tracks:
        def watched(*arguments, compare=track.collectives.compare):
            if rank == VICTIM and handle.state.step == STEP:
                die()
            return compare(*arguments)
        track.collectives.compare = watched
    return survive(ddp, rank)


def killed_in_a_ring(rank, size):
    """An all-gather of Gloo is a ring: of four ranks, one is no neighbour of the victim, and waits
    for one that is. It is not missing, however long its time-out."""
    ddp, handle = make(tracks=1, timeout=LONG)
    track, = handle.state.tracks
    start = track.collectives.start

    def watched(what):
        if rank == VICTIM and handle.state.step == STEP and what.kind == _native.ALL_GATHER:
            die()
        start(what)

    track.collectives.start = watched
    return survive(ddp, rank)


def killed_while_rows_are_told(rank, size):
    """Of a sparse gradient, in the middle of agreeing on its rows."""
    torch.manual_seed(0)
    ddp, handle = kit.attached(torch.nn.Embedding(50, 8, sparse=True),
                               **{**OPTIONS, "timeout": LONG})
    for track in handle.state.tracks:
        def watched(part, share=track.collectives.share):
            if rank == VICTIM and handle.state.step == STEP:
                die()
            return share(part)
        track.collectives.share = watched
    try:
        for _ in range(STEP + 1):
            ddp(torch.arange(rank, 9)).sum().backward()
    except Exception as error:
        return said(error)
    return ["nothing", "was raised"]


def never_attaches(rank, size):
    ddp = kit.wrap(kit.net())
    if rank == VICTIM:
        stop()
    try:
        kit.attach(ddp, **OPTIONS)
    except Exception as error:
        return said(error)
    return ["nothing", "was raised"]


def plain_pair_of_which_one_rank_has_no_hook(rank, size):
    """As above, where the state starts at the first bucket, in the middle of a backward pass."""
    ddp = kit.wrap(kit.net())
    if rank == VICTIM:
        stop()
    ddp.register_comm_hook(SluiceState(**OPTIONS), hook)
    return survive(ddp, rank)
