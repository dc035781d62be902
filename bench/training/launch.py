"""The training lab's main program: what ./run runs when everything is installed and built."""

from __future__ import annotations

import datetime
import fcntl
import itertools
import json
import os
import pathlib
import platform
import shlex
import shutil
import sys
import time
from typing import Iterable

import sluice
from training import cluster, contestants, options, table, tables_in_docs
from training.cluster import ROOT, Failed
from training.progress import Progress
from training.report import write as write_report

SPACE = 50_000_000  # bytes, for results, report and log


def check_codecs(names: Iterable[str], option: str = "--codecs") -> None:
    """Before anything is started, and by who knows."""
    for contestant in map(contestants.parse, names):
        if contestant.codec is not None:
            try:
                sluice.reduce([[0.0] * 8, [0.0] * 8], codec=contestant.codec)
            except ValueError as error:
                raise Failed(f"{option} {contestant.name}: {error}", 2) from None


def take(out: pathlib.Path):
    """The folder, for as long as what is returned lives: two runs would mix their files."""
    lock = (out / "log.txt").open("a", encoding="utf-8")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise Failed(f"--out {out}: another run writes there; accepted: another folder, or wait"
                     ) from None
    return lock


def check_space(out: pathlib.Path) -> None:
    """A run of minutes must not fail at its end."""
    free = shutil.disk_usage(out).free
    if free < SPACE:
        raise Failed(f"--out {out}: {free / 1e6:.1f} MB are free there and a run writes up to"
                     f" {SPACE / 1e6:.0f} MB; accepted: a folder with more room")


def processor() -> str:
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else platform.machine()}, {len(os.sched_getaffinity(0))} cores"


def described(outcome: cluster.Outcome, arguments: list[str], began: float) -> dict:
    """The results with what a reader must know beside them."""
    found = outcome.results
    return {
        "schema": 1,
        "made": {"when": f"{datetime.datetime.now(datetime.UTC):%Y-%m-%dT%H:%M:%SZ}",
                 "command": shlex.join(["./run", *arguments]), "sluice": sluice.__version__,
                 "torch": found["torch"], "python": platform.python_version(),
                 "machine": processor(), "seconds": time.monotonic() - began},
        "network": {"mode": outcome.mode, "why": outcome.why, "workers": found["workers"]},
        "jobs": found["jobs"],
    }


def train(arguments: list[str]) -> None:
    began, asked = time.monotonic(), options.parse(arguments)
    out = pathlib.Path(asked.out).absolute()
    out.mkdir(parents=True, exist_ok=True)
    lock = take(out)
    results_file, report_file = out / "results.json", out / "report.html"
    for old in (results_file, report_file):  # An old one must not be taken for this run's.
        old.unlink(missing_ok=True)
    raw = str(out / "raw.json")
    check_space(out)
    plan = options.plan(asked, raw)
    check_codecs(itertools.chain(*plan.contestants.values()))
    progress = Progress()
    progress.say(f"starting {asked.workers} workers, each behind a link of its own")
    results = described(cluster.run(plan, asked.workers, out, progress), arguments, began)
    results_file.write_text(json.dumps(results), encoding="utf-8")
    write_report(results, report_file)
    for job in results["jobs"]:
        print("\n" + table.text(job, results["network"]))
    if asked.full:
        progress.say("the same at other rates, steps only")
        swept = cluster.run(options.sweep_plan(raw), asked.workers, out, progress)
        sweep = described(swept, arguments, began)
        (out / "rates.json").write_text(json.dumps(sweep), encoding="utf-8")
        for path in tables_in_docs.write(ROOT, results, sweep):
            progress.say(f"wrote the tables of {path.relative_to(ROOT)}")
    os.unlink(raw)
    lock.close()
    print(f"\nThe report, with charts: {os.path.relpath(report_file)} (one file, needs no network)."
          f" {time.monotonic() - began:.0f} s.")


def main(arguments: list[str]) -> int:
    try:
        train(arguments)
    except Failed as error:
        print(f"run: {error}", file=sys.stderr)
        return error.status
    except OSError as error:
        print(f"run: {error.filename or 'out'}: {error.strerror}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("run: ended by SIGINT", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
