"""Runs tasks one after the other on ranks that share a GPU; new ranks go on where some end.

A worker is the script itself with --worker: it gets the tasks as JSON and calls serve(). Rank 0
prints a line for each task that is done.
"""

import datetime
import json
import os
import selectors
import socket
import subprocess
import sys
import time
import traceback

MARK = "result: "  # before rank 0's lines
START_SECONDS = 90.0  # for ranks to import torch and to meet


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run(script, ranks, tasks, seconds, show):
    """Calls show(task, result), with {"error": …} for what did not come through in so many
    seconds."""
    left = list(tasks)
    while left:
        done = _launch(script, ranks, left, seconds, show)
        left = left[done:]
        if left:
            show(left[0], {"error": "the ranks ended, or it took too long"})
            left = left[1:]


def _launch(script, ranks, tasks, seconds, show):
    """How many tasks were done before the ranks ended."""
    port = free_port()
    processes = []
    for rank in range(ranks):
        env = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(ranks), "LOCAL_RANK": "0",
               "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "NCCL_HOSTID": f"rank-{rank}"}
        processes.append(subprocess.Popen(
            [sys.executable, script, "--worker", json.dumps(tasks)], env=env, text=True,
            stdout=subprocess.PIPE if rank == 0 else sys.stderr))
    try:
        return _read(processes, tasks, seconds, show)
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
            process.wait()


def _read(processes, tasks, seconds, show):
    done, until = 0, time.monotonic() + START_SECONDS + seconds
    stream = processes[0].stdout
    os.set_blocking(stream.fileno(), False)
    selector = selectors.DefaultSelector()
    selector.register(stream, selectors.EVENT_READ)
    text = ""
    while done < len(tasks) and time.monotonic() < until:
        if not selector.select(timeout=0.5):
            if any(process.poll() not in (None, 0) for process in processes):
                return done
            continue
        chunk = stream.read()
        if not chunk:
            return done
        *lines, text = (text + chunk).split("\n")
        for line in lines:
            if not line.startswith(MARK):
                print(line, flush=True)
                continue
            show(tasks[done], json.loads(line[len(MARK):]))
            done, until = done + 1, time.monotonic() + seconds
    _let_go(processes)
    return done


def _let_go(processes):
    until = time.monotonic() + 15
    while any(process.poll() is None for process in processes) and time.monotonic() < until:
        time.sleep(0.1)


def serve(tasks, act):
    """A worker: act(task) gives what rank 0 prints. An error ends it, on every rank."""
    import torch
    import torch.distributed as dist

    torch.cuda.set_device(0)
    dist.init_process_group("nccl", timeout=datetime.timedelta(seconds=120))
    rank = dist.get_rank()
    for task in tasks:
        try:
            result = act(task)
        except Exception:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
        if rank == 0:
            print(MARK + json.dumps(result), flush=True)
        dist.barrier()
    sys.stdout.flush()
    os._exit(0)  # whatever still hangs
