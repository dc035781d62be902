"""Jobs of which a rank ends in the middle of a step; see test_exit.py.

    python exit_cases.py FOLDER

Ranks are forks that end as interpreters do; FOLDER gets what they say and their exit codes.
"""

import datetime
import json
import os
import pathlib
import signal
import sys

import ddp_kit as kit
import torch.distributed as dist

import sluice.torch

VICTIM = 0
SIZE = 3
STEP = 2  # DDP has rebuilt its buckets by then
EXIT = 7


def interrupt():
    """As Ctrl-C does."""
    # A shell that runs tests in the background has it ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.kill(os.getpid(), signal.SIGINT)


def leave():
    sys.exit(EXIT)


def fail():
    raise OSError("the disk is full")


ENDS = {"interrupted": interrupt, "left": leave, "raised": fail}
CASES = [f"{end}-{carrier}" for end in ENDS for carrier in ("torch", "stream")]


def be_rank(name, rank, folder):
    end, carrier = name.split("-")
    store = dist.FileStore(f"{folder}/{name}", SIZE)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=SIZE,
                            timeout=datetime.timedelta(seconds=300))
    ddp = kit.wrap(kit.net(), bucket_cap_mb=0.02)
    handle = sluice.torch.attach(ddp, "tide", min_size=0, carrier=carrier)
    state, submit = handle.state, handle.state.submit

    def watched(bucket):
        """The end comes when one bucket of the step is on its way and others are still to come."""
        if rank == VICTIM and state.step == STEP and bucket.index() == 1:
            ENDS[end]()
        return submit(bucket)

    state.submit = watched
    kit.train(ddp, rank, STEP + 2)


def main(folder):
    """Returns in the ranks, too, each of which then ends by itself."""
    codes = {}
    for name in CASES:
        ranks = {}
        for rank in range(SIZE):
            pid = os.fork()
            if pid == 0:
                log = os.open(f"{folder}/{name}-{rank}.log", os.O_WRONLY | os.O_CREAT, 0o600)
                os.dup2(log, 2)
                return be_rank(name, rank, folder)
            ranks[pid] = rank
        ends = {ranks[pid]: os.waitstatus_to_exitcode(status)
                for pid, status in (os.waitpid(pid, 0) for pid in ranks)}
        codes[name] = [ends[rank] for rank in range(SIZE)]
    pathlib.Path(folder, "codes.json").write_text(json.dumps(codes))


if __name__ == "__main__":
    main(sys.argv[1])
