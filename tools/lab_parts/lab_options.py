"""The command line: every value is checked, and an option that would do nothing is refused."""

import argparse
import dataclasses
import re
import shlex
import shutil

from lab_parts.system import NO_NAMESPACES, refuse

NODES_MAX = 64                  # Workers, and as many aggregators.
MTU_MIN, MTU_MAX = 576, 65535
PORT_MAX = 65000                # On loopback aggregators count up from the port.
DELAY_MS_MAX = 10000
RATE_UNITS = {"bit": 1, "kbit": 10**3, "mbit": 10**6, "gbit": 10**9}
# Filled in after the checks, which must see whether an option was given.
DEFAULTS = {"rate": "1gbit", "mtu": 1500, "aggregator_ready": "listening", "loss": 0.0,
            "loss_protocol": "udp", "duplicate": 0.0, "reorder": 0.0, "delay": 0, "seed": 1}
AGGREGATOR_PORT = 48864
OF_AGGREGATORS = ("aggregator_ready", "aggregator_port", "aggregators_may_fail", "duplicate",
                  "reorder", "delay")


@dataclasses.dataclass(frozen=True)
class Bucket:
    """What tbf is told of a link."""

    bits: int
    burst: int
    limit: int

    def __str__(self):
        return f"tbf rate {self.bits}bit burst {self.burst} limit {self.limit}"


NO_LIMIT = Bucket(10**12, 1 << 26, 1 << 30)  # More than any processor here passes on.


