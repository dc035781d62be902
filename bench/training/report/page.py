"""The page: per job a headline, a table and charts, then how it was measured."""

import base64
import hashlib
import json
import pathlib

from . import charts
from .drawing import definitions, swatch
from .figures import (best_of, headline, heads_of, ratio, rows_of, seeds_of, spread, title_of,
                      without_nonsense)
from .markup import NOTHING, Markup, element, join, number, percent
from .page_table import head_table, table

HERE = pathlib.Path(__file__).resolve().parent
CARRIERS = {"torch": "over torch's process groups", "stream": "over UDP to aggregators"}


def write(results, path):
    path.write_text(page(without_nonsense(results)), encoding="utf-8")


def page(results):
    jobs = results.get("jobs") or []
    style, script = ((HERE / name).read_text(encoding="utf-8")
                     for name in ("style.css", "script.js"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    head = element(
        "head", element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        # A name that got past the escaping could still neither run nor fetch anything.
        element("meta", http_equiv="Content-Security-Policy", content="default-src 'none'; "
                f"style-src 'unsafe-inline'; script-src 'sha256-{digest}'"),
        element("title", "Sluice training lab"),
        element("style", Markup(style), switches(jobs)))
    body = element(
        "body", definitions(), element("header", *top(results, jobs)),
        element("main", *(job_section(index, job) for index, job in enumerate(jobs)),
                None if jobs else element("p", "No job was measured."),
                how_it_was_measured(results, jobs)),
        element("div", id="tip", role="status", hidden=""),
        element("script", embedded(results), type="application/json", id="results"),
        element("script", Markup(script)))
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"


def embedded(results):
    """Nothing is escaped inside a script element, so JSON itself has to hide what would end it."""
    return Markup(json.dumps(results, allow_nan=False).replace("<", "\\u003c"))


def switches(jobs):
    """A configuration that is not ticked in its job's legend is in none of the job's charts."""
    count = max((len(job.get("configurations") or []) for job in jobs), default=0)
    return Markup("\n".join(f".job:has(.pick{i}:not(:checked)) figure .t{i} {{ display: none; }}"
                            for i in range(count)))


def top(results, jobs):
    network, made = results.get("network") or {}, results.get("made") or {}
    yield element("h1", "Sluice training lab")
    yield element("p", f"The same training by {network.get('workers') or NOTHING} workers, once for"
                  " each way of averaging their gradients: how long it takes, what is sent, and"
                  " what that does to the loss.", class_="lede")
    yield element("p", " · ".join(str(made[key]) for key in ("when", "machine", "command")
                                  if made.get(key)), class_="facts")
    if network.get("mode") != "namespaces":
        why = f" ({network['why']})" if network.get("why") else ""
        yield element("p", element("strong", "The links were not limited."), " There were no"
                      f" network namespaces{why}, so the workers talked over loopback. Times and"
                      " speed-ups below say nothing about a slow network.", class_="warning",
                      role="note")
    yield element("nav", *(element("a", job_name(job), href=f"#job{index}")
                           for index, job in enumerate(jobs)),
                  element("a", "How it was measured", href="#how"), aria_label="On this page")


def job_name(job):
    return str(job.get("name") or "job")


def job_section(index, job):
    configurations, rows = job.get("configurations") or [], rows_of(job)
    target = spread(seed.get("target") for configuration in configurations[:1]
                    for seed in seeds_of(configuration).values())
    parameters = job.get("parameters")
    facts = [None if parameters is None else f"{number(parameters / 1e6, unit='M')} parameters",
             *(f"{job[key]} {key}" for key in ("buckets", "steps") if job.get(key) is not None),
             job.get("batch"),
             f"links of {job['rate']}" if job.get("rate") else "links not limited"]
    first, second = headline(rows)
    return element(
        "section", element("h2", job_name(job), element("small", job.get("title"))),
        element("p", join(facts, " · "), class_="facts"),
        element("p", first, class_="headline"), element("p", second) if second else None,
        tiles(configurations, rows),
        table(rows, target, job.get("target_share")),
        head_table([(name, rows_of(own)) for name, own in heads_of(job)]),
        *legend(configurations),
        element("div", *job_charts(job, configurations, target and target.median),
                class_="charts"), class_="job", id=f"job{index}")


def tiles(configurations, rows):
    best = best_of(rows, "sluice")
    if not best:
        return None
    found = [(number(best.speed_up.median, unit="×"), "speed-up at the target loss")]
    fewer = ratio(rows[0].sent and rows[0].sent.median, best.sent and best.sent.median)
    if fewer:
        found.append((number(fewer, unit="×"), "fewer bytes sent"))
    if best.difference:
        found.append((percent(best.difference.median, 1, "+"), "final loss"))
    traces = [configurations[row.index].get("trace") or {} for row in (rows[0], best)]
    waits = [ratio(trace.get("exposed_s"), trace.get("step_s")) for trace in traces]
    if None not in waits:
        found.append((f"{percent(waits[0], unit='')} → {percent(waits[1])}",
                      "of a step waits for the network"))
    return element("ul", *(element("li", element("strong", value), what) for value, what in found),
                   class_="tiles", aria_label=f"{best.title} against {rows[0].title}")


def legend(configurations):
    """Works without a script: what is not ticked is hidden by a rule of style (switches)."""
    yield element("p", "In the charts; tap a configuration to hide it.", class_="hint")
    yield element("div", *(element("label", element("input", type="checkbox", checked="",
                                                    class_=f"pick{index}"),
                                   swatch(index), title_of(configuration))
                           for index, configuration in enumerate(configurations)),
                  class_="legend", role="group", aria_label="Configurations in the charts")


def job_charts(job, configurations, target):
    many = any(len(seeds_of(configuration)) > 1 for configuration in configurations)
    seeds = " Thick is the median, thin are the seeds." if many else ""
    return (
        charts.line_chart("Loss against time", "Down and to the left is better." + seeds,
                          job, 1, "seconds of training", target),
        charts.line_chart("Loss against steps", "Lines that lie on each other learn the same from"
                          " a step.", job, 0, "steps", target),
        *(charts.line_chart(f"Loss of {name} against steps", "One head's own loss, not weighted.",
                            own, 0, "steps", None) for name, own in heads_of(job)),
        charts.breakdown("Where a step's time goes", "Medians over traced steps. With perfect"
                         " overlap a step would be as long as its floor.", configurations),
        charts.traffic("Bytes per step", "As the workers' network interfaces counted them, headers"
                       " included.", configurations),
        charts.timelines("One step from within", "Above, a worker's main thread; below, each"
                         " bucket from when it is ready to when it is averaged. All to one scale.",
                         configurations),
        charts.layer_errors("Error per layer", "Of the mean gradient, at one step. Left is better.",
                            configurations))


def how_it_was_measured(results, jobs):
    made, network = results.get("made") or {}, results.get("network") or {}
    where = ("each in a network namespace with a link of its own"
             if network.get("mode") == "namespaces" else "all on loopback, links NOT limited")
    facts = [("Network", f"{network.get('workers') or NOTHING} workers, {where}")]
    for job in jobs:
        facts.append((f"Links of {job_name(job)}", join((
            f"{job.get('rate') or 'not limited'}; ", job.get("rate_why"),
            f". Measured: {percent(job.get('dense_share'))} of the first configuration's step."))))
    facts += [("Machine", made.get("machine")),
              ("Versions", ", ".join(f"{key} {made.get(key) or NOTHING}"
                                     for key in ("sluice", "torch", "python"))),
              ("Command", element("code", made.get("command") or NOTHING)),
              ("Took", number(made.get("seconds"), unit="s"))]
    kinds = {title_of(configuration): what_it_is(configuration)
             for job in jobs for configuration in job.get("configurations") or []}
    return element(
        "section", element("h2", "How it was measured"), description(facts),
        element("h3", "What each configuration is"), description(kinds.items()),
        element("p", "Speed-up: the first configuration's seconds to the target loss over this"
                " one's, seed by seed, then the median. Failed seeds count nowhere. MB are 10⁶"
                " bytes. All figures are in this page as JSON, in its element ",
                element("code", "#results"), "."), id="how")


def description(facts):
    return element("dl", *(join((element("dt", name), element("dd", value or NOTHING)))
                           for name, value in facts))


def what_it_is(configuration):
    if configuration.get("about"):
        return configuration["about"]
    if configuration.get("kind") != "sluice":
        return "PyTorch without Sluice."
    carrier = configuration.get("carrier")
    feedback = configuration.get("feedback") not in (None, "none")
    return (f"Sluice as DDP's hook: codec {configuration.get('codec') or NOTHING}"
            f"{', with error feedback' if feedback else ''},"
            f" {CARRIERS.get(carrier, carrier or NOTHING)}.")
