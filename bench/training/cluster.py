"""Runs a plan: the lab's workers, in each of them torchrun, in that a rank."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import re
import signal
import subprocess
import sys

from lab_parts import system
from training.plan import Plan
from training.progress import Progress

ROOT = pathlib.Path(__file__).resolve().parents[2]
GRACE_S = 8  # for the ranks that are left to say whom they miss
TORCHRUN = ('exec "$0" -m torch.distributed.run --nnodes "$WORLD_SIZE" --node-rank "$RANK"'
            ' --nproc-per-node 1 --master-addr "$MASTER_ADDR" --master-port "$MASTER_PORT"'
            ' -m training.worker "$1"')

# The last line of a traceback, as torch prints it with the rank before it.
ERROR = r"\[\d+\] \[rank(\d+)\]: (\w[\w.]*(?:Error|Exit|Exception)\b.*)"


class Failed(Exception):
    """What happened, in one line, and the exit status."""

    def __init__(self, what: str, status: int = 1) -> None:
        super().__init__(what)
        self.status = status


@dataclasses.dataclass
class Outcome:
    """What the workers wrote, and the network they had."""

    results: dict
    mode: str
    why: str | None  # there is no other


def run(plan: Plan, workers: int, out: pathlib.Path, progress: Progress) -> Outcome:
    """Trains as planned. Everything that anybody says goes to out/log.txt; what ended in an error,
    or was ended, raises Failed when nothing of it is left."""
    plan_file, lab_file, log_file = out / "plan.json", out / "lab.json", out / "log.txt"
    plan.write(plan_file)
    command = [sys.executable, "-B", str(ROOT / "tools" / "lab"), "--workers", str(workers),
               "--rate", "unlimited", "--grace", str(GRACE_S), "--json", str(lab_file), "--",
               "sh", "-c", TORCHRUN, sys.executable, str(plan_file)]
    lab = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, env=environment(), text=True,
                           errors="replace", preexec_fn=system.die_with_parent)
    lines = _Log(log_file, progress)
    try:
        _follow(lab, lines)
    finally:
        lab.stdout.close()
        lines.close()
    if lab.returncode:
        raise Failed(*lines.verdict(lab.returncode))
    found = json.loads(pathlib.Path(plan.results).read_text(encoding="utf-8"))
    return Outcome(found, json.loads(lab_file.read_text(encoding="utf-8"))["mode"], lines.why)


def _follow(lab: subprocess.Popen, lines: _Log) -> None:
    """To the lab's end. It gets the signals that come here, and ends what it started."""
    def pass_on(number, _frame):
        lines.ended_by = number
        lab.send_signal(number)
    before = {number: signal.signal(number, pass_on)
              for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        for line in lab.stdout:
            lines.take(line.rstrip("\n"))
        lab.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def environment() -> dict[str, str]:
    """Of a rank."""
    paths = [str(ROOT / folder) for folder in ("python", "bench", "tools")]
    mine = {name: value for name, value in os.environ.items()
            # A job must not be changed by what a user set for jobs of their own.
            if not name.startswith(("SLUICE_", "TORCHELASTIC_")) or name == "SLUICE_LIBRARY"}
    return mine | {"PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1",
                   "PYTHONDONTWRITEBYTECODE": "1"}


class _Log:
    """The lab's output: events for the progress, everything else for the file."""

    def __init__(self, path: pathlib.Path, progress: Progress) -> None:
        self._file = path.open("w", encoding="utf-8")
        self._path, self._progress = path, progress
        self._ended: dict[int, int] = {}  # rank, and how torchrun says that it ended
        self._said: list[str] = []
        self.why: str | None = None
        self.ended_by: int | None = None

    def take(self, line: str) -> None:
        event = line.removeprefix("[0] @")
        if event != line:
            self._progress.take(json.loads(event))
            return
        print(line, file=self._file, flush=True)
        if found := re.match(r"lab: (.*): all workers on loopback", line):
            self.why = found[1]
            self._progress.say(line.removeprefix("lab: "))
        if found := re.match(r"\[(\d+)\]\s+exitcode\s*: (-?\d+)", line):
            self._ended.setdefault(int(found[1]), int(found[2]))
        if found := re.match(ERROR, line):
            self._said.append(f"rank {found[1]}: {found[2]}")

    def verdict(self, status: int) -> tuple[str, int]:
        """A rank that a signal ended comes before those that only missed it."""
        where, log = self._progress.where, f"everything that was said is in {self._path}"
        if self.ended_by is not None:
            return f"ended by {signal.Signals(self.ended_by).name}", 128 + self.ended_by
        for rank, code in sorted(self._ended.items()):
            if code < 0:
                name = signal.Signals(-code).name
                return f"worker {rank} was ended by {name} ({where}); {log}", 1
        if self._said:
            return f"{self._said[0]} ({where}); {log}", 1
        return f"the workers ended with status {status} ({where}); {log}", 1

    def close(self) -> None:
        self._file.close()
