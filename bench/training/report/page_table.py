"""The tables of a job. On a narrow screen a row is a card, with the column's name in each cell."""

from .drawing import COLOUR_COUNT, swatch
from .markup import NOTHING, SPACE, element, number, percent

COLUMNS = {"Time to target loss": "Time to target", "Speed-up": "Speed-up",  # On a card: shorter.
           "Steps per second": "Steps/s", "MB sent per step and worker": "MB sent/step",
           "Final loss": "Final loss", "Final loss, difference": "Difference"}


def table(rows, target, target_share):
    """target_share: of the first configuration's steps, after which it has the target loss."""
    caption = "Medians over the seeds, with the range below where there are several."
    if target:
        caption = (f"Target loss: {number(target.median, 4)}, which {rows[0].title} has after"
                   f" {percent(target_share)} of its steps. {caption}")
    fastest = max((row.speed_up.median for row in rows if row.speed_up), default=1)
    return laid_out(caption, COLUMNS, [table_row(row, fastest) for row in rows])


def head_table(heads):
    """The losses of every head, given as its name and its rows; nothing where there are none."""
    if not heads:
        return None
    names = [name for name, _ in heads]
    rows = zip(*(own for _, own in heads))
    return laid_out("Final loss of each head, not weighted, and the difference to the first"
                    " configuration's.", [f"Final loss of {name}" for name in names],
                    [row_of_cells(own[0], names, map(head_loss, own)) for own in rows])


def laid_out(caption, columns, rows):
    head = [element("th", words, scope="col", role="columnheader")
            for words in ("Configuration", *columns)]
    return element(
        "table", element("caption", caption),
        element("thead", element("tr", *head, role="row"), role="rowgroup"),
        element("tbody", *rows, role="rowgroup"), role="table")


def table_row(row, fastest):
    failures = [element("small", f"seed {seed} failed: {what}", class_="failed")
                for seed, what in row.failures]
    cells = (time_to_target(row), speed_up(row, fastest), measured(row.rate),
             measured(row.sent, lambda value: number(value / 1e6)),
             measured(row.loss, lambda value: number(value, 4)),
             measured(row.difference if row.index else None,
                      lambda value: percent(value, 2, "+", unit=""), "%"))
    return row_of_cells(row, COLUMNS.values(), cells, failures)


def row_of_cells(row, labels, cells, failures=()):
    return element(
        "tr", element("th", swatch(row.index), element("span", row.title, *failures), scope="row",
                      role="rowheader"),
        *(element("td", *cell, role="cell", data_label=label)
          for label, cell in zip(labels, cells)), role="row")


def measured(found, show=number, unit="", missing=NOTHING):
    if not found:
        return [missing]
    low, high = show(found.low), show(found.high)
    return [show(found.median) + (SPACE + unit if unit else ""),
            element("small", f"{low} – {high}") if low != high else None]


def head_loss(row):
    cell = measured(row.loss, lambda value: number(value, 4))
    if row.index and row.difference:
        cell.append(element("small", percent(row.difference.median, 2, "+")))
    return cell


def not_reached(row):
    return "not reached" if len(row.failures) < row.seed_count else "failed"


def time_to_target(row):
    cell = measured(row.seconds, unit="s", missing=not_reached(row))
    if row.steps:
        cell.append(element("small", f"{number(row.steps.median)} steps"))
    if row.seconds and row.seconds.count < row.seed_count:
        cell.append(element("small", f"{row.seconds.count} of {row.seed_count} seeds"))
    return cell


def speed_up(row, fastest):
    cell = measured(row.speed_up, unit="×",
                    missing=NOTHING if row.seconds else not_reached(row))
    if row.speed_up:
        cell.append(element("i", class_=f"bar c{row.index % COLOUR_COUNT}",
                            style=f"width:{100 * row.speed_up.median / fastest:.1f}%"))
    return cell
