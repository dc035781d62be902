"""The relay in an aggregator's path: passes datagrams on, some twice, some late, some not at all.

    python3 relay.py '{"listen_fd": 3, "target": ["10.77.0.101", 48864], ...}'

Workers send to the relay's socket, which the lab has bound; each of their addresses gets a socket
of its own towards the aggregator, so that the aggregator sees as many addresses as there are.
The n-th datagram that one address sends in one direction has a fate that depends on the seed, the
aggregator, the direction, the address and n alone; not on time, and not on other traffic. Counts
are written to stdout as one line of JSON on SIGTERM.
"""

import collections
import dataclasses
import json
import random
import selectors
import signal
import socket
import struct
import sys
import time

READY = "relaying"
GAP_MAX = 8                     # Of later datagrams that overtake one which is held back.
FLOWS_MAX = 1024                # Addresses of workers; a descriptor each.
DATAGRAM_BYTES_MAX = 1 << 16
BATCH = 64                      # Datagrams from one socket before the others have their turn.
BUFFER_BYTES = 4 << 20
SO_MEMINFO, MEMINFO_WORDS, MEMINFO_DROPS = 55, 9, 8


@dataclasses.dataclass
class Settings:
    listen_fd: int
    target: tuple               # The aggregator's address and port.
    index: int = 0              # The aggregator's.
    seed: int = 1
    loss: float = 0.0           # Probabilities.
    duplicate: float = 0.0
    reorder: float = 0.0
    delay_s: float = 0.0
    hold_s: float = 0.01        # Nothing is held back for longer, or the last would wait for ever.


@dataclasses.dataclass
class Counts:
    """received - lost + duplicated = sent + undelivered + left."""

    received: int = 0
    lost: int = 0
    duplicated: int = 0
    held: int = 0
    expired: int = 0            # Held, or a late copy, and let go by time, not by later ones.
    sent: int = 0
    undelivered: int = 0        # The kernel refused it.
    left: int = 0               # Still held or delayed at the end.
    overflowed: int = 0         # Never received: the relay was too slow.


@dataclasses.dataclass
class Held:
    gap: int
    deadline: float
    data: bytes


class Lane:
    """One direction of one worker's address; decides and orders, without input and output."""

    def __init__(self, settings, key, emit, counts):
        self._settings, self._emit, self._counts = settings, emit, counts
        self._random = random.Random(f"{settings.seed}/{settings.index}/{key}")
        self.held = []

    def fate(self):
        """(lost, gap of the datagram, gap of its copy or None); a gap of 0 is no wait.

        The number of draws is always the same, so one option does not shift another's choices.
        """
        lose, twice, hold, gap, copy_gap = (self._random.random() for _ in range(5))
        chances = self._settings
        return (lose < chances.loss,
                1 + int(gap * GAP_MAX) if hold < chances.reorder else 0,
                int(copy_gap * (GAP_MAX + 1)) if twice < chances.duplicate else None)

    def accept(self, data, now):
        """True when something is held back that was not before."""
        self._counts.received += 1
        lost, *gaps = self.fate()
        if lost:
            self._counts.lost += 1
            return False
        self._counts.held += gaps[0] > 0
        self._counts.duplicated += gaps[1] is not None
        for held in self.held:
            held.gap -= 1
        free = [held for held in self.held if held.gap == 0]
        self.held = [held for held in self.held if held.gap > 0]
        before = len(self.held)
        for gap in gaps:
            if gap:
                self.held.append(Held(gap, now + self._settings.hold_s, data))
            elif gap == 0:
                self._emit(data)
        for held in free:
            self._emit(held.data)
        return len(self.held) > before

    def expire(self, now):
        free = [held for held in self.held if held.deadline <= now]
        self.held = [held for held in self.held if held.deadline > now]
        self._counts.expired += len(free)
        for held in free:
            self._emit(held.data)


class Flow:
    """A worker's address, its socket towards the aggregator, and both directions."""

    def __init__(self, relay, name, address):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setblocking(False)
        enlarge(self.socket)
        self.socket.bind((relay.address, 0))
        self.socket.connect(tuple(relay.settings.target))
        self.to_aggregator = Lane(relay.settings, f"to aggregator/{name}", lambda data: relay.emit(
            relay.to_aggregator, self.socket.send, data), relay.to_aggregator)
        self.to_worker = Lane(relay.settings, f"to worker/{name}", lambda data: relay.emit(
            relay.to_workers, lambda data: relay.listener.sendto(data, address), data),
            relay.to_workers)


