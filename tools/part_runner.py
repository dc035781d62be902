"""Runs the parts of ./test: several at a time, each when what it needs has passed, and remembers.

A part that passed is remembered under a digest of all that its outcome depends on. While that is
the same, it is not run again: its cases still count, and its line says so. Every line has the wall
time, and the processor time of all processes of the part. A part that takes too long is ended and
has failed: one that hangs must not keep the others from being told.
"""

import collections
import dataclasses
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time

import house

NICE = 5  # Of builds: tests wait for each other, and go first; but all of them wait for builds.
TESTS_AT_ONCE = 2
SHOWN = 60  # Lines of a failed part's output.
SECONDS = 1800  # That a part may take; several times what the longest does.
TOO_LONG = 124  # timeout's exit status.


@dataclasses.dataclass(frozen=True)
class Part:
    """One thing that must pass. `command` runs from the root of the tree."""

    name: str
    command: tuple
    counts: object = None     # (output, status) -> (cases that passed, that failed, skipped)
    after: tuple = ()         # Names of parts that must have passed.
    inputs: tuple = ()        # What the outcome depends on, as files_of(); none: always run.
    environment: tuple = ()   # (name, value) pairs.
    is_build: bool = False    # One at a time, with all cores, behind the tests.
    shards: int = 1           # Processes that share the cases of a GoogleTest binary.


@dataclasses.dataclass
class Outcome:
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    wall: float = 0.0
    cores: float = 0.0
    remembered: bool = False


# --- counting cases ---------------------------------------------------------------------------


def one_check(output, status):
    return (1, 0, 0) if status == 0 else (0, 1, 0)


def gtest_cases(output, status):
    ok = len(re.findall(r"^\[       OK \]", output, re.M))
    bad = len(re.findall(r"^\[  FAILED  \] .* \(", output, re.M))
    # A process that died without saying which case failed, or ran nothing, is a failure too.
    if bad == 0 and (status != 0 or ok == 0):
        bad = 1
    return ok, bad, len(re.findall(r"^\[  SKIPPED \] .* \(", output, re.M))


def unittest_cases(output, status):
    ran = sum(int(n) for n in re.findall(r"^Ran (\d+) tests? in ", output, re.M)[-1:])
    last = "".join(re.findall(r"^(?:OK|FAILED) \((.*)\)$", output, re.M)[-1:])
    found = {kind: int(n) for kind, n in re.findall(r"(\w+)=(\d+)", last)}
    bad, skipped = found.get("failures", 0) + found.get("errors", 0), found.get("skipped", 0)
    if bad == 0 and (status != 0 or ran == 0):
        bad = 1
    return max(0, ran - skipped - bad), bad, skipped


# --- what an outcome depends on ---------------------------------------------------------------


def files_of(root, path):
    """Of a file, of a folder and all below it, or of a pattern such as src/*/README.md."""
    if "*" in path:
        return sorted(root.glob(path))
    where = root / path
    if where.is_dir():
        return sorted(p for p in where.rglob("*") if p.is_file() and "__pycache__" not in p.parts)
    return [where] if where.exists() else []


def key_of(part, root):
    """None: the part has no inputs that are known, and always runs."""
    if not part.inputs:
        return None
    found = [(os.path.relpath(f, root), f.read_bytes()) for p in part.inputs
             for f in files_of(root, p)]
    return house.digest(part.command, part.environment, *(x for pair in found for x in pair))


# --- running ------------------------------------------------------------------------------------


