"""The lab's jobs over many seeds on loopback, several trainings at once: bench/training_quality."""

from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import itertools
import json
import os
import pathlib
import queue
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

from training import cluster, contestants, options, paired
from training.cluster import ROOT, Failed
from training.plan import UNLIMITED, Plan

STEPS = {"gpt": 60, "clicks": 100, "heads": 80}
NOTES = 10              # of the held-out loss in a training
HELD_OUT_TIMES = 8      # as much as in ./run: nobody waits for a clock here


def parser() -> argparse.ArgumentParser:
    made = options.Parser(prog="bench/training_quality", allow_abbrev=False, description=(
        "Trains one of the lab's jobs with every codec and seed, on loopback, and compares the"
        " losses seed by seed. A seed sets the first weights and the order of the data, the same"
        " for all codecs."))
    made.add_argument("--job", type=options.job, default="gpt", metavar="JOB",
                      help=f"{', '.join(options.JOBS)}; default gpt")
    made.add_argument("--codec", action="append", required=True, type=options.contestant,
                      metavar="NAME", help=f"repeatable: {contestants.ACCEPTED}. ddp-fp32 always"
                      " takes part; differences are to it and to the first codec")
    made.add_argument("--seeds", type=options.count(1, 100), default=3, metavar="N",
                      help="default 3")
    made.add_argument("--first-seed", type=options.count(1, 10_000), default=1, metavar="N",
                      help="default 1")
    made.add_argument("--steps", type=options.count(20, 100_000), metavar="N", help="default "
                      + ", ".join(f"{steps} ({job})" for job, steps in STEPS.items()))
    made.add_argument("--workers", type=options.count(2, options.WORKERS_MAX), default=4,
                      metavar="N", help=f"2 to {options.WORKERS_MAX}; default 4")
    made.add_argument("--parallel", type=options.count(1, 256), metavar="K",
                      help="trainings at once, each on cores of its own where there are enough;"
                           " default: as many as have a core for every worker, at least one")
    made.add_argument("--json", metavar="FILE", help="write everything there too")
    return made


class Trainings:
    """Runs trainings side by side. When one fails, or at Ctrl-C, the others are ended."""

    def __init__(self, asked: argparse.Namespace, folder: pathlib.Path) -> None:
        self._asked, self._folder = asked, folder
        self._steps = asked.steps or STEPS[asked.job]
        cores = sorted(os.sched_getaffinity(0))
        self._parallel = asked.parallel or max(1, len(cores) // asked.workers)
        self._slots: queue.SimpleQueue[set[int]] = queue.SimpleQueue()
        share = max(1, len(cores) // self._parallel)
        for slot in range(self._parallel):
            first = slot * share % len(cores)
            self._slots.put(set(cores[first:first + share]))
        self._lock, self._ended = threading.Lock(), False
        self._processes: set[subprocess.Popen] = set()

    def run(self, names: list[str], seeds: range) -> list[paired.Run]:
        """All of them, seed by seed."""
        every, began = list(itertools.product(seeds, names)), time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(self._parallel) as pool:
            try:
                futures = [pool.submit(self._train, name, seed) for seed, name in every]
                for number, future in enumerate(concurrent.futures.as_completed(futures)):
                    done = future.result()
                    print(f"{time.monotonic() - began:6.0f} s  {number + 1}/{len(every)}"
                          f"  seed {done.seed}  {done.contestant}  " + "  ".join(
                              f"{name} {loss:.4f}" for name, loss in done.losses.items()),
                          file=sys.stderr, flush=True)
            except BaseException:
                self._end()
                raise
        return [future.result() for future in futures]

    def _train(self, name: str, seed: int) -> paired.Run:
        cores = self._slots.get()
        try:
            with tempfile.TemporaryDirectory(dir=self._folder) as folder:
                return self._train_on(cores, name, seed, pathlib.Path(folder))
        finally:
            self._slots.put(cores)

    def _train_on(self, cores: set[int], name: str, seed: int, folder: pathlib.Path) -> paired.Run:
        plan_file, results, log = (folder / file for file in ("plan", "results", "log"))
        job = self._asked.job
        Plan(jobs={job: self._steps}, contestants={job: [name]}, seeds=(seed,), rates=(UNLIMITED,),
             piece=max(options.PIECE, self._steps // NOTES), trace_rounds=0,
             seconds={}, results=str(results), held_out_times=HELD_OUT_TIMES).write(plan_file)
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr",
                   "127.0.0.1", "--nproc-per-node", str(self._asked.workers),
                   "-m", "training.worker", str(plan_file)]
        with log.open("w", encoding="utf-8") as said:
            process = self._start(command, cores, said)
            status = process.wait()
        with self._lock:
            self._processes.discard(process)
        if status:
            raise Failed(f"{name}, seed {seed}: " + what_failed(
                log.read_text(encoding="utf-8", errors="replace"), status))
        [found] = json.loads(results.read_text(encoding="utf-8"))["jobs"]
        return paired.Run.of(found)

    def _start(self, command: list[str], cores: set[int], said) -> subprocess.Popen:
        with self._lock:
            if self._ended:
                raise Failed("ended")
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT,
                env=cluster.environment() | {"GLOO_SOCKET_IFNAME": "lo"},
                preexec_fn=lambda: os.sched_setaffinity(0, cores))
            self._processes.add(process)
        return process

    def _end(self) -> None:
        """torchrun ends its ranks when it is asked to."""
        with self._lock:
            self._ended = True
            for process in self._processes:
                process.send_signal(signal.SIGTERM)


def what_failed(said: str, status: int) -> str:
    """The first error that a rank told, or all that there is."""
    found = re.search(r"\[rank\d+\]: (\w[\w.]*(?:Error|Exit|Exception)\b.*)", said)
    return found[0] if found else f"status {status}:\n{said}"


def use_built_library() -> None:
    built = ROOT / "build" / "release" / "libsluice.so"
    if built.exists():
        os.environ.setdefault("SLUICE_LIBRARY", str(built))


def compare(arguments: list[str]) -> None:
    asked = parser().parse_args(arguments)
    use_built_library()
    from training import launch  # Loads the library.
    names = contestants.in_order(asked.codec)
    launch.check_codecs(names, "--codec")
    seeds = range(asked.first_seed, asked.first_seed + asked.seeds)
    with tempfile.TemporaryDirectory(prefix="sluice-quality-") as folder:
        runs = Trainings(asked, pathlib.Path(folder)).run(names, seeds)
    rows = paired.rows(runs)
    print(f"{asked.job}, {asked.steps or STEPS[asked.job]} steps, {asked.workers} workers, seeds"
          f" {seeds[0]} to {seeds[-1]}; ± is one standard error over the seeds.\n")
    print(paired.table(rows))
    if asked.json:
        pathlib.Path(asked.json).write_text(json.dumps(
            {"job": asked.job, "steps": asked.steps or STEPS[asked.job], "workers": asked.workers,
             "machine": launch.processor(), "rows": [dataclasses.asdict(row) for row in rows],
             "runs": [dataclasses.asdict(run) for run in runs]}, indent=1), encoding="utf-8")


def main(arguments: list[str]) -> int:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end)
    try:
        compare(arguments)
    except Failed as error:
        print(f"training_quality: {error}", file=sys.stderr)
        return error.status
    return 0


def _end(number: int, _frame: object) -> None:
    raise Failed(f"ended by {signal.Signals(number).name}", 128 + number)
