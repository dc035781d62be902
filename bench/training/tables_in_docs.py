"""Writes the tables of docs/figures.md and docs/will-it-help-me.md, each between two marks.

README.md quotes figures of the first page; people change those.
"""

from __future__ import annotations

import pathlib

from training import table
from training.report.figures import Spread, heads_of, rows_of


def write(root: pathlib.Path, results: dict, sweep: dict) -> list[pathlib.Path]:
    """From a run of --full; the files that were changed."""
    places = {root / "docs" / "figures.md": training_tables(results),
              root / "docs" / "will-it-help-me.md": rate_tables(sweep)}
    for path, text in places.items():
        path.write_text(replaced(path.read_text(encoding="utf-8"), text), encoding="utf-8")
    return list(places)


def replaced(page: str, text: str) -> str:
    begin, end = "<!-- written by ./run --full -->\n", "<!-- end of what ./run --full wrote -->\n"
    before, found, rest = page.partition(begin)
    _, found_end, after = rest.partition(end)
    if not found or not found_end:
        raise ValueError(f"no place for the tables: {begin.strip()} … {end.strip()}")
    return f"{before}{begin}\n{text}\n{end}{after}"


def capital(text: str) -> str:
    return text[0].upper() + text[1:]


def markdown(rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])


def ranged(spread: Spread | None, form: str, factor: float = 1.0, unit: str = "") -> str:
    """Median, and what it lies between."""
    if spread is None:
        return "—"
    low, middle, high = (format(value * factor, form)
                         for value in (spread.low, spread.median, spread.high))
    return f"{middle}{unit}" if low == high else f"{middle}{unit} ({low} to {high})"


def training_tables(results: dict) -> str:
    parts = []
    for job in results["jobs"]:
        heads = [(name, rows_of(own)) for name, own in heads_of(job)]
        rows = [["", "time to target loss", "speed-up", "steps/s", "MB sent per step",
                 "final loss against dense", *(f"{name} against dense" for name, _ in heads)]]
        for row in rows_of(job):
            cells = table.cells(row)
            reached = cells[1] != "not reached"
            rows.append([row.title, cells[1], ranged(row.speed_up, ".2f", 1, " ×") if reached
                         else "—", cells[3], cells[4],
                         *(ranged(own.difference, "+.2f", 100, " %")
                           for own in (row, *(found[row.index] for _, found in heads)))])
        parts.append(
            f"**{capital(job['title'])}**: {job['parameters'] / 1e6:.2f} M"
            f" parameters in {job['buckets']} buckets, {job['steps']} steps of {job['batch']},"
            f" {results['network']['workers']} workers."
            f" {capital(table.job_text(job['rate'], job['dense_share']))}.\n\n"
            f"{markdown(rows)}\n")
    made = results["made"]
    seeds = len(results["jobs"][0]["configurations"][0]["seeds"])
    parts.append(f"{seeds} seeds, medians and ranges; torch {made['torch']}, Gloo,"
                 f" {made['machine']}; `{made['command']}`, {made['when'][:10]}. The target is the"
                 f" loss that the first row has after"
                 f" {results['jobs'][0]['target_share']:.0%} of its steps.\n")
    return "\n".join(parts)


def rate_tables(sweep: dict) -> str:
    names = {job["name"]: job["title"] for job in sweep["jobs"]}
    parts = []
    for name, title in names.items():
        jobs = [job for job in sweep["jobs"] if job["name"] == name]
        rows = [["milliseconds of a step", *(job["rate"] or "unlimited" for job in jobs)]]
        alone = [job["configurations"][0]["trace"]["compute_s"] for job in jobs]
        rows.append(["computing alone", *(f"{1e3 * seconds:.0f}" for seconds in alone)])
        for index, configuration in enumerate(jobs[0]["configurations"]):
            rows.append([configuration["title"], *(step_text(job, index) for job in jobs)])
        parts.append(f"**{capital(title)}**, {jobs[0]['parameters'] / 1e6:.2f} M"
                     f" parameters, {sweep['network']['workers']} workers:\n\n{markdown(rows)}\n")
    made = sweep["made"]
    parts.append(f"In brackets: how many times as fast as the first. torch {made['torch']}, Gloo,"
                 f" {made['machine']}; `{made['command']}`, {made['when'][:10]}.\n")
    return "\n".join(parts)


def step_text(job: dict, index: int) -> str:
    """The mean step while training."""
    seconds = [sum(c["seeds"][0]["step_seconds"]) / len(c["seeds"][0]["step_seconds"])
               for c in job["configurations"]]
    ratio = f" ({seconds[0] / seconds[index]:.2f} ×)" if index else ""
    return f"{1e3 * seconds[index]:.0f}{ratio}"
