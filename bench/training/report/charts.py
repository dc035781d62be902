"""The charts of a job: each takes what was measured and is a figure, or says that it was not."""

import collections

from . import axes
from .drawing import (AXIS_HEIGHT, axis_below, classes, dash, drawing, figure, grid, keys, marker,
                      plot, row, text, ticks_below)
from .figures import median_line, seed_lines, seeds_of, spread, title_of
from .markup import SPACE, element, join, number

UNITS = 1000                    # Across a line chart, which is stretched.
TOP, PLOT = 28, 240             # Heights of a line chart's label and of its plot.
BAR, GAP = 11, 2
THREAD = 14                     # Height of a timeline's main thread.
BUCKETS_HEIGHT = 72             # Of all its buckets together, if it can be.
LAYER, LAYER_NAME_MAX = 17, 22
ROUNDING = 1e-9                 # An error below it is float32's own.
PHASES = ("forward", "backward", "wait", "optimizer")


def line_chart(title, note, job, column, x_label, target):
    """Loss against a column of held_out: the median over seeds, and each seed thin."""
    configurations = job.get("configurations") or []
    seeds = [[[(point[column], point[2]) for point in line] for line in seed_lines(configuration)]
             for configuration in configurations]
    points = [point for lines in seeds for line in lines for point in line]
    if not points:
        return figure(title, "Not measured.")
    losses = [loss for _, loss in points] + ([] if target is None else [target])
    reference = [loss for line in seeds[0] for _, loss in line]
    if reference:  # A configuration that diverges must not flatten the others.
        roof = max(reference) + 0.1 * (max(reference) - min(reference))
        losses = [min(loss, roof) for loss in losses]
    x = axes.from_zero([x for x, _ in points], x_label)
    y = axes.around(losses, job.get("loss_name") or "loss", below=0.1)
    lines, ends = [], []
    for index, (configuration, own) in enumerate(zip(configurations, seeds)):
        if not own:
            continue
        line = median_line(configuration, column)
        thin = [path(x, y, seed, class_="seed") for seed in own if own[1:]]
        whole = path(x, y, line, class_="line", stroke_dasharray=dash(index))
        lines.append(element("g", *thin, whole, class_=classes(index),
                             data_name=title_of(configuration)))
        if y.low <= line[-1][1] <= y.high:
            ends.append(marker(index, x.percent(line[-1][0]), height_of(y, line[-1][1]),
                               class_=classes(index, "marker")))
    inner = element("svg", *lines, y=TOP, width="100%", height=PLOT,
                    viewBox=f"0 0 {UNITS} {PLOT}", preserveAspectRatio="none")
    cursor = element("line", class_="cursor", y1=TOP, y2=TOP + PLOT)
    return figure(title, note, plot(drawing(
        TOP + PLOT + AXIS_HEIGHT, frame(x, y), target_line(y, target), inner, *ends, cursor,
        title=title, desc=f"{y.label} against {x_label}, one line per configuration",
        class_="lines", data_x=f"{x.low} {x.high}", data_y=f"{y.low} {y.high}",
        data_units=f"{UNITS} {PLOT}", data_unit=("steps", "s")[column]), left=46))


def height_of(y, value):
    return f"{TOP + PLOT * (1 - y.at(value)):.1f}"


def path(x, y, line, **more):
    d = "M" + "L".join(f"{UNITS * x.at(a):.1f},{PLOT * (1 - y.at(b)):.2f}" for a, b in line)
    return element("path", d=d, vector_effect="non-scaling-stroke", **more)


def frame(x, y):
    levels = [(height_of(y, tick), words) for tick, words in y.ticks()]
    return join((element("rect", y=TOP, width="100%", height=PLOT, class_="surface"),
                 text(y.label, -44, 12, class_="label"), grid(x, TOP, TOP + PLOT),
                 *(element("line", x1=0, x2="100%", y1=at, y2=at, class_="grid")
                   for at, _ in levels),
                 *(text(words, -7, at, "end", dy=4, class_="tick") for at, words in levels),
                 ticks_below(x, TOP + PLOT)))


