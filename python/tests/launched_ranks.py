"""Runs cases on several ranks: processes that meet in a file and form a Gloo process group.

    launch(3, ["value_cases.f32_is_the_mean_in_order_of_rank"])     from a test
    python python/tests/launched_ranks.py 3 value_cases.NAME …              by hand

A case is a function of a module beside this one, called as case(rank, size) on every rank. It
returns None or a JSON value, raises unittest.SkipTest, or fails by any other exception. Each case
has a process group and a store of its own, so that a failure of one does not reach the next. When a
rank dies, the cases after that one are run by new ranks.

One process imports torch and forks the ranks: torch takes seconds to import, a fork none.
"""

import dataclasses
import datetime
import importlib
import json
import os
import pathlib
import select
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import unittest

TIMEOUT = 60.0  # seconds of a collective, and of the ranks' meeting after a case
LOG_TAIL = 4000  # characters of a rank's output that a report repeats
LEFT = 3  # exit status of a rank that goes because another has ended or does not come

cleanups = []  # of the case in hand; see later()


def later(function):
    """Calls it when the case is over, in reverse order."""
    cleanups.append(function)


@dataclasses.dataclass(frozen=True)
class Report:
    """What one rank said about one case."""

    kind: str  # ok, skip, failed, lost: the rank was gone before it could say anything
    text: str = ""  # reason or traceback
    value: object = None


# --- the test's side ---


