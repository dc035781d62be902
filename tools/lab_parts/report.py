"""What is told at the end: a line for each worker, aggregator and relay, and the same as JSON."""

import json

from lab_parts.network import node_of_aggregator
from lab_parts.system import say

SECONDS = "_seconds"            # Ends the name of a time; lines have its unit instead.
RATES_SHOWN = 3                 # Changes; of more only the last. JSON has all.


def end_of(process):
    used = process.cpu_seconds
    return {"cpu_seconds": None if used is None else round(used, 6), "exit": process.exit}


def worker_row(cluster, worker):
    return ({"rank": worker.index, "address": cluster.address(worker.index)}
            | cluster.counters(worker.index) | end_of(worker))


def aggregator_row(options, cluster, aggregator):
    node = node_of_aggregator(options, aggregator.index)
    # Beside a worker there is one link for both, and its counters stand with the worker.
    counters = {} if options.aggregators_on_workers else cluster.counters(node)
    return ({"aggregator": aggregator.index, "address": cluster.address(node)} | counters
            | end_of(aggregator))


def relay_row(relay, door):
    row = {"relay": relay.index, "address": f"{door[0]}:{door[1]}"}
    try:
        return row | json.loads(relay.output.tail[-1])
    except (IndexError, ValueError):  # It did not live to tell; its end has been reported.
        return row | {"exit": relay.exit}


def line(row):
    def text(key, value):
        if isinstance(value, dict):
            return f"({line(value)})"
        if value is None:
            return "-"
        return f"{value:.3f} s" if key.endswith(SECONDS) else str(value)
    return ", ".join(f"{key.removesuffix(SECONDS).replace('_', ' ')} {text(key, value)}"
                     for key, value in row.items())


def rates_text(run):
    first, *others = [change["rate"] for change in run.rates]
    if len(others) > RATES_SHOWN:
        others = [f"{len(others) - 1} others", others[-1]]
    return " then ".join([first, *others])


def report(options, cluster, run):
    workers = [worker_row(cluster, worker) for worker in run.workers]
    aggregators = [aggregator_row(options, cluster, a) for a in run.aggregators]
    relays = [relay_row(relay, door) for relay, door in zip(run.relays, run.doors)]
    count = f", aggregators {len(aggregators)}" if aggregators else ""
    say(f"workers {len(workers)}{count}, {cluster.mode}, {rates_text(run)}, {run.seconds:.3f} s")
    for row in workers + aggregators + relays:
        say(line(row))
    if options.json:
        result = {"workers": workers, "aggregators": aggregators, "relays": relays,
                  "seconds": round(run.seconds, 6), "rate": options.rate.text,
                  "rates": run.rates, "aggregator_rate": options.aggregator_rate.text,
                  "mtu": options.mtu,
                  "loss": options.loss, "loss_protocol": options.loss_protocol,
                  "duplicate": options.duplicate, "reorder": options.reorder,
                  "delay": options.delay, "seed": options.seed,
                  "mode": cluster.mode, "status": run.status}
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=2)
            file.write("\n")