def target_line(y, target):
    """Its name is at the left and below, where no line has come to yet."""
    if target is None:
        return None
    at = height_of(y, target)
    return join((element("line", x1=0, x2="100%", y1=at, y2=at, class_="target"),
                 text(f"target {number(target, 4)}", 4, at, dy=13, class_="target-text")))


def clock(values):
    """(factor, unit) in which to show seconds."""
    return (1, "s") if max(values) >= 1 else (1e3, "ms")


def bar_rows(configurations, groups, axis, behind=lambda kind, words: words):
    """A group is a list of lines, a line a list of (class, from, to, text).

    What `behind` makes of the first of a line stands behind it.
    """
    rows = []
    for index, (configuration, group) in enumerate(zip(configurations, groups)):
        name, height = title_of(configuration), (BAR + GAP) * max(1, len(group)) + 4
        parts = [grid(axis, 0, height)]
        for place, line in enumerate(group):
            y = (BAR + GAP) * place
            for kind, start, end, words in line:
                width = f"{100 * (axis.at(end) - axis.at(start)):.2f}%" if end > start else 3
                parts.append(element("rect", x=axis.percent(start), y=y, width=width, height=BAR,
                                     class_=kind, data_tip=f"{name}\n{kind}: {words}"))
            kind, _, end, words = line[0]
            parts.append(text(behind(kind, words), axis.percent(end), y + BAR - 1.5, dx=5,
                              class_="value"))
        if not group:
            parts.append(text("not measured", 0, BAR - 1.5, class_="value"))
        told = "; ".join(f"{kind} {words}" for line in group for kind, _, _, words in line)
        rows.append(row(index, name, drawing(height, *parts, title=name,
                                              desc=told or "not measured")))
    return plot(*rows, axis_below(axis))


def breakdown(title, note, configurations):
    traces = [configuration.get("trace") or {} for configuration in configurations]
    times = [value for trace in traces for key in ("compute_s", "communication_s", "step_s")
             if (value := trace.get(key)) is not None]
    if not times:
        return figure(title, "Not measured.")
    factor, unit = clock(times)
    groups = [breakdown_of(trace, factor, unit) for trace in traces]
    return figure(title, note, keys((
        ("compute", None, "compute alone"), ("communication", None, "communication alone"),
        ("step", None, "step"), ("exposed", None, "its exposed communication"),
        ("floor", None, "floor: the larger of both alone; × is the step over it"))),
        bar_rows(configurations, groups, axes.from_zero(
            [factor * time for time in times], f"one step ({unit})", room=0.3)))


def breakdown_of(trace, factor, unit):
    compute, communication, step, exposed = (
        None if trace.get(key) is None else factor * trace[key]
        for key in ("compute_s", "communication_s", "step_s", "exposed_s"))
    lines = [[(kind, 0, value, number(value, unit=unit))] for kind, value in (
        ("compute", compute), ("communication", communication)) if value is not None]
    if step is None:
        return lines
    floor = None if None in (compute, communication) else max(compute, communication)
    over = f", {number(step / floor)} ×" if floor else ""
    lines.append([("step", 0, step, number(step, unit=unit) + over)])
    if exposed is not None:
        lines[-1].append(("exposed", min(step, max(0, step - exposed)), step,
                          number(exposed, unit=unit)))
    if floor is not None:
        lines[-1].append(("floor", floor, floor, number(floor, unit=unit)))
    return lines


def traffic(title, note, configurations):
    groups = []
    for configuration in configurations:
        found = {way: spread(seed.get(f"{way}_bytes_per_step")
                             for seed in seeds_of(configuration).values())
                 for way in ("sent", "received")}
        groups.append([[(way, 0, of.median / 1e6, number(of.median / 1e6, unit="MB"))]
                       for way, of in found.items() if of])
    ends = [line[0][2] for group in groups for line in group]
    if not ends:
        return figure(title, "Not measured.")
    return figure(title, note, bar_rows(configurations, groups, axes.from_zero(
        ends, "MB per step and worker", room=0.36), lambda way, words: f"{words} {way}"))


