"""Runs a part's cases on ranks that share a GPU: python3 tests/device/on_gpu.py PART [CASE…]

Prints a line for each case and number of ranks, and at the end "N passed, N failed".
"""

import re
import sys
import time

import ddp_kit as kit
import gpu_kill_cases
import gpu_ranks_cases
import gpu_resume_cases
import gpu_rules_cases
from launched_ranks import launch

LIMIT = 200.0  # seconds of all cases of a number of ranks
KILL_LIMIT = 90.0  # and of one that ends with a rank
PARTS = {"ranks": (gpu_ranks_cases, (2, 4)), "resume": (gpu_resume_cases, (2,)),
         "rules": (gpu_rules_cases, (2,))}


def show(name, size, problems):
    """Whether it has failed. `problems`: None of a case that was skipped."""
    if problems is None:
        print(f"skipped: {name.partition('.')[2]}, {size} ranks", flush=True)
        return False
    word = "passed" if not problems else "FAILED"
    print(f"{word}: {name.partition('.')[2]}, {size} ranks", flush=True)
    for problem in problems:
        print("    " + problem.strip().replace("\n", "\n    "), flush=True)
    return bool(problems)


def problems_of(reports):
    """Of a case that all ranks come through alike; None: it was skipped."""
    if all(report.kind == "skip" for report in reports):
        print(f"    {reports[0].text}", flush=True)
        return None
    bad = [f"rank {rank}, {report.kind}: {report.text[-3000:]}"
           for rank, report in enumerate(reports) if report.kind != "ok"]
    values = [report.value for report in reports]
    if not bad and any(value != values[0] for value in values):
        bad = [f"ranks returned different values: {values}"]
    return bad


def problems_of_victims(reports, plan):
    """Of a case after which one rank is gone: the others name it."""
    victim, end, patterns, seconds = plan
    bad = [] if end in reports[victim].text else \
        [f"the victim, rank {victim}, {reports[victim].kind}: {reports[victim].text[-2000:]}"]
    for rank, report in enumerate(reports):
        if rank == victim:
            continue
        if report.kind != "ok":
            bad.append(f"rank {rank}, {report.kind}: {report.text[-3000:]}")
            continue
        text, took = report.value
        bad += [f"rank {rank}: {pattern!r} is not in: {text[-2000:]}"
                for pattern in (*patterns, rf"missing: rank {victim}\b")
                if not re.search(pattern, text)]
        if took > seconds:
            bad.append(f"rank {rank} knew after {took:.1f} s; accepted: {seconds:g} s")
    return bad


def main(arguments):
    part, chosen = arguments[0], arguments[1:]
    began, count, failed, skipped = time.monotonic(), 0, 0, 0
    if part == "kill":
        for name, plan in gpu_kill_cases.PLAN.items():
            if chosen and name not in chosen:
                continue
            full = f"gpu_kill_cases.{name}"
            stops = [plan[0]] if "launcher" in plan[1] else []
            reports = launch(gpu_kill_cases.SIZE, [full], timeout=KILL_LIMIT, expendable=stops)
            count += 1
            failed += show(full, gpu_kill_cases.SIZE, problems_of_victims(reports[full], plan))
    else:
        module, sizes = PARTS[part]
        for size in sizes:
            names = [name for name in kit.cases_of(module, size)
                     if not chosen or name.partition(".")[2] in chosen]
            for name, reports in launch(size, names, timeout=LIMIT).items():
                count += 1
                problems = problems_of(reports)
                skipped += problems is None
                failed += show(name, size, problems)
    print(f"{part}: {time.monotonic() - began:.0f} s")
    over = f", {skipped} skipped" if skipped else ""
    print(f"{count - failed - skipped} passed, {failed} failed{over}")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