class Runner:
    def __init__(self, parts, root, logs, remembers=True, seconds=SECONDS):
        names = [part.name for part in parts]
        assert len(set(names)) == len(names), names
        assert all(a in names for part in parts for a in part.after), parts
        self.parts, self.root, self.logs, self.remembers = parts, root, logs, remembers
        self.seconds = seconds
        self.outcomes = {}
        self._changed = threading.Condition()
        self._running = []
        self._starting = threading.Lock()  # A process that runs is always in the list, …
        self._processes = []
        self._is_over = False  # … and none is started once all were ended.
        logs.mkdir(parents=True, exist_ok=True)

    def run(self):
        """All parts; prints a line for each as it ends. The parts that failed."""
        try:
            return self._run()
        except BaseException:  # Ctrl-C goes to this process alone: timeout makes groups of theirs.
            with self._starting:
                self._is_over = True
                for process in self._processes:
                    end(process)
            raise

    def _run(self):
        waiting = collections.deque(self.parts)
        with self._changed:
            while waiting or self._running:
                for part in [p for p in waiting if self._may_start(p)]:
                    waiting.remove(part)
                    self._running.append(part)
                    threading.Thread(target=self._work, args=(part,), daemon=True).start()
                lost = [p for p in waiting if any(self._is_lost(a) for a in p.after)]
                for part in lost:
                    waiting.remove(part)
                    self.outcomes[part.name] = Outcome(failed=1)
                    say(part.name, "NOT RUN: it needs what has failed")
                if lost:
                    continue
                self._changed.wait()
        return [p for p in self.parts if self.outcomes[p.name].failed]

    def _is_lost(self, name):
        return name in self.outcomes and self.outcomes[name].failed

    def _may_start(self, part):
        alike = sum(p.is_build == part.is_build for p in self._running)
        return alike < (1 if part.is_build else TESTS_AT_ONCE) and \
            all(a in self.outcomes and not self.outcomes[a].failed for a in part.after)

    def _work(self, part):
        try:
            outcome, log = self._outcome_of(part)
        except BaseException as error:  # A part that cannot even start must not hang the rest.
            outcome, log = Outcome(failed=1), None
            print(f"{part.name}: {error!r}", file=sys.stderr)
        with self._changed:
            self.outcomes[part.name] = outcome
            self._running.remove(part)
            report(part, outcome, log)
            self._changed.notify_all()

    def _outcome_of(self, part):
        log = self.logs / (re.sub(r"\W", "_", part.name) + ".log")
        memory = self.logs / (re.sub(r"\W", "_", part.name) + ".passed")
        key = key_of(part, self.root) if self.remembers else None
        if key is not None and memory.exists():
            said = json.loads(memory.read_text())
            if said["key"] == key:
                return Outcome(said["passed"], 0, said["skipped"], 0.0, 0.0, True), log
        memory.unlink(missing_ok=True)
        started = time.monotonic()
        results = self._execute(part, log)
        outcome = Outcome(wall=time.monotonic() - started)
        count = part.counts or one_check
        for output, status, cores in results:
            passed, failed, skipped = count(output, status)
            outcome.passed += passed
            outcome.failed += failed
            outcome.skipped += skipped
            outcome.cores += cores
        if key is not None and not outcome.failed:
            memory.write_text(json.dumps({"key": key, "passed": outcome.passed,
                                          "skipped": outcome.skipped}))
        return outcome, log

    def _execute(self, part, log):
        """(output, exit status, processor seconds) of each process."""
        environment = {**os.environ, **dict(part.environment)}
        started = []
        for shard in range(part.shards):
            file = log.with_suffix(f".{shard}.log") if part.shards > 1 else log
            if part.shards > 1:
                environment.update(GTEST_TOTAL_SHARDS=str(part.shards),
                                   GTEST_SHARD_INDEX=str(shard))
            nice = ("nice", "-n", str(NICE)) if part.is_build else ()
            command = ("timeout", "--kill-after=30", str(self.seconds), *nice, *part.command)
            with open(file, "wb") as out, self._starting:
                if self._is_over:
                    raise RuntimeError("interrupted")
                started.append((file, subprocess.Popen(
                    command, cwd=self.root, env=dict(environment), stdin=subprocess.DEVNULL,
                    stdout=out, stderr=subprocess.STDOUT)))
                self._processes.append(started[-1][1])
        results = []
        for file, process in started:
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            if process.returncode == TOO_LONG:
                with open(file, "a", encoding="utf-8") as out:
                    out.write(f"\nended after {self.seconds} s: what was in hand is above\n")
            results.append((file.read_text(errors="replace"), process.returncode,
                            usage.ru_utime + usage.ru_stime))
        return results


def end(process):
    """With all of its group, which timeout makes: timeout knows its child only after the child has
    begun to run."""
    try:
        os.killpg(process.pid, signal.SIGTERM)
    except ProcessLookupError:
        process.terminate()


def say(name, what):
    print(f"   {name:<58} {what}", flush=True)


def report(part, outcome, log):
    cases = f": {outcome.passed} cases" if part.counts else ""
    skipped = f", {outcome.skipped} skipped" if outcome.skipped else ""
    took = "as before, not run again" if outcome.remembered else \
        f"{outcome.wall:.0f} s, {outcome.cores:.0f} core-s"
    if not outcome.failed:
        say(f"{part.name}{cases}{skipped}", f"ok ({took})")
        return
    say(f"{part.name}: {outcome.failed} bad", f"FAILED ({took}; log: {log})")
    for file in sorted(log.parent.glob(log.stem + ".*log")) if log else ():
        text = file.read_text(errors="replace")
        bad = re.findall(r"(?:^.*\n){0,12}^\[  FAILED  \] .* \(.*$", text, re.M)
        print("\n".join(bad[:5]))
        print("\n".join(text.splitlines()[-SHOWN:]), flush=True)