def timelines(title, note, configurations):
    """One step of each configuration: the main thread, and below it every bucket on its way."""
    ends = [span["to"] for configuration in configurations for span in spans_of(configuration)]
    if not ends:
        return figure(title, "Not measured.", class_="wide")
    factor, unit = clock(ends)
    axis = axes.from_zero([factor * end for end in ends], unit=SPACE + unit)
    rows = [row(index, title_of(configuration),
                timeline(title_of(configuration), spans_of(configuration), axis, factor, unit))
            for index, configuration in enumerate(configurations)]
    return figure(title, note, keys((*((phase, phase[0].upper(), phase) for phase in PHASES),
                                     ("bucket", None, "a bucket on its way"))),
                  element("div", *rows, class_="timelines"), class_="wide")


def spans_of(configuration):
    spans = (configuration.get("trace") or {}).get("spans") or []
    return [span for span in spans if None not in map(span.get, ("what", "from", "to"))]


def timeline(name, spans, axis, factor, unit):
    buckets = list(dict.fromkeys(str(span["what"]) for span in spans if is_bucket(span)))
    each = min(9, max(3, BUCKETS_HEIGHT // max(1, len(buckets))))
    height = THREAD + 2 + each * len(buckets) + 4
    parts = [grid(axis, 0, height)]
    for span in spans:
        what, start, stop = str(span["what"]), factor * span["from"], factor * span["to"]
        width = max(axis.at(stop) - axis.at(start), 0.002)
        place = {"x": axis.percent(start), "width": f"{100 * width:.2f}%", "data_tip":
                 f"{name}\n{what}: {number(start)} to {number(stop, unit=unit)}"}
        if is_bucket(span):
            parts.append(element("rect", class_="bucket", height=each - 1, **place,
                                 y=THREAD + 2 + each * buckets.index(what)))
            continue
        parts.append(element("rect", height=THREAD, **place,
                             class_=what if what in PHASES else "other"))
        if width > 0.05:
            parts.append(text(what[:1].upper(), f"{100 * (axis.at(start) + width / 2):.2f}%",
                              THREAD - 3, "middle", class_="letter"))
    if not spans:
        parts.append(text("not measured", 0, THREAD - 3, class_="value"))
    told = f"{len(buckets)} buckets" if spans else "not measured"
    return plot(drawing(height, *parts, title=f"One step of {name}", desc=told), axis_below(axis))


def is_bucket(span):
    return str(span["what"]).startswith("bucket")


def layer_errors(title, note, configurations):
    """A row per layer, a marker per configuration, on a logarithmic axis.

    Markers are hollow: over two carriers a codec's errors are the same, and both shall be seen.
    """
    errors, exact = {}, collections.Counter()  # errors: layer -> [(index, error)]
    for index, configuration in enumerate(configurations):
        for layer in configuration.get("layers") or []:
            error, own = layer.get("vnmse"), errors.setdefault(str(layer.get("name") or "?"), [])
            if error is not None and error >= ROUNDING:
                own.append((index, error))
            elif error is not None:
                exact[title_of(configuration)] += 1
    if exact:
        note += " Below 10⁻⁹, so not drawn: " + ", ".join(
            f"{name} ({count} of {len(errors)} layers)" for name, count in exact.items()) + "."
    drawn = [error for own in errors.values() for _, error in own]
    if not drawn:
        return figure(title, note if exact else "Not measured.", class_="wide")
    axis = axes.decades(drawn, "error energy / energy of the true mean")
    bottom = LAYER * len(errors) + 4
    parts = [grid(axis, 0, bottom)]
    for place, (layer, own) in enumerate(errors.items()):
        y = LAYER * place + LAYER // 2 + 2
        short = layer if len(layer) <= LAYER_NAME_MAX else "…" + layer[1 - LAYER_NAME_MAX:]
        parts += [element("line", x1=0, x2="100%", y1=y, y2=y, class_="grid"),
                  text(short, -8, y + 4, "end", class_="tick", data_tip=layer)]
        parts += [marker(index, axis.percent(error), y, class_=classes(index, "hollow"),
                         data_tip=f"{layer}\n{title_of(configurations[index])}: {number(error, 2)}")
                  for index, error in own]
    return figure(title, note, plot(drawing(
        bottom + AXIS_HEIGHT, *parts, ticks_below(axis, bottom), title=title,
        desc=f"{len(errors)} layers; a marker per configuration"), left=146), class_="wide")
