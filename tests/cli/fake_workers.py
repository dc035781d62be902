"""Workers that know docs/wire-format.md and nothing else of Sluice. Nothing happens by itself here:
a test says who sends what and when, so it can lose, repeat and reorder on purpose."""

import dataclasses
import secrets
import select
import socket
import time

from wire_by_the_page import (HEADER_SIZE, JOIN_SIZE_MIN, REPEATED, Frame, Join, build,
                              join_payload, mix, parse, parse_welcome, table_name, table_payload)

LIMIT_SECONDS = 20  # of any answer: what takes longer does not come
AGAIN_SECONDS = 0.2  # after which a worker repeats what was not answered


def address_of(text):
    host, port = text.rsplit(":", 1)
    return host, int(port)


@dataclasses.dataclass(frozen=True)
class Reduction:
    op: str
    bits: int
    count: int
    down: str = "full"
    extra: int = 0
    grain: int = 0

    def fields(self):
        return dataclasses.asdict(self)


class Peer:
    """A socket that counts its bytes and remembers every frame that it got."""

    def __init__(self, test, server, host="127.0.0.1"):
        self.server = address_of(server)
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        test.addCleanup(self.socket.close)
        self.socket.bind((host, 0))
        self.socket.setblocking(False)
        self.seen, self.unread = [], []
        self.bytes_sent = self.bytes_back = 0

    def send(self, frame, version=None):
        self.send_raw(build(frame) if version is None else build(frame, version))

    def send_raw(self, data):
        self.bytes_sent += len(data)
        self.socket.sendto(data, self.server)

    def receive(self, seconds):
        """Takes in what has come, waiting so long for the first of it; whether there was any."""
        if not select.select([self.socket], [], [], seconds)[0]:
            return False
        while True:
            try:
                data = self.socket.recv(65536)
            except BlockingIOError:
                return True
            except ConnectionRefusedError:
                continue  # Nobody listens: a datagram is lost.
            self.bytes_back += len(data)
            frame = parse(data)
            self.seen.append(frame)
            self.unread.append(frame)

    def take(self, wanted):
        """The first frame not taken yet that is wanted, or None."""
        found = next((frame for frame in self.unread if wanted(frame)), None)
        if found:
            self.unread.remove(found)
        return found

    def expect(self, wanted, what, again=None, limit=LIMIT_SECONDS):
        """The first frame that is wanted; `again` is called whenever nothing comes for a while."""
        deadline = time.monotonic() + limit
        while True:
            found = self.take(wanted)
            if found:
                return found
            if time.monotonic() > deadline:
                raise AssertionError(f"no {what} in {limit} s, but {self.unread[-5:]}")
            if not self.receive(AGAIN_SECONDS) and again:
                again()

    def expect_kind(self, kind, again=None):
        return self.expect(lambda frame: frame.kind == kind, kind, again)


class Worker(Peer):
    def __init__(self, test, server, job, rank, size, host="127.0.0.1", slots=4,
                 terms=b"by the page"):
        super().__init__(test, server, host)
        self.job, self.rank, self.size, self.slots, self.terms = job, rank, size, slots, terms
        self.token = secrets.randbits(48) << 16
        self.cookie = self.fits = self.bound = self.epoch = 0
        self.welcome = None
        self.tables = {}  # name: entries

    def frame(self, kind, **fields):
        if kind != "join":
            fields = {"epoch": self.epoch, **fields}
        return Frame(kind, job=self.job, worker=self.rank, **fields)

    def begin_attempt(self):
        self.token = self.token & ~0xFFFF | (self.token + 1) & 0xFFFF

    def join_frame(self, size=JOIN_SIZE_MIN, **changes):
        join = Join(self.size, self.slots, size, self.token, self.fits, self.bound, self.cookie,
                    self.terms)
        join = dataclasses.replace(join, **changes)
        return self.frame("join", payload=join_payload(join))

    def send_join(self, size=JOIN_SIZE_MIN):
        self.send(self.join_frame(size))

    def answers_join(self, kind):
        return lambda frame: frame.kind == kind and frame.digest == self.token

    def prove(self):
        """Gets the cookie of this address and begins the next attempt with it."""
        self.send_join()
        proof = self.expect(self.answers_join("prove"), "prove", self.send_join)
        self.cookie = int.from_bytes(proof.payload, "little")
        self.begin_attempt()

    def find_size(self, size=1400):
        """Learns that frames of this size pass, or of the aggregator's own where that is less."""
        self.send_join(size)
        welcome = self.expect(self.answers_join("welcome"), "welcome", lambda: self.send_join(size))
        self.fits = HEADER_SIZE + len(welcome.payload)

    def is_final(self, frame):
        return self.answers_join("welcome")(frame) and frame.epoch != 0

    def take_welcome(self):
        """Whether all are there; then this one has an epoch, and what the welcome says."""
        welcome = self.take(self.is_final)
        if welcome:
            self.epoch = welcome.epoch
            self.welcome = parse_welcome(welcome.payload)
        return welcome

    def contribution(self, slot, use, reduction, payload, **fields):
        everybody = (1 << self.size) - 1
        return self.frame("contribution", **{
            "slot": slot, "use": use, "digest": digest_of(slot, use), "workers": everybody,
            "payload": payload, **reduction.fields(), **fields})

    def take_result(self, sent):
        """The result of a contribution if it has come; a table that is asked for is sent first."""
        while True:
            frame = self.take(lambda frame: answers(frame, sent))
            if not frame or frame.kind == "result":
                return frame
            entries = self.tables[frame.table]
            self.send(self.frame("table", table=frame.table, payload=table_payload(entries)))
            self.send(sent)

    def expect_result(self, sent):
        return expect_results([(self, sent)])[0]

    def restore(self, result):
        """Hands a result back, until the aggregator says that it has it."""
        frame = result.of(kind="restore", epoch=self.epoch, worker=self.rank,
                          flags=result.flags & ~REPEATED)
        self.send(frame)
        return self.expect(lambda got: got.kind == "restored" and got.epoch == self.epoch
                           and (got.slot, got.use) == (frame.slot, frame.use), "restored",
                           lambda: self.send(frame))

    def send_leave(self):
        self.send(self.frame("leave"))


