"""Losses over seeds, paired: every seed has the same weights and data for all contestants."""

from __future__ import annotations

import dataclasses
import math
import statistics

LOSS = "loss"  # the measure that every job has; the others are its heads


@dataclasses.dataclass(frozen=True)
class Run:
    """One contestant's training with one seed."""

    contestant: str
    seed: int
    losses: dict[str, float]    # held out, at the end: LOSS, and one per head
    vnmse: float | None         # of all mean gradients, halfway
    seconds: float              # of training

    @staticmethod
    def of(job: dict) -> Run:
        """From the results of a plan with one contestant and one seed."""
        [configuration] = job["configurations"]
        [found] = configuration["seeds"]
        heads = [head["name"] for head in job["heads"]]
        last = found["heads"][-1] if heads else []
        return Run(configuration["name"], found["seed"],
                   {LOSS: found["final_loss"], **dict(zip(heads, last))},
                   whole_error(configuration["layers"]), found["train_seconds"])


def whole_error(layers: list[dict]) -> float | None:
    """Energy of the error over that of the true means, of all layers together."""
    energy = sum(layer["energy"] for layer in layers)
    return sum(layer["energy"] * (layer["vnmse"] or 0.0) for layer in layers) / energy \
        if energy else None


@dataclasses.dataclass(frozen=True)
class Mean:
    """Over seeds. The standard error needs two of them."""

    value: float
    error: float | None

    @staticmethod
    def of(values: list[float]) -> Mean:
        error = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None
        return Mean(statistics.fmean(values), error)

    def text(self, sign: str = "") -> str:
        return f"{self.value:{sign}.4f}" + ("" if self.error is None else f" ± {self.error:.4f}")


@dataclasses.dataclass(frozen=True)
class Row:
    """A contestant's loss by one measure, and its differences to two others seed by seed."""

    contestant: str
    measure: str
    loss: Mean
    to_dense: Mean | None   # None: this is the one
    to_first: Mean | None
    vnmse: float | None
    seconds: float


def rows(runs: list[Run]) -> list[Row]:
    """Measure by measure. The first contestant is dense, the second is `first`."""
    names = list(dict.fromkeys(run.contestant for run in runs))
    found = []
    for measure in runs[0].losses:
        losses = {name: {run.seed: run.losses[measure] for run in runs if run.contestant == name}
                  for name in names}
        for place, name in enumerate(names):
            own = [run for run in runs if run.contestant == name]
            errors = [run.vnmse for run in own if run.vnmse is not None]
            found.append(Row(
                name, measure, Mean.of(list(losses[name].values())),
                difference(losses[name], losses[names[0]]) if place > 0 else None,
                difference(losses[name], losses[names[1]]) if place > 1 else None,
                statistics.fmean(errors) if errors else None,
                statistics.fmean(run.seconds for run in own)))
    return found


def difference(losses: dict[int, float], others: dict[int, float]) -> Mean:
    return Mean.of([loss - others[seed] for seed, loss in losses.items()])


def table(found: list[Row]) -> str:
    """As text: a block per measure."""
    first = next((row.contestant for row in found[1:] if row.contestant != found[0].contestant),
                 None)
    blocks = []
    for measure in dict.fromkeys(row.measure for row in found):
        lines = [(measure, "held-out loss", f"minus {found[0].contestant}",
                  f"minus {first}" if first else "", "vnmse", "s")]
        for row in found:
            if row.measure == measure:
                differences = ("" if mean is None else mean.text("+")
                               for mean in (row.to_dense, row.to_first))
                lines.append((row.contestant, row.loss.text(), *differences,
                              "" if row.vnmse is None else f"{row.vnmse:.1e}",
                              f"{row.seconds:.0f}"))
        widths = [max(map(len, column)) for column in zip(*lines)]
        blocks.append("\n".join("  ".join(
            cell.rjust(width) if place else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(line, widths))).rstrip() for line in lines))
    return "\n\n".join(blocks)
