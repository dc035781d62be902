"""A run: relays and aggregators, then the workers, then the end of all in the reverse order."""

import contextlib
import json
import os
import pathlib
import selectors
import signal
import socket
import sys
import time

from lab_parts import answering, processes, relay
from lab_parts.control import VARIABLE
from lab_parts.network import node_of_aggregator
from lab_parts.lab_options import AGGREGATOR_PORT, Rate
from lab_parts.system import TIMED_OUT, say

READY_S = 60.0                  # What an aggregator has until it is ready.
STOP_S = 3.0                    # Between SIGTERM and SIGKILL.
ENDED_BY_SIGTERM = 128 + signal.SIGTERM


class Run:
    """Starts everything, passes on its output, and ends it in order; one thread."""

    def __init__(self, options, cluster, wake):
        self.options, self.cluster, self.wake = options, cluster, wake
        self.workers, self.aggregators, self.relays, self.timers = [], [], [], []
        self.targets, self.doors = [], []  # Where aggregators listen; where workers send to.
        self.status, self.stopping, self.ending = 0, False, False
        self.started, self.seconds = time.monotonic(), 0.0  # Again when the workers start.
        self.rates = [{"rate": options.rate.text, "seconds": 0.0}]
        self.selector = selectors.DefaultSelector()
        self.selector.register(wake, selectors.EVENT_READ)
        self.control = answering.Control(self.set_rate)
        self.selector.register(self.control.requests, selectors.EVENT_READ, self.control)

    def run(self):
        try:
            if self.options.timeout is not None:
                self.after(self.options.timeout, self.on_time_out)
            self.start_aggregators()
            self.wait_until(lambda: self.stopping or not self.awaited())
            if not self.stopping:
                self.started = time.monotonic()
                self.start_workers()
                self.wait_until(lambda: not self.running(self.workers))
                self.seconds = time.monotonic() - self.started
            self.ending = True
            self.end(self.aggregators)
            self.end(self.relays)
            for process in self.all():
                process.finish()
        finally:
            self.signal_all(self.all(), signal.SIGKILL)

    # --- starting ---

    def start_aggregators(self):
        count = self.options.aggregator_count
        if count == 0:
            return
        self.targets = self.doors = self.choose_ports(count)
        if self.needs_relay():
            self.doors = [self.start_relay(index) for index in range(count)]
        for index in range(count):
            if not self.start_aggregator(index):
                return
        text = self.options.aggregator_ready
        self.after(READY_S, lambda: self.awaited() and self.stop(
            TIMED_OUT, f"no line with '{text}' after {READY_S:g} s:"))

    def choose_ports(self, count):
        """The same port for all, or on loopback, where that cannot be, one for each."""
        given, on_loopback = self.options.aggregator_port, self.cluster.mode == "loopback"
        nodes = [node_of_aggregator(self.options, index) for index in range(count)]
        ports = [(given or AGGREGATOR_PORT) + index * on_loopback for index in range(count)]
        if on_loopback and given is None:
            with contextlib.ExitStack() as stack:  # All are held until the last is known.
                probes = [stack.enter_context(self.bound(node)) for node in nodes]
                ports = [probe.getsockname()[1] for probe in probes]
        return [(self.cluster.address(node), port) for node, port in zip(nodes, ports)]

    def bound(self, node, kind=socket.SOCK_DGRAM):
        with self.cluster.inside(node):
            sock = socket.socket(socket.AF_INET, kind)
        sock.bind((self.cluster.address(node), 0))
        return sock

    def relay_loss(self):
        """On loopback the relay loses what the two links of the path would."""
        chance = self.options.loss / 100
        return 1 - (1 - chance)**2 if self.cluster.mode == "loopback" else 0.0

    def needs_relay(self):
        options = self.options
        return bool(options.duplicate or options.reorder or options.delay or self.relay_loss())

    def start_relay(self, index):
        """Where the aggregator is, so that the path has no link more than without it."""
        options, node = self.options, node_of_aggregator(self.options, index)
        door = self.bound(node)
        settings = {"listen_fd": door.fileno(), "target": self.targets[index], "index": index,
                    "seed": options.seed, "loss": self.relay_loss(),
                    "duplicate": options.duplicate / 100, "reorder": options.reorder / 100,
                    "delay_s": options.delay / 1000}
        command = [sys.executable, "-B", str(pathlib.Path(relay.__file__)), json.dumps(settings)]
        with door, self.cluster.inside(node):
            process = processes.start(command, os.environ, pass_fds=[door.fileno()])
            address = door.getsockname()
        self.watch(self.relays, processes.Process("relay", index, process, shown=False,
                                                  awaited=relay.READY))
        return address

    def start_aggregator(self, index):
        options, (address, port) = self.options, self.targets[index]
        command = options.aggregator_command
        for name, value in (("address", address), ("port", port), ("index", index),
                            ("workers", options.workers)):
            command = [word.replace(f"{{{name}}}", str(value)) for word in command]
        mine = {"SLUICE_LAB_AGGREGATOR": index, "SLUICE_LAB_ADDRESS": address,
                "SLUICE_LAB_PORT": port, "SLUICE_LAB_WORKERS": options.workers}
        process = self.start(node_of_aggregator(options, index), command, mine)
        if process:
            self.watch(self.aggregators, processes.Process(
                "aggregator", index, process, not options.quiet, options.raw,
                options.aggregator_ready))
        return process

    def start_workers(self):
        with self.bound(0, socket.SOCK_STREAM) as probe:
            port = probe.getsockname()[1]
        for rank in range(self.options.workers):
            process = self.start(rank, self.options.command, self.environment(rank, port))
            if not process:
                return
            self.watch(self.workers, processes.Process(
                "rank", rank, process, rank == 0 or not self.options.quiet, self.options.raw))

    def environment(self, rank, port):
        mine = {
            "RANK": rank, "WORLD_SIZE": self.options.workers, "LOCAL_RANK": 0,
            "LOCAL_WORLD_SIZE": 1, "MASTER_ADDR": self.cluster.address(0), "MASTER_PORT": port,
            "GLOO_SOCKET_IFNAME": self.cluster.interface,
            "NCCL_SOCKET_IFNAME": self.cluster.interface,
            # Ranks that NCCL takes for one host talk through shared memory, past the link.
            "NCCL_HOSTID": f"lab{rank}",
            VARIABLE: self.control.paths,
        }
        if self.doors:
            mine["SLUICE_AGGREGATORS"] = ",".join(f"{host}:{port}" for host, port in self.doors)
        return mine

    def start(self, node, command, mine):
        """A process at that node; None, and everything is to end, when it cannot be run."""
        mine = mine | {"SLUICE_LAB": 1, "SLUICE_LAB_INTERFACE": self.cluster.interface}
        environment = os.environ | {key: str(value) for key, value in mine.items()}
        try:
            with self.cluster.inside(node):
                return processes.start(command, environment)
        except OSError as error:
            say(f"cannot run '{command[0]}': {error.strerror}")
            self.stop(127 if isinstance(error, FileNotFoundError) else 126, "ending")
            return None

    def watch(self, group, process):
        group.append(process)
        for stream in (process.output, process.errors):
            self.selector.register(stream.pipe, selectors.EVENT_READ, stream)

    # --- running ---

    def all(self):
        return self.workers + self.aggregators + self.relays

    @staticmethod
    def running(group):
        return [process for process in group if process.exit is None]

    def awaited(self):
        return [p for p in self.aggregators + self.relays if not p.ready]

    def after(self, delay, action):
        self.timers.append((time.monotonic() + delay, action))

    def wait_until(self, condition):
        while not condition():
            self.step()

    def step(self):
        now = time.monotonic()
        for timer in [timer for timer in self.timers if timer[0] <= now]:
            self.timers.remove(timer)
            timer[1]()
        wait = min((max(0.0, when - now) for when, _ in self.timers), default=None)
        if self.control.pending:
            wait = 0.0
        for key, _ in self.selector.select(wait):
            if key.fileobj is self.wake:
                self.on_signals()
            elif not key.data.read():
                self.selector.unregister(key.fileobj)
        self.control.answer_one()  # No more at once: a flood of requests must not hold the rest.

    def on_signals(self):
        for number in self.wake.recv(4096):
            if number == signal.SIGCHLD:
                self.reap()
            else:
                self.stop(128 + number, f"{signal.Signals(number).name}: ending")

    def set_rate(self, text):
        """The rate as it was applied; ArgumentTypeError or Unavailable with what was wrong."""
        rate = Rate(text)
        self.cluster.set_rate(rate)
        if rate.text != self.options.rate.text:
            seconds = round(time.monotonic() - self.started, 6)
            self.rates.append({"rate": rate.text, "seconds": seconds})
        self.options.rate = rate
        if self.options.aggregator_rate_follows:
            self.options.aggregator_rate = rate
        return rate.text

    def on_time_out(self):
        what = "still running" if self.workers else "not ready"
        self.stop(TIMED_OUT, f"time-out after {self.options.timeout:g} s; {what}:")

    def reap(self):
        """Orphans too: in the PID namespace they come to this process."""
        with contextlib.suppress(ChildProcessError):
            while info := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                process = next((p for p in self.running(self.all())
                                if p.process.pid == info.si_pid), None)
                if process:
                    process.signal(signal.SIGKILL)
                _, ended, used = os.wait4(info.si_pid, 0)
                code = os.waitstatus_to_exitcode(ended)
                if process:
                    process.cpu_seconds = used.ru_utime + used.ru_stime
                    process.process.returncode = code
                    process.exit = code if code >= 0 else 128 - code
                    if process.kind == "rank":
                        self.on_exit(process, code)
                    else:
                        self.on_exit_beside(process, code)

    def on_exit(self, worker, code):
        if code == 0 or self.status != 0:
            return
        self.status = worker.exit
        say(f"{worker.name} {processes.how_it_ended(code)}")
        worker.show_errors()
        self.end_after_grace()

    def on_exit_beside(self, process, code):
        """An aggregator or relay: as asked, on SIGTERM with 0 or by it, or there is news."""
        if self.ending and process.exit in (0, ENDED_BY_SIGTERM):
            return
        process.finish()
        when = ("at the end" if self.ending else "while workers ran" if self.workers
                else "before the workers started")
        say(f"{process.name} {processes.how_it_ended(code)} {when}")
        process.show_errors()
        if self.options.aggregators_may_fail and process.kind == "aggregator" and process.ready:
            return
        self.status = self.status or process.exit or 1
        if not self.workers:
            self.stopping = True
        elif not self.ending:
            self.end_after_grace()

    # --- ending ---

    def end_after_grace(self):
        grace = self.options.grace
        self.after(grace, lambda: self.stop(0, f"{grace:g} s after that, ending"))

    def stop(self, status, why):
        """Ends the workers, or the waiting for them; what is beside them ends after them."""
        if self.ending or self.stopping:
            return
        self.status, self.stopping = self.status or status, True
        named = self.running(self.workers) or self.running(self.awaited() or self.aggregators)
        if named:
            say(f"{why} {processes.names(named)}")
        self.end_later(self.running(self.workers))

    def end(self, group):
        self.end_later(group)
        self.wait_until(lambda: not self.running(group))

    def end_later(self, group):
        self.signal_all(group, signal.SIGTERM)
        self.after(STOP_S, lambda: self.signal_all(group, signal.SIGKILL))

    def signal_all(self, group, number):
        for process in self.running(group):
            process.signal(number)