def launch(size, cases, *, env=None, timeout=180.0, python=sys.executable, expendable=()):
    """Runs "module.function" cases on so many ranks; {case: [report of rank 0, …]}.

    `expendable` are ranks that need not finish: they are killed once the others have.
    """
    with tempfile.TemporaryDirectory(prefix="sluice-test-") as folder:
        job = {"size": size, "cases": list(cases), "timeout": timeout,
               "expendable": list(expendable)}
        pathlib.Path(folder, "job.json").write_text(json.dumps(job))
        process = subprocess.Popen(
            [python, __file__, "--job", folder], env=_environment(env), text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            start_new_session=True)
        try:
            output, _ = process.communicate(timeout=timeout + 60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            output += "\nthe launcher itself did not end"
        return _collect(folder, job, output)


def _environment(more):
    """Without the Sluice options and the rendezvous of whoever runs the tests."""
    ours = {"SLUICE_LIBRARY", "SLUICE_FORCE_KERNEL"}
    kept = {name: value for name, value in os.environ.items()
            if name in ours or not name.startswith("SLUICE_")}
    for name in ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "LOCAL_RANK"):
        kept.pop(name, None)
    kept.update({"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "PYTHONFAULTHANDLER": "1"})
    kept.update(more or {})
    return kept


def _collect(folder, job, output):
    reports = {name: [] for name in job["cases"]}
    for rank in range(job["size"]):
        said = _said(pathlib.Path(folder, f"rank-{rank}.jsonl"))
        for name in job["cases"]:
            reports[name].append(said.get(name) or Report(
                "lost", _obituary(folder, rank, name, said, output)))
    return reports


def _said(file):
    if not file.exists():
        return {}
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    return {line.pop("case"): Report(**line) for line in lines}


def _obituary(folder, rank, name, said, output):
    ends = pathlib.Path(folder, "ends.json")
    how = json.loads(ends.read_text())[name][rank] if ends.exists() else "was never started"
    log = pathlib.Path(folder, f"rank-{rank}.log")
    text = log.read_text(errors="replace")[-LOG_TAIL:] if log.exists() else ""
    return (f"rank {rank} did not finish {name}: it {how}, after {len(said)} cases"
            f" (the last: {list(said)[-1] if said else 'none'})\n{text}{output[-LOG_TAIL:]}")


# --- the ranks' parent ---


def _supervise(folder):
    job = json.loads(pathlib.Path(folder, "job.json").read_text())
    for name in job["cases"]:
        importlib.import_module(name.rsplit(".", 1)[0])
    _warm_up()
    until = time.monotonic() + job["timeout"]
    first, ends = 0, {}  # ends: of each case that somebody did not finish, how the ranks ended
    while first < len(job["cases"]):
        ended = _run_ranks(folder, job, first, until)
        unfinished = first + _finished_by_all(folder, job, first)
        ends.update(dict.fromkeys(job["cases"][unfinished:], ended))
        # New ranks take the cases after that, unless there is no time left for them.
        first = unfinished + 1 if time.monotonic() < until else len(job["cases"])
    pathlib.Path(folder, "ends.json").write_text(json.dumps(ends))


def _run_ranks(folder, job, first, until):
    """All cases from that one on, or as many as everybody lives through; how each rank ended."""
    children = {}
    for rank in range(job["size"]):
        pathlib.Path(folder, f"ended-{rank}").unlink(missing_ok=True)
    for rank in range(job["size"]):
        pid = os.fork()
        if pid == 0:
            _be_rank(folder, job, rank, first)
        children[pid] = rank
    ends = _await(children, job, folder, until)
    return [ends[rank] for rank in sorted(ends)]


def _finished_by_all(folder, job, first):
    """How many of the cases from that one on."""
    said = [_said(pathlib.Path(folder, f"rank-{rank}.jsonl")) for rank in range(job["size"])]
    missing = (number for number, name in enumerate(job["cases"][first:])
               if not all(name in reports for reports in said))
    return next(missing, len(job["cases"]) - first)


def _warm_up():
    """What DDP imports when it is first used, once for all ranks."""
    try:
        importlib.import_module("torch._dynamo")
    except ImportError:
        pass  # An older torch, which has no use for it.


def _await(children, job, folder, until):
    """{rank: how it ended}; kills who is late, and who is expendable when the others are done."""
    ends = {}
    doors = {os.pidfd_open(pid): pid for pid in children}
    poll = select.poll()
    for door in doors:
        poll.register(door, select.POLLIN)
    while doors:
        left = until - time.monotonic()
        opened = poll.poll(1000 * left) if left > 0 else []
        for door, _ in opened:
            poll.unregister(door)
            pid = doors.pop(door)
            os.close(door)
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            pathlib.Path(folder, f"ended-{children[pid]}").touch()
            ends.setdefault(children[pid], _how(code))
        waiting = {children[pid]: pid for pid in doors.values()}
        if not opened or set(waiting) <= set(job["expendable"]):
            why = "" if opened else " for being late"
            for rank, pid in waiting.items():
                if rank not in ends:
                    ends[rank] = f"was killed by the launcher{why}"
                    os.kill(pid, signal.SIGKILL)
            until = time.monotonic() + TIMEOUT
    return ends


def _how(code):
    if code == LEFT:
        return "went because another rank had ended or did not come"
    return f"exited with {code}" if code >= 0 else f"died of signal {-code}"


# --- a rank ---


def _be_rank(folder, job, rank, first):
    """Never returns."""
    code = 1
    try:
        log = os.open(f"{folder}/rank-{rank}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(job["size"]))
        code = _run_all(folder, job, rank, first)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _run_all(folder, job, rank, first):
    """The exit status."""
    import torch.distributed as dist

    store = dist.FileStore(f"{folder}/store-{first}", job["size"])
    with open(f"{folder}/rank-{rank}.jsonl", "a", buffering=1) as said:
        for number, name in list(enumerate(job["cases"]))[first:]:
            if absent := _meet(store, number, rank, job["size"], folder):
                print(f"{name}: rank {', '.join(map(str, absent))} did not come", flush=True)
                return LEFT
            report = _run_one(store, number, name, rank, job["size"])
            said.write(json.dumps({"case": name, **dataclasses.asdict(report)}) + "\n")
    return 0


def _meet(store, number, rank, size, folder):
    """Before each case; the ranks that have ended or are not there in time."""
    store.set(f"ready/{number}/{rank}", "1")
    until = time.monotonic() + TIMEOUT * 1.5
    return [other for other in range(size)
            if not _came(store, f"ready/{number}/{other}", f"{folder}/ended-{other}", until)]


def _came(store, key, end, until):
    while True:
        over = os.path.exists(end) or time.monotonic() > until
        try:
            store.wait([key], datetime.timedelta(seconds=1))
            return True
        except Exception:  # The class differs between versions of torch.
            if over:
                return False


def _run_one(store, number, name, rank, size):
    import torch.distributed as dist

    # All ranks are done with the case before, so nobody still connects to a group that goes away.
    _forget_group()
    module, function = name.rsplit(".", 1)
    began = time.monotonic()
    try:
        dist.init_process_group("gloo", store=dist.PrefixStore(f"case/{number}", store), rank=rank,
                                world_size=size, timeout=datetime.timedelta(seconds=TIMEOUT))
        # Nor does anybody leave, which a case may do at once, before all are connected.
        store.set(f"up/{number}/{rank}", "1")
        store.wait([f"up/{number}/{other}" for other in range(size)],
                   datetime.timedelta(seconds=TIMEOUT))
        value = getattr(importlib.import_module(module), function)(rank, size)
        report = Report("ok", value=value)
        json.dumps(value)
    except unittest.SkipTest as reason:
        report = Report("skip", str(reason))
    except BaseException:
        report = Report("failed", traceback.format_exc())
    problem = _clean_up()
    if problem and report.kind == "ok":
        report = Report("failed", problem)
    if report.kind == "failed":
        _forget_group()  # Who waits for this rank fails at once.
    print(f"{name}: {report.kind}, {time.monotonic() - began:.2f} s", flush=True)
    return report


def _forget_group():
    import torch.distributed as dist

    if dist.is_initialized():
        dist.destroy_process_group()


def _clean_up():
    """The traceback of the first thing that went wrong, if any."""
    problem = ""
    for step in reversed(cleanups):
        try:
            step()
        except BaseException:
            problem = problem or traceback.format_exc()
    cleanups.clear()
    return problem


def main(arguments):
    if len(arguments) == 2 and arguments[0] == "--job":
        _supervise(arguments[1])
        return 0
    if len(arguments) < 2 or not arguments[0].isdigit():
        print(__doc__, file=sys.stderr)
        return 2
    bad = 0
    for name, reports in launch(int(arguments[0]), arguments[1:]).items():
        for rank, report in enumerate(reports):
            bad += report.kind in ("failed", "lost")
            print(f"{name}, rank {rank}: {report.kind} {report.text or report.value}")
    return int(bad > 0)


if __name__ == "__main__":
    # Once as a module of this name, so that cases that import it see the same one.
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    sys.exit(importlib.import_module("launched_ranks").main(sys.argv[1:]))
