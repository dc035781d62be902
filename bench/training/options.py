"""What ./run accepts, and the plan that follows from it.

    python3 -m training.options ARG…   # as ./run does before it installs anything

says what is wrong, or prints the interpreter that was asked for.
"""

from __future__ import annotations

import argparse
import sys

from lab_parts.lab_options import Rate
from training import contestants
from training.plan import AUTO, UNLIMITED, Plan

JOBS = "gpt", "clicks", "heads"
SWEPT = "gpt", "clicks"
WORKERS_MAX = 16
SWEEP = "100mbit", "1gbit", "10gbit", UNLIMITED

# Steps of the jobs, and seconds that their training may take with one seed; starting, probing and
# tracing take another 30 seconds of a quick run, 100 of a usual one and, with the other rates, ten
# minutes of a full one.
QUICK = {"steps": {"gpt": 25}, "seconds": dict.fromkeys(JOBS, 45.0),
         "contestants": dict.fromkeys(JOBS, contestants.QUICK), "rounds": 2}
DEFAULT = {"steps": {"gpt": 40, "clicks": 70, "heads": 60},
           "seconds": {"gpt": 150.0, "clicks": 85.0, "heads": 75.0},
           "contestants": {"gpt": contestants.DEFAULT, "clicks": contestants.DEFAULT,
                           "heads": contestants.HEADS}, "rounds": 3}
FULL = {"steps": {"gpt": 50, "clicks": 80, "heads": 80},
        "seconds": {"gpt": 210.0, "clicks": 120.0, "heads": 85.0},
        "contestants": {"gpt": contestants.FULL, "clicks": contestants.FULL_SPARSE,
                        "heads": contestants.HEADS}, "rounds": 7}
PIECE = 5


def rate(text: str) -> str:
    """As `tc` writes it, checked as the lab does."""
    return text if text == AUTO else Rate(text).text


def count(low: int, high: int):
    def convert(text: str) -> int:
        if not text.isascii() or not text.isdigit() or not low <= int(text) <= high:
            raise argparse.ArgumentTypeError(f"'{text}'; accepted: {low} to {high}")
        return int(text)
    return convert


def contestant(text: str) -> str:
    try:
        return contestants.parse(text).name
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def job(text: str) -> str:
    if text not in JOBS:
        raise argparse.ArgumentTypeError(f"'{text}'; accepted: {', '.join(JOBS)}")
    return text


class Parser(argparse.ArgumentParser):
    def error(self, message: str):
        if message.startswith("unrecognized"):
            known = [name for action in self._actions for name in action.option_strings]
            message += f"; accepted: {', '.join(known)}"
        print(f"{self.prog.rpartition('/')[2]}: {message}", file=sys.stderr)
        sys.exit(2)


def steps_text(mode: dict) -> str:
    return ", ".join(f"{steps} ({name})" for name, steps in mode["steps"].items())


def parser() -> argparse.ArgumentParser:
    made = Parser(prog="./run", allow_abbrev=False, description=(
        "Trains with plain PyTorch and with Sluice over slow links on this machine, and shows what"
        " you gain. Writes out/report.html. Installs what is missing first."))
    how = made.add_mutually_exclusive_group()
    how.add_argument("--quick", action="store_true",
                     help="one job, fewer contestants and steps: 90 seconds once installed")
    how.add_argument("--full", action="store_true",
                     help="three seeds, everything, several rates; writes tables of docs/")
    made.add_argument("--job", action="append", type=job, metavar="JOB",
                      help=f"repeatable: {', '.join(JOBS)}; default all, with --quick the first")
    made.add_argument("--codecs", nargs="+", type=contestant, metavar="NAME",
                      help=f"instead of the usual contestants: {contestants.ACCEPTED}")
    made.add_argument("--rate", action="append", type=rate, metavar="RATE",
                      help="of every link, as tc writes it (100mbit, 2.5gbit), unlimited, or auto:"
                           " so that communication is about 80 %% of a step of plain DDP;"
                           " repeatable; default auto")
    made.add_argument("--workers", type=count(2, WORKERS_MAX), default=4, metavar="N",
                      help=f"2 to {WORKERS_MAX}; default 4")
    made.add_argument("--steps", type=count(20, 100_000), metavar="N",
                      help="of every contestant; default " + steps_text(DEFAULT)
                           + "; with --quick 25; with --full " + steps_text(FULL))
    made.add_argument("--seeds", type=count(1, 100), metavar="N",
                      help="default 1, with --full 3")
    made.add_argument("--out", metavar="FOLDER", default="out",
                      help="where report.html, results.json and log.txt go; default out")
    made.add_argument("--python", metavar="FILE",
                      help="an interpreter that has torch, instead of installing that")
    return made


def parse(arguments: list[str]) -> argparse.Namespace:
    options = parser().parse_args(arguments)
    if options.full and (options.rate or options.codecs or options.job or options.steps
                         or options.seeds):
        parser().error("--full has its own --rate, --codecs, --job, --steps and --seeds;"
                       " accepted: one or the other")
    return options


def plan(options: argparse.Namespace, results: str) -> Plan:
    """The plan of the main run."""
    mode = QUICK if options.quick else FULL if options.full else DEFAULT
    steps = {name: options.steps or mode["steps"].get(name, mode["steps"]["gpt"])
             for name in dict.fromkeys(options.job or mode["steps"])}
    asked = options.steps or options.seeds
    names = {name: contestants.in_order(options.codecs or mode["contestants"][name])
             for name in steps}
    return Plan(jobs=steps, contestants=names,
                seeds=tuple(range(1, 1 + (options.seeds or (3 if options.full else 1)))),
                rates=tuple(dict.fromkeys(options.rate or [AUTO])), piece=PIECE,
                trace_rounds=mode["rounds"], seconds={} if asked else mode["seconds"],
                results=results)


def sweep_plan(results: str) -> Plan:
    """That of --full's second run: steps are timed at several rates, training goes nowhere."""
    return Plan(jobs=dict.fromkeys(SWEPT, 4 * PIECE), seeds=(1,), rates=SWEEP,
                contestants=dict.fromkeys(SWEPT, contestants.in_order(contestants.SWEEP)),
                piece=PIECE, trace_rounds=3, seconds={}, results=results)


if __name__ == "__main__":
    print(parse(sys.argv[1:]).python or "")