class Rate:
    """A link's rate as tc writes it; bits is None when there is no limit."""

    def __init__(self, text):
        self.text, self.bits = text.lower(), None
        if self.text == "unlimited":
            return
        match = re.fullmatch(r"(\d{1,12}(?:\.\d{1,9})?)(k|m|g|)bit", self.text)
        self.bits = round(float(match[1]) * RATE_UNITS[match[2] + "bit"]) if match else 0
        if not 10**3 <= self.bits <= 10**12:
            raise argparse.ArgumentTypeError(
                f"'{text}': accepted are 1kbit to 1000gbit as a number with one of "
                f"{', '.join(RATE_UNITS)}, and 'unlimited'")

    def bucket(self, mtu, queue_bytes_min):
        """The burst is what passes at full speed after a pause, so it is small: 1 ms, and 256 KiB
        from 2 Gbit on, which was measured to fill 10 Gbit (high-resolution timers need no burst
        of rate/HZ). The queue holds 10 ms, or the bytes given.
        """
        if self.bits is None:
            return NO_LIMIT
        burst = max(1 << 14, 2 * mtu, min(self.bits // 8 // 1000, 1 << 18))
        limit = max(queue_bytes_min, self.bits // 8 // 100) + burst
        return Bucket(self.bits, burst, limit)


def whole_number(low, high):
    def parse(text):
        if not re.fullmatch(r"\d{1,9}", text) or not low <= int(text) <= high:
            raise argparse.ArgumentTypeError(
                f"'{text}': accepted are whole numbers from {low} to {high}")
        return int(text)
    return parse


def seconds(text):
    if not re.fullmatch(r"\d{1,6}(\.\d{1,9})?", text):
        raise argparse.ArgumentTypeError(
            f"'{text}': accepted are seconds from 0 to 999999, as 30 or 0.5")
    return float(text)


def percent(text):
    if not re.fullmatch(r"\d{1,3}(\.\d{1,4})?", text) or float(text) > 100:
        raise argparse.ArgumentTypeError(
            f"'{text}': accepted are percent from 0 to 100 with up to 4 decimals, as 1 or 0.05")
    return float(text)


def words(text):
    try:
        found = shlex.split(text)
    except ValueError as why:
        raise argparse.ArgumentTypeError(f"'{text}': {why}; accepted is a command in one "
                                         "argument, with a shell's quotes") from None
    if not found:
        raise argparse.ArgumentTypeError(f"'{text}': accepted is a command in one argument")
    return found


def some_text(text):
    if not text:
        raise argparse.ArgumentTypeError("'': accepted is a text that is not empty")
    return text


def one_of(*accepted):
    def parse(text):
        if text not in accepted:
            raise argparse.ArgumentTypeError(f"'{text}': accepted are {', '.join(accepted)}")
        return text
    return parse


def make_parser():
    parser = argparse.ArgumentParser(
        prog="lab", usage="tools/lab [OPTIONS] -- COMMAND ARG...", allow_abbrev=False,
        description="Runs COMMAND once per worker, each in its own network namespace behind a "
        "link of limited rate, and beside them aggregators where they are asked for.",
        epilog="Exit status: 0 when all workers exit with 0, else that of the first that failed; "
        "124 time-out, 2 bad arguments, 3 no namespaces though required, 126 or 127 COMMAND "
        "cannot be run, 128+n ended by signal n.")
    add = parser.add_argument
    add("--workers", type=whole_number(1, NODES_MAX), default=2, metavar="N",
        help=f"1 to {NODES_MAX}, default 2")
    add("--rate", type=Rate, metavar="RATE",
        help="of each link in each direction: 100mbit, 2.5gbit, ... or unlimited; default 1gbit")
    add("--mtu", type=whole_number(MTU_MIN, MTU_MAX), metavar="BYTES",
        help=f"{MTU_MIN} to {MTU_MAX}, default 1500")
    add("--timeout", type=seconds, metavar="S", help="end everything after S seconds")
    add("--grace", type=seconds, default=20.0, metavar="S",
        help="what the others get when one worker has failed, default 20")
    add("--json", metavar="FILE", help="write counters, exit statuses and wall time")
    add("--quiet", action="store_true", help="show the output of rank 0 only")
    add("--raw", action="store_true", help="do not put '[rank] ' before each line")
    add("--require-namespaces", action="store_true",
        help=f"exit with {NO_NAMESPACES} instead of falling back to loopback")
    add("--no-namespaces", action="store_true", help="all on loopback, nothing limited")
    add("--port-auto", action="store_true", help="MASTER_PORT is a free port; it always is")
    add_aggregators(parser.add_argument_group("aggregators").add_argument)
    add_faults(parser.add_argument_group("a network that misbehaves").add_argument)
    parser.error = refuse
    return parser


def add_aggregators(add):
    add("--aggregators", type=whole_number(1, NODES_MAX), metavar="A",
        help=f"1 to {NODES_MAX}, each with a namespace and a link of its own")
    add("--aggregators-on-workers", action="store_true",
        help="one beside each worker instead, in the worker's namespace")
    add("--aggregator-command", type=words, metavar="'CMD ...'",
        help="run for each; {address}, {port}, {index} and {workers} are filled in")
    add("--aggregator-ready", type=some_text, metavar="TEXT",
        help="workers start when each aggregator has written a line with TEXT; 'listening'")
    add("--aggregator-port", type=whole_number(1, PORT_MAX), metavar="PORT",
        help=f"UDP port, default {AGGREGATOR_PORT}; on loopback free ones, or from PORT up")
    add("--aggregator-rate", type=Rate, metavar="RATE", help="of their links, default --rate")
    add("--aggregators-may-fail", action="store_true",
        help="when and how they end is reported, but is not a failure")


def add_faults(add):
    add("--loss", type=percent, metavar="P",
        help="percent of the packets in each direction of each link, by nftables")
    add("--loss-protocol", type=one_of("udp", "all"), metavar="udp|all",
        help="what --loss is for, default udp")
    add("--duplicate", type=percent, metavar="P", help="percent of datagrams passed on twice")
    add("--reorder", type=percent, metavar="P",
        help="percent of datagrams held back until 1 to 8 later ones have come")
    add("--delay", type=whole_number(0, DELAY_MS_MAX), metavar="MS",
        help="of every datagram in each direction; these three in the aggregators' relay")
    add("--seed", type=whole_number(0, 10**9 - 1), metavar="N",
        help="of the relay's choices, default 1")


def given(options, name):
    value = getattr(options, name)
    return value is not None and value is not False  # 0 is given, and equal to False.


def needs(options, name, condition, what):
    """Refuses an option that was given though without something else it does nothing."""
    if given(options, name) and not condition:
        refuse(f"argument --{name.replace('_', '-')}: does nothing without {what}")


def excludes(options, name, other, why):
    if given(options, name) and getattr(options, other):
        refuse(f"argument --{name.replace('_', '-')}: not accepted with "
               f"--{other.replace('_', '-')}, {why}")


def check(options):
    aggregators = options.aggregators or options.aggregators_on_workers
    some = "--aggregators or --aggregators-on-workers"
    excludes(options, "aggregators", "aggregators_on_workers", "which has one for each worker")
    needs(options, "aggregator_command", aggregators, some)
    if aggregators and not options.aggregator_command:
        refuse("no --aggregator-command: aggregators need one")
    for name in OF_AGGREGATORS:
        needs(options, name, aggregators, some)
    needs(options, "aggregator_rate", options.aggregators, "--aggregators, which have own links")
    for name in ("rate", "mtu", "aggregator_rate", "require_namespaces"):
        excludes(options, name, "no_namespaces", "where there are no links")
    needs(options, "loss_protocol", given(options, "loss"), "--loss")
    relayed = any(given(options, name) for name in ("duplicate", "reorder", "delay"))
    needs(options, "seed", relayed or (given(options, "loss") and options.no_namespaces),
          "--duplicate, --reorder or --delay (loss is the kernel's, which takes no seed)")
    if options.loss and options.no_namespaces and (why := why_no_loss_on_loopback(options)):
        refuse(f"argument --loss: {why}")
    if options.loss and not options.no_namespaces and shutil.which("nft") is None:
        refuse("argument --loss: no nft in PATH; accepted where nftables is installed, "
               "or with --no-namespaces and aggregators")


def why_no_loss_on_loopback(options):
    """The relay loses in the kernel's place, but only what passes through it."""
    if not options.aggregator_command or options.loss_protocol == "all":
        return "without namespaces only the aggregators' UDP can be lost, by their relay"
    return None


def parse_arguments(argv):
    at = argv.index("--") if "--" in argv else len(argv)
    options = make_parser().parse_args(argv[:at])
    options.command = argv[at + 1:]
    if not options.command:
        refuse("no command: accepted is tools/lab [OPTIONS] -- COMMAND ARG...")
    check(options)
    for name, value in DEFAULTS.items():
        if getattr(options, name) is None:
            setattr(options, name, Rate(value) if name == "rate" else value)
    options.aggregator_rate_follows = options.aggregator_rate is None
    options.aggregator_rate = options.aggregator_rate or options.rate
    options.aggregator_count = (options.workers if options.aggregators_on_workers
                                else options.aggregators or 0)
    if options.json:
        try:  # Emptied now: an old file must not be taken for this run's.
            open(options.json, "w", encoding="utf-8").close()
        except OSError as error:
            refuse(f"argument --json: '{options.json}': {error.strerror}")
    return options