def answers(frame, sent):
    """Whether a frame gives or holds up the result of a contribution."""
    if frame.kind == "need_table":
        return frame.table == sent.table
    return frame.kind == "result" and (frame.slot, frame.use, frame.digest) == (
        sent.slot, sent.use, sent.digest)


def drive(workers, step, again, what, limit=LIMIT_SECONDS):
    """What `step` gives for each worker, when it gives something; all of them go on meanwhile, and
    whoever waits does `again` when nothing comes for anybody."""
    done = {}
    deadline = time.monotonic() + limit
    while True:
        waiting = [worker for worker in workers if worker not in done]
        for worker in waiting:
            found = step(worker)
            if found:
                done[worker] = found
        if len(done) == len(workers):
            return [done[worker] for worker in workers]
        if time.monotonic() > deadline:
            unread = {worker.rank: worker.unread[-3:] for worker in waiting}
            raise AssertionError(f"no {what} in {limit} s for {unread}")
        ready = select.select([worker.socket for worker in workers], [], [], AGAIN_SECONDS)[0]
        for worker in workers:
            if worker.socket in ready:
                worker.receive(0)
            elif not ready and worker not in done:
                again(worker)


def expect_results(sent):
    """The results of contributions, given as (worker, frame)."""
    frames = dict(sent)
    return drive([worker for worker, _ in sent], lambda w: w.take_result(frames[w]),
                 lambda w: w.send(frames[w]), "result")


def digest_of(slot, use):
    return mix(mix(0x5EED, slot), use)


class Job:
    """The workers of one job, driven in step."""

    def __init__(self, test, server, number, size, hosts=("127.0.0.1",), **options):
        self.workers = [Worker(test, server, number, rank, size, hosts[rank % len(hosts)],
                               **options) for rank in range(size)]
        self.number, self.uses = number, {}

    def begin(self, limit=LIMIT_SECONDS):
        for worker in self.workers:
            worker.prove()
            worker.find_size()
            worker.send_join()
        return self.enter(limit)

    def enter(self, limit=LIMIT_SECONDS):
        drive(self.workers, Worker.take_welcome, Worker.send_join, "welcome with an epoch", limit)
        return self

    def begin_again(self):
        """Joins after the aggregator has lost its memory: bound to what the job has run with."""
        for worker in self.workers:
            worker.begin_attempt()
            worker.bound, worker.fits = 1, worker.welcome.frame_size
            worker.slots, worker.cookie = worker.welcome.slots, 0
            worker.prove()
            worker.send_join()
        return self.enter()

    def next_chunk(self, slot):
        self.uses[slot] = self.uses.get(slot, 0) + 1
        return self.uses[slot]

    def contributions(self, slot, reduction, payloads, **fields):
        """What all send for the slot's next use."""
        use = self.next_chunk(slot)
        return [worker.contribution(slot, use, reduction, payload, **fields)
                for worker, payload in zip(self.workers, payloads)]

    def reduce(self, slot, reduction, payloads, **fields):
        """Everybody's result of the slot's next use."""
        sent = self.contributions(slot, reduction, payloads, **fields)
        for worker, frame in zip(self.workers, sent):
            worker.send(frame)
        return expect_results(list(zip(self.workers, sent)))

    def add_table(self, entries):
        name = table_name(entries)
        for worker in self.workers:
            worker.tables[name] = entries
        return name

    def leave(self):
        """All say that they have everything, until nobody needs them."""
        everybody = (1 << len(self.workers)) - 1

        def is_last(frame):
            return frame.kind == "left" and frame.workers == everybody

        for worker in self.workers:
            worker.send_leave()
        drive(self.workers, lambda worker: worker.take(is_last), Worker.send_leave, "left of all")
