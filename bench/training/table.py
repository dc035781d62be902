"""The table at the end of a run."""

from __future__ import annotations

from training.progress import job_text
from training.report.figures import Row, Spread, heads_of, rows_of

COLUMNS = ("", "to target", "speed-up", "steps/s", "MB sent", "final loss", "difference")


def shown(spread: Spread | None, form: str, factor: float = 1.0, missing: str = "-") -> str:
    if spread is None:
        return missing
    return format(spread.median * factor, form)


def cells(row: Row) -> tuple[str, ...]:
    """The figures of a contestant, medians over its seeds."""
    reached = row.speed_up is not None and row.speed_up.count == row.seed_count
    return (row.title,
            shown(row.seconds if reached else None, ".1f", missing="not reached") +
            (" s" if reached else ""),
            shown(row.speed_up if reached else None, ".2f") + (" x" if reached else ""),
            shown(row.rate, ".2f"), shown(row.sent, ".2f", 1e-6), shown(row.loss, ".4f"),
            shown(row.difference, "+.2%"))


def head_cell(row: Row) -> str:
    """The loss of one head, and its difference to the reference's."""
    return shown(row.loss, ".4f") + (shown(row.difference, "+8.2%", missing="") if row.index
                                     else "")


def text(job: dict, network: dict) -> str:
    """Of one job."""
    first = job["configurations"][0]["seeds"]
    title = (f"{job['name']}: {job['title']}, {job['parameters'] / 1e6:.2f} M parameters in"
             f" {job['buckets']} buckets, {network['workers']} workers,"
             f" {job_text(job['rate'], job['dense_share'])}")
    heads = [(name, rows_of(own)) for name, own in heads_of(job)]
    rows = [(*COLUMNS, *(name for name, _ in heads)),
            *((*cells(row), *(head_cell(own[row.index]) for _, own in heads))
              for row in rows_of(job))]
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = ["  ".join([row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in
                                                     zip(row[1:], widths[1:]))]) for row in rows]
    seeds = f", median of {len(first)} seeds" if len(first) > 1 else ""
    notes = [f"to target: seconds until the loss that the first row has after"
             f" {job['target_share']:.0%} of its {job['steps']} steps ({first[0]['target']:.4f})"
             f"{seeds}. MB sent: per step and worker"
             + (", by the interface's counters." if network["mode"] == "namespaces"
                else ": not measured on loopback."),
             *( [f"Links were NOT limited: {network['why']}."] if network["mode"] != "namespaces"
                else [])]
    return "\n".join([title, "", *lines, "", *notes])
