"""What the table and the headline say. A figure that was not measured is None.

Only seeds that did not fail count; a configuration is compared with the reference (the job's first)
seed by seed.
"""

import dataclasses
import math
import statistics

from .markup import number, percent


@dataclasses.dataclass(frozen=True)
class Spread:
    """Over seeds."""

    median: float
    low: float
    high: float
    count: int


@dataclasses.dataclass(frozen=True)
class Row:
    index: int
    title: str
    kind: str
    seed_count: int
    failures: list              # (seed, what happened)
    seconds: Spread | None      # to the target loss
    steps: Spread | None
    speed_up: Spread | None
    rate: Spread | None         # steps per second
    sent: Spread | None         # bytes per step
    loss: Spread | None
    difference: Spread | None   # of the loss, as a share of the reference's


def without_nonsense(value):
    """The same with None for what JSON cannot say: NaN and the infinities."""
    if isinstance(value, dict):
        return {key: without_nonsense(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_nonsense(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def title_of(configuration):
    return str(configuration.get("title") or configuration.get("name") or "?")


def seeds_of(configuration):
    """Those that did not fail, by number."""
    return {seed.get("seed"): seed for seed in configuration.get("seeds") or []
            if not seed.get("failed")}


def spread(values):
    found = [value for value in values if value is not None]
    return Spread(statistics.median(found), min(found), max(found), len(found)) if found else None


def ratio(above, below):
    return above / below if above is not None and below else None


def rows_of(job):
    configurations = job.get("configurations") or []
    reference = seeds_of(configurations[0]) if configurations else {}
    return [row_of(index, configuration, reference)
            for index, configuration in enumerate(configurations)]


def heads_of(job):
    """(name, the job as if that head's loss were its only one) of every head."""
    heads = job.get("heads") or []
    names = [str(head.get("name") or "?") for head in heads]
    return [(name, one_head(job, place, name)) for place, name in enumerate(names)]


def one_head(job, place, name):
    def of(seed):
        losses = [(losses or [])[place:place + 1] or [None] for losses in seed.get("heads") or []]
        points = [[*point[:2], loss] for point, [loss] in zip(seed.get("held_out") or [], losses)]
        return seed | {"held_out": points, "final_loss": losses[-1][0] if losses else None}
    return job | {"loss_name": f"held-out loss of {name}", "configurations": [
        configuration | {"seeds": [of(seed) for seed in configuration.get("seeds") or []]}
        for configuration in job.get("configurations") or []]}


def row_of(index, configuration, reference):
    every = configuration.get("seeds") or []
    pairs = [(seed, reference.get(name, {})) for name, seed in seeds_of(configuration).items()]

    def of(key):
        return spread(seed.get(key) for seed, _ in pairs)
    losses = [ratio(seed.get("final_loss"), other.get("final_loss")) for seed, other in pairs]
    return Row(
        index, title_of(configuration), configuration.get("kind"), len(every),
        [(seed.get("seed"), seed["failed"]) for seed in every if seed.get("failed")],
        seconds=of("seconds_to_target"), steps=of("steps_to_target"),
        speed_up=spread(ratio(other.get("seconds_to_target"), seed.get("seconds_to_target"))
                        or None for seed, other in pairs),
        rate=spread(ratio(seed.get("steps"), seed.get("train_seconds")) for seed, _ in pairs),
        sent=of("sent_bytes_per_step"), loss=of("final_loss"),
        difference=spread(loss - 1 for loss in losses if loss is not None))


def best_of(rows, kind):
    """The one soonest at the target; one that got there with every seed before any other."""
    return max((row for row in rows[1:] if row.kind == kind and row.speed_up), default=None,
               key=lambda row: (row.speed_up.count == row.seed_count, row.speed_up.median))


def headline(rows):
    """Sentences in plain words: what Sluice's best did, and the best of the other baselines."""
    if not rows:
        return "Nothing was measured.", None
    ours, theirs = best_of(rows, "sluice"), best_of(rows, "baseline")
    others = theirs and f"The best of the other baselines: {sooner(theirs, rows[0])}."
    if ours:
        change = ours.difference and percent(ours.difference.median, 1, "+")
        return sooner(ours, rows[0]) + (f"; final loss {change}." if change else "."), others
    if not rows[0].seconds:
        return f"{rows[0].title} did not reach the target loss: nothing to compare.", others
    return "No Sluice configuration reached the target loss.", others


def sooner(row, reference):
    speed = row.speed_up.median
    some = "" if row.speed_up.count == row.seed_count else (
        f" in {row.speed_up.count} of {row.seed_count} seeds")
    if speed >= 1:
        return f"{row.title} reached the target loss{some} {number(speed)} × sooner than " + (
            reference.title)
    return f"{row.title} reached the target loss{some} later: it took {number(1 / speed)} × as" + (
        f" long as {reference.title}")


def seed_lines(configuration):
    """Of each seed, the points (step, seconds, loss) that are whole."""
    lines = [[tuple(point) for point in seed.get("held_out") or [] if None not in point]
             for seed in seeds_of(configuration).values()]
    return [line for line in lines if line]


def median_line(configuration, column):
    """Points (x, loss) over the seeds: x is the step (column 0) or the seconds (column 1)."""
    by_step = {}
    for line in seed_lines(configuration):
        for point in line:
            by_step.setdefault(point[0], []).append(point)
    count = max(map(len, by_step.values()), default=0)
    return [tuple(statistics.median(point[c] for point in points) for c in (column, 2))
            for _, points in sorted(by_step.items()) if len(points) == count]