def enlarge(sock):
    try:
        sock.setsockopt(socket.SOL_SOCKET, 33, BUFFER_BYTES)  # SO_RCVBUFFORCE, for root.
    except PermissionError:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)


def overflows(sock):
    """Datagrams that found no room in this socket."""
    data = sock.getsockopt(socket.SOL_SOCKET, SO_MEMINFO, 4 * MEMINFO_WORDS)
    return struct.unpack(f"{MEMINFO_WORDS}I", data)[MEMINFO_DROPS]


class Relay:
    def __init__(self, settings, wake):
        self.settings, self.wake, self.ended = settings, wake, False
        self.listener = socket.socket(fileno=settings.listen_fd)
        self.listener.setblocking(False)
        enlarge(self.listener)
        self.address = self.listener.getsockname()[0]
        self.to_aggregator, self.to_workers = Counts(), Counts()
        self.flows, self.names, self.refused = {}, collections.Counter(), 0
        # Delay and hold are the same for all, so these are in order of time as they come.
        self.delayed, self.deadlines = collections.deque(), collections.deque()
        self.selector = selectors.DefaultSelector()
        self.selector.register(wake, selectors.EVENT_READ)
        self.selector.register(self.listener, selectors.EVENT_READ)

    def emit(self, counts, send, data):
        if self.settings.delay_s:
            due = time.monotonic() + self.settings.delay_s
            self.delayed.append((due, counts, send, data))
        else:
            self.send(counts, send, data)

    @staticmethod
    def send(counts, send, data):
        try:
            send(data)
            counts.sent += 1
        except OSError:  # A full queue, or nobody there: UDP loses it.
            counts.undelivered += 1

    def flow(self, address):
        if address not in self.flows:
            if len(self.flows) == FLOWS_MAX:
                return None
            # A port is chosen by chance, so the seed's choices go by how many came before it.
            name = f"{address[0]}/{self.names[address[0]]}"
            self.names[address[0]] += 1
            self.flows[address] = flow = Flow(self, name, address)
            self.selector.register(flow.socket, selectors.EVENT_READ, flow)
        return self.flows[address]

    def run(self):
        while not self.ended:
            for key, _ in self.selector.select(self.wait_s()):
                if key.fileobj is self.wake:
                    self.ended = True
                elif key.data is None:
                    self.from_workers()
                else:
                    self.from_aggregator(key.data)
            self.pass_on(time.monotonic())

    def wait_s(self):
        due = [queue[0][0] for queue in (self.delayed, self.deadlines) if queue]
        return max(0.0, min(due) - time.monotonic()) if due else None

    def pass_on(self, now):
        while self.deadlines and self.deadlines[0][0] <= now:
            self.deadlines.popleft()[1].expire(now)
        while self.delayed and self.delayed[0][0] <= now:
            self.send(*self.delayed.popleft()[1:])

    def accept(self, lane, data):
        now = time.monotonic()
        if lane.accept(data, now):
            self.deadlines.append((now + self.settings.hold_s, lane))

    def from_workers(self):
        for _ in range(BATCH):
            try:
                data, address = self.listener.recvfrom(DATAGRAM_BYTES_MAX)
            except OSError:
                return
            if flow := self.flow(address):
                self.accept(flow.to_aggregator, data)
            else:
                self.refused += 1

    def from_aggregator(self, flow):
        for _ in range(BATCH):
            try:
                data = flow.socket.recv(DATAGRAM_BYTES_MAX)
            except ConnectionRefusedError:  # What was sent found nobody; it counts as sent.
                continue
            except OSError:
                return
            self.accept(flow.to_worker, data)

    def report(self):
        for _, counts, _, _ in self.delayed:
            counts.left += 1
        for flow in self.flows.values():
            self.to_aggregator.left += len(flow.to_aggregator.held)
            self.to_workers.left += len(flow.to_worker.held)
            self.to_workers.overflowed += overflows(flow.socket)
        self.to_aggregator.overflowed = overflows(self.listener)
        return {"flows": len(self.flows), "refused": self.refused,
                "to_aggregator": dataclasses.asdict(self.to_aggregator),
                "to_workers": dataclasses.asdict(self.to_workers)}


def main(argv):
    wake, wake_write = socket.socketpair()
    wake_write.setblocking(False)
    signal.set_wakeup_fd(wake_write.fileno())
    signal.signal(signal.SIGTERM, lambda *_: None)
    relay = Relay(Settings(**json.loads(argv[0])), wake)
    print(READY, file=sys.stderr, flush=True)  # From here on SIGTERM brings the counts.
    relay.run()
    print(json.dumps(relay.report()), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
