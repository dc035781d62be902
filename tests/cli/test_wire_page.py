"""Whole jobs of workers that were written from docs/wire-format.md alone, and strangers."""

import os
import re
import struct
import time
import unittest

from fake_aggregator import FakeAggregator
from fake_workers import LIMIT_SECONDS, Job, Peer, Reduction, Worker, digest_of, expect_results
from sluice_cli import npy_bytes
from sluiced_kit import SLUICE, Daemon, Process, SluicedTest
from wire_by_the_page import (REPEATED, VERSION, Frame, Malformed, block_list, build, f32,
                              gather_down, join_payload, narrow_down, pack_lanes, parse,
                              parse_join, parse_welcome, round_down, sealed, table_name,
                              table_payload, welcome_payload)

HERE = os.path.dirname(os.path.abspath(__file__))
GOLDEN = os.path.join(HERE, "..", "data", "wire")
PAGE = os.path.join(HERE, "..", "..", "docs", "wire-format.md")
WRAP = Reduction("wrap_sum", 32, 3)


def words(*values):
    return struct.pack(f"<{len(values)}I", *values)


def golden(name):
    with open(os.path.join(GOLDEN, name), encoding="utf-8") as file:
        return [line.rstrip("\n") for line in file]


def unhex(text):
    return b"" if text == "-" else bytes.fromhex(text)


class Frames(unittest.TestCase):
    def test_the_example_of_the_page(self):
        with open(PAGE, encoding="utf-8") as file:
            lines = re.findall(r"^00[0-9a-f]{2}  ((?:[0-9a-f]{2} ){7}[0-9a-f]{2})",
                               file.read(), re.MULTILINE)
        frame = Frame("contribution", 0x1122334455667788, 1, 3, 2, 5, 0, 0x0123456789ABCDEF, 7, 0,
                      "lane_sum", 4, "round", 1, 16, 8, 0, bytes(range(0x10, 0x18)))
        self.assertEqual(build(frame), bytes.fromhex("".join(lines)))

    def test_the_small_examples_of_the_page(self):
        with open(PAGE, encoding="utf-8") as file:
            page = file.read()
        rounded = [20, 31, 5, 22, 40, 18, 27, 23]
        for data in (pack_lanes([1, 2, 3], 4),
                     narrow_down([9, 12, 10, 9, 11, 9, 10, 13], 6, 8),
                     round_down(rounded, 4, 45, 8),
                     block_list({1: [1, 0, 5, 0, 3, 0, 0, 0]}, 8, 8)):
            self.assertIn(f"`{data.hex(' ')}`", page)
        self.assertIn(f"the sums {', '.join(map(str, rounded))}.", page)

    def test_golden_frames_are_read_and_written_alike(self):
        for line in golden("good.txt"):
            name, data = line.split(" ")
            data = bytes.fromhex(data)
            frame = parse(data)
            self.assertEqual(build(frame), data, name)
            if frame.kind == "join":
                self.assertEqual(join_payload(parse_join(frame.payload)), frame.payload)
            if frame.kind == "welcome":
                welcome = parse_welcome(frame.payload)
                self.assertEqual(welcome_payload(welcome, len(data)), frame.payload)

    def test_golden_faults_are_found(self):
        for line in golden("bad.txt") + golden("truncated.txt"):
            data, fault = line.split(" ", 1)
            with self.assertRaises(Malformed, msg=fault):
                parse(unhex(data))
        for line in golden("bodies.txt"):
            kind, data, fault = line.split(" ", 2)
            with self.assertRaises(Malformed, msg=fault):
                (parse_join if kind == "join" else parse_welcome)(unhex(data))


class Jobs(SluicedTest):
    def check(self, results, payload, **fields):
        """Everybody has this answer, of everybody, and it is the first."""
        everybody = (1 << len(results)) - 1
        for result in results:
            want = {"payload": payload, "workers": everybody, "flags": 0, **fields}
            self.assertEqual({name: getattr(result, name) for name in want}, want)

    def check_sums(self, job):
        ranks = range(len(job.workers))
        self.check(job.reduce(0, WRAP, [words(r, 7, 0xFFFFFFFF - r) for r in ranks]),
                   words(sum(ranks), 7 * len(ranks),
                         sum(0xFFFFFFFF - r for r in ranks) & 0xFFFFFFFF))
        high = [[(r * 5 + lane * 7) % 32 for lane in range(10)] for r in ranks]
        self.check(job.reduce(1, Reduction("max", 5, 10), [pack_lanes(v, 5) for v in high]),
                   pack_lanes([max(column) for column in zip(*high)], 5))
        floats = [[f32(1e8 * (1 - r)), f32(0.1 + r), -1.5] for r in ranks]
        total = floats[0]
        for row in floats[1:]:
            total = [f32(a + b) for a, b in zip(total, row)]
        self.check(job.reduce(2, Reduction("f32_sum", 32, 3),
                              [struct.pack("<3f", *row) for row in floats]),
                   struct.pack("<3f", *total))
        texts = [b"rank %d" % r * r for r in ranks]
        self.check(job.reduce(3, Reduction("gather", 8, 64), texts),
                   gather_down(enumerate(texts)))

    def check_lane_sums(self, job):
        size = len(job.workers)
        codes = [[(lane * 3 + r) % 16 for lane in range(20)] for r in range(size)]
        up = [pack_lanes(row, 4) for row in codes]
        sums = [sum(column) for column in zip(*codes)]
        width = (15 * size).bit_length()
        self.check(job.reduce(0, Reduction("lane_sum", 4, 20), up), pack_lanes(sums, width))
        self.check(job.reduce(0, Reduction("lane_sum", 4, 20, "narrow", 0, 8), up),
                   narrow_down(sums, width, 8))
        rounded = pack_lanes(sums, width) if width <= 4 else round_down(sums, 4, 15 * size, 8)
        self.check(job.reduce(0, Reduction("lane_sum", 4, 20, "round", 0, 8), up), rounded)
        entries = (0, 1, 3, 300)
        name = job.add_table(entries)
        codes = [[(lane + r) % 4 for lane in range(9)] for r in range(size)]
        sums = [sum(entries[code] for code in column) for column in zip(*codes)]
        width = (300 * size).bit_length()
        answers = {"full": pack_lanes(sums, width), "narrow": narrow_down(sums, width)}
        for down, answer in answers.items():
            self.check(job.reduce(1, Reduction("lane_sum", 2, 9, down),
                                  [pack_lanes(row, 2) for row in codes], table=name), answer,
                       table=name)

    def check_blocks(self, job):
        """Blocks in a slot, where everybody speaks, and in a ring, where only one has some."""
        size = len(job.workers)
        what = Reduction("block_sum", 16, 64, grain=16)
        blocks = [{0: [r + 1] * 16, 2 + r % 2: [0, 65535] + [0] * 14} for r in range(size)]
        sums = {}
        for mine in blocks:
            for number, values in mine.items():
                there = sums.setdefault(number, [0] * 16)
                sums[number] = [(a + b) % 65536 for a, b in zip(there, values)]
        self.check(job.reduce(2, what, [block_list(mine, 16, 16) for mine in blocks]),
                   block_list(sums, 16, 16))
        ring = job.workers[0].welcome.slots
        mine = block_list({1: [9] * 16}, 16, 16)
        sent = [worker.contribution(ring, 1, what, b"" if worker.rank else mine, next=2)
                for worker in job.workers]
        for worker, frame in zip(job.workers, sent):
            worker.send(frame)
        self.check(expect_results(list(zip(job.workers, sent))), mine)

    def test_jobs_of_one_to_three_join_sum_and_leave(self):
        daemon = Daemon(self)
        for size in (1, 2, 3):
            job = Job(self, daemon.udp, 0x1000 + size, size).begin()
            welcomes = {(worker.epoch, worker.welcome) for worker in job.workers}
            self.assertEqual(len(welcomes), 1, welcomes)
            self.assertEqual(job.workers[0].welcome.frame_size, 1400)
            self.assertIn(f"0x{job.number:016x}", daemon.get("/jobs")[1])
            self.check_sums(job)
            self.check_lane_sums(job)
            self.check_blocks(job)
            job.leave()
            self.assertEqual(daemon.jobs(), [])
        self.assertEqual(daemon.metric("malformed_total"), 0)

    def test_only_some_are_counted(self):
        daemon = Daemon(self)
        job = Job(self, daemon.udp, 0x1100, 3).begin()
        results = job.reduce(0, WRAP, [words(r, r, r) for r in (1, 10, 100)], workers=0b101)
        self.check(results, words(101, 101, 101), workers=0b101)


class Faults(SluicedTest):
    """What a network does, done on purpose."""

    def setUp(self):
        super().setUp()
        self.daemon = Daemon(self)
        self.job = Job(self, self.daemon.udp, 0x2000, 2).begin()
        self.first, self.second = self.job.workers

    def payloads(self, use):
        return [words(use, 1, 1 << 31), words(1000 * use, 2, 1 << 31)]

    def answer(self, use):
        return words(1001 * use, 3, 0)

    def wait_at(self, worker, use):
        frame = worker.expect(lambda got: got.kind == "wait" and got.use == use, "wait")
        self.assertEqual(frame.digest, digest_of(0, use))
        return frame.workers

    def test_everything_twice_late_and_lost_is_counted_once(self):
        old = None
        for use in range(1, 7):
            mine, other = self.job.contributions(0, WRAP, self.payloads(use))
            ask = self.first.frame("ask", slot=0, use=use, digest=mine.digest)
            self.first.send(ask)  # Before anything has come: nobody is here.
            self.assertEqual(self.wait_at(self.first, use), 0)
            self.first.send(mine)
            self.first.send(mine)
            self.assertEqual(self.wait_at(self.first, use), 0b01)
            self.first.send(ask)
            self.assertEqual(self.wait_at(self.first, use), 0b01)
            if old:
                self.first.send(old[0])  # A late copy of the use before.
                self.second.send(old[1])
            self.second.send(other)
            result = self.second.expect_result(other)
            self.assertEqual((result.payload, result.flags), (self.answer(use), 0))
            # The first one's copy is lost: it asks, and sends again.
            lost = self.first.expect_result(mine)
            self.assertEqual(lost.payload, self.answer(use))
            for again in (ask, mine):
                self.first.send(again)
                result = self.first.expect(lambda got, c=use: got.kind == "result"
                                           and got.use == c, "result")
                self.assertEqual((result.payload, result.flags), (self.answer(use), REPEATED))
            old = mine, other
        self.assertEqual(self.daemon.metric("accepted_total"), 12)
        self.job.leave()

    def test_a_chunk_of_long_ago_changes_nothing(self):
        sent = []
        for use in range(1, 5):
            frames = self.job.contributions(0, WRAP, self.payloads(use))
            sent.append(frames)
            for worker, frame in zip(self.job.workers, frames):
                worker.send(frame)
            for result in expect_results(list(zip(self.job.workers, frames))):
                self.assertEqual(result.payload, self.answer(use))
        mine, other = self.job.contributions(0, WRAP, self.payloads(5))
        self.first.send(mine)
        for frames in sent[:3]:  # Use 4 is complete and answers; the others are over.
            self.first.send(frames[0])
            self.second.send(frames[1])
        self.second.send(other)
        for result in expect_results([(self.first, mine), (self.second, other)]):
            self.assertEqual((result.payload, result.flags), (self.answer(5), 0))
        self.assertEqual(self.daemon.metric("stale_total"), 6)
        self.assertEqual(self.daemon.metric("accepted_total"), 10)

    def test_other_digests_end_the_job(self):
        mine, other = self.job.contributions(0, WRAP, self.payloads(1))
        self.first.send(mine)
        self.second.send(other.of(digest=1))
        for worker in self.job.workers:
            refused = worker.expect_kind("refused")
            self.assertEqual((refused.digest, refused.epoch), (worker.token, worker.epoch))
            self.assertRegex(refused.payload.decode(), "worker 1 reduces something else than")


class Restarts(SluicedTest):
    def test_a_daemon_that_is_killed_gets_its_sums_back(self):
        daemon = Daemon(self)
        job = Job(self, daemon.udp, 0x3000, 3).begin()
        results = job.reduce(0, WRAP, [words(1, 2, 3)] * 3)
        old = job.contributions(0, WRAP, [words(r, r, r) for r in (1, 20, 300)])
        for worker, frame in zip(job.workers, old):
            worker.send(frame)
        results = expect_results(list(zip(job.workers, old)))
        epoch = job.workers[0].epoch
        daemon.kill()
        daemon = Daemon(self, listen=daemon.udp)
        for worker in job.workers:
            ask = worker.frame("ask", slot=0, use=2, digest=digest_of(0, 2))
            worker.send(ask)
            gone = worker.expect(lambda frame: frame.kind == "gone", "gone",
                                 lambda w=worker, a=ask: w.send(a))
            self.assertEqual((gone.job, gone.epoch), (job.number, epoch))
        job.begin_again()
        self.assertNotEqual(job.workers[0].epoch, epoch)
        # Worker 0 alone has the result of use 2; the others contribute again and are given it.
        job.workers[0].restore(results[0])
        for worker, frame in list(zip(job.workers, old))[1:]:
            worker.send(frame.of(epoch=worker.epoch))
            again = worker.expect_result(frame)
            self.assertEqual((again.payload, again.workers), (words(321, 321, 321), 0b111))
        for result in job.reduce(0, WRAP, [words(5, r, 1) for r in range(3)]):
            self.assertEqual((result.payload, result.use), (words(15, 3, 3), 3))
        self.assertEqual(daemon.metric("accepted_total"), 3)
        job.leave()
        self.assertEqual(daemon.jobs(), [])

    def test_a_crashed_job_starts_again_under_its_number(self):
        daemon = Daemon(self)
        crashed = Job(self, daemon.udp, 0x3100, 2).begin()
        crashed.reduce(0, WRAP, [words(1, 2, 3)] * 2)
        start = time.monotonic()
        job = Job(self, daemon.udp, 0x3100, 2).begin(limit=10)
        self.assertLess(time.monotonic() - start, 10, "the promise is to begin in 10 s")
        self.assertNotEqual(job.workers[0].epoch, crashed.workers[0].epoch)
        for result in job.reduce(0, WRAP, [words(4, 5, 6)] * 2):
            self.assertEqual(result.payload, words(8, 10, 12))

    def test_a_65th_table_is_refused(self):
        daemon = Daemon(self)
        job = Job(self, daemon.udp, 0x3200, 1).begin()
        [worker] = job.workers
        what = Reduction("lane_sum", 1, 8)
        for number in range(64):
            name = job.add_table((number, 1000))
            [result] = job.reduce(0, what, [b"\x01"], table=name)
            self.assertEqual(result.table, name)
        name = job.add_table((64, 1000))
        worker.send(worker.contribution(0, 65, what, b"\x01", table=name))
        worker.expect_kind("need_table")
        worker.send(worker.frame("table", table=name, payload=table_payload((64, 1000))))
        refused = worker.expect_kind("refused")
        self.assertEqual(refused.digest, worker.token)
        self.assertRegex(refused.payload.decode(), r"tables?\b.*\b64|64\b.*\btables?")


class Strangers(SluicedTest):
    """Whoever has not shown that it receives where it sends from gets no more than it sent, and
    whoever is no member changes nothing."""

    def setUp(self):
        super().setUp()
        self.daemon = Daemon(self)
        self.job = Job(self, self.daemon.udp, 0x4000, 2).begin()
        self.epoch = self.job.workers[0].epoch
        self.control = Peer(self, self.daemon.udp)
        self.rounds = 0

    def settle(self, *peers):
        """Until everything sent so far is dealt with: the daemon answers in order."""
        self.rounds += 1
        ask = Frame("ask", job=0xFFFF, epoch=self.rounds)
        self.control.send(ask)
        self.control.expect(lambda frame: frame.kind == "gone" and frame.epoch == ask.epoch,
                            "gone", lambda: self.control.send(ask))
        for peer in peers:
            peer.receive(0)

    def check_goes_on(self):
        ranks = [words(self.rounds, 1, 2), words(3, 4, 5)]
        for result in self.job.reduce(0, WRAP, ranks):
            self.assertEqual((result.payload, result.workers),
                             (words(self.rounds + 3, 5, 7), 0b11))

    def frames_of(self, job, epoch):
        """One of every kind that is not a join, in the name of worker 1."""
        place = {"slot": 0, "use": 1, "digest": digest_of(0, 1)}
        summed = {**place, "workers": 3, **WRAP.fields()}
        entries = (1, 2, 3, 4)
        fields = {
            "ask": place, "leave": {}, "contribution": {**summed, "payload": bytes(12)},
            "restore": {**summed, "payload": bytes(12)},
            "table": {"table": table_name(entries), "payload": table_payload(entries)},
            "result": {**summed, "payload": bytes(12)}, "wait": {**place, "workers": 1},
            "restored": {"slot": 0, "use": 1}, "need_table": {"table": 1}, "gone": {},
            "left": {"workers": 3}, "refused": {"payload": b"go away"},
        }
        return [Frame(kind, job=job, worker=1, epoch=epoch, **rest)
                for kind, rest in fields.items()]

    def datagrams(self):
        """(what, bytes) of everything that a stranger may say."""
        said = []
        here, away = self.job.number, 0x4444
        for name, job, epoch in (("of the job", here, self.epoch), ("wrong epoch", here, 1),
                                 ("epoch 0", here, 0), ("no such job", away, self.epoch)):
            said += [(f"{frame.kind}, {name}", build(frame))
                     for frame in self.frames_of(job, epoch)]
        for name, job in (("of the job", here), ("no such job", away)):
            worker = Worker(self, self.daemon.udp, job, 1, 2)
            for size in (576, 1400, 9000, 20000):
                said.append((f"join of {size}, {name}", build(worker.join_frame(size))))
                said.append((f"join of {size}, wrong cookie, {name}",
                             build(worker.join_frame(size, cookie=7))))
            fits = {"fits": 1400, "cookie": self.job.workers[1].cookie}
            said.append((f"join, another's cookie, {name}", build(worker.join_frame(**fits))))
            said.append((f"join, bound, {name}", build(worker.join_frame(**fits, bound=1))))
        ask = Frame("ask", job=away)
        said += [(f"ask of version {other}", build(ask, other)) for other in (1, 2, 4, 255)]
        said += [("garbage", b"SL" * 40), ("one byte", b"S"), ("nothing", b""),
                 ("a damaged ask", build(ask)[:-1] + b"\1"),
                 ("an ask cut short", build(ask)[:79]),
                 ("an unknown kind", sealed(build(ask)[:3] + b"\x63" + build(ask)[4:]))]
        self.assertNotIn(VERSION, (1, 2, 4, 255))
        return said

    def test_nobody_unproven_gets_more_than_it_sent(self):
        rows = []
        for what, data in self.datagrams():
            stranger = Peer(self, self.daemon.udp)
            stranger.send_raw(data)
            self.settle(stranger)
            rows.append((what, stranger.bytes_sent, stranger.bytes_back,
                         "+".join(frame.kind for frame in stranger.seen)))
            self.assertLessEqual(stranger.bytes_back, stranger.bytes_sent, what)
            for frame in stranger.seen:
                self.assertIn(frame.kind, ("gone", "prove"), what)
                # Gone repeats the epoch of what it answers: nobody learns one.
                self.assertEqual(frame.epoch, parse(data).epoch, what)
        print("\n" + "\n".join(f"{sent:6} sent {back:4} back  {what}  {kinds}"
                               for what, sent, back, kinds in rows))
        self.check_goes_on()

    def test_another_address_changes_nothing(self):
        self.check_goes_on()
        stranger = Peer(self, self.daemon.udp)
        member = self.job.workers[1]
        mine, other = self.job.contributions(0, WRAP, [words(1, 2, 3), words(4, 5, 6)])
        self.job.workers[0].send(mine)
        forged = [
            member.frame("leave"), other.of(payload=words(9, 9, 9)),
            other.of(use=1 << 30, digest=1), other.of(use=other.use + 2), other.of(digest=1),
            other.of(kind="restore", payload=words(9, 9, 9)),
            other.of(kind="restore", use=other.use + 1), other.of(worker=0),
            member.frame("ask", slot=0, use=other.use, digest=other.digest),
            *self.frames_of(self.job.number, self.epoch),
        ]
        for frame in forged:
            stranger.send(frame)
        self.settle(stranger)
        self.assertEqual({frame.kind for frame in stranger.seen}, {"gone"})
        member.send(other)
        for result in expect_results(list(zip(self.job.workers, (mine, other)))):
            self.assertEqual((result.payload, result.flags), (words(5, 7, 9), 0))
        self.check_goes_on()
        [job] = self.daemon.jobs()
        self.assertEqual(job["joined"], [0, 1])
        self.assertGreater(self.daemon.metric("strangers_total"), 0)

    def test_a_rank_that_is_taken_is_not_let_in(self):
        stranger = Worker(self, self.daemon.udp, self.job.number, 0, 2)
        stranger.prove()
        stranger.fits = 1400
        deadline = time.monotonic() + LIMIT_SECONDS
        refused = None
        while not refused:
            self.assertLess(time.monotonic(), deadline, "neither let in nor refused")
            stranger.send_join()
            stranger.receive(0.1)
            refused = stranger.take(stranger.answers_join("refused"))
            self.check_goes_on()
        self.assertIn("rank 0", refused.payload.decode())
        self.assertEqual({frame.epoch for frame in stranger.seen}, {0})
        self.settle()
        self.check_goes_on()

    def test_one_job_gets_at_most_a_quarter_of_the_slots(self):
        greedy = Job(self, self.daemon.udp, 0x4100, 1, slots=65535).begin()
        self.assertLessEqual(greedy.workers[0].welcome.slots,
                             self.daemon.metric("slots_max") / 4)

    def join_alone(self, host, number):
        """What becomes of a job of one worker there."""
        worker = Worker(self, self.daemon.udp, number, 0, 1, host)
        worker.prove()
        worker.fits = 1400
        worker.send_join()
        return worker.expect(lambda frame: worker.is_final(frame)
                             or worker.answers_join("refused")(frame), "answer", worker.send_join)

    def test_one_host_leaves_a_quarter_of_the_jobs(self):
        self.job.leave()
        kinds = [self.join_alone("127.0.0.2", 0x5000 + number).kind for number in range(64)]
        self.assertEqual(kinds, ["welcome"] * 48 + ["refused"] * 16)

    def test_one_host_does_not_lock_out_another(self):
        for number in range(64):
            self.join_alone("127.0.0.2", 0x5000 + number)
        other = self.join_alone("127.0.0.3", 0x6000)
        self.assertEqual(other.kind, "welcome", other.payload)


class HostileAggregators(SluicedTest):
    def test_a_worker_ignores_what_was_forged(self):
        path = self.write("w0.npy", npy_bytes([0.5 * value for value in range(5000)]))
        fake = FakeAggregator(self)
        worker = Process(self, [SLUICE, "reduce", "--carrier", "stream", "--codec", "f32",
                                "--timeout", "20", "--out", self.path("stream.npy"), path],
                         {"RANK": "0", "WORLD_SIZE": "1", "SLUICE_JOB": "hostile",
                          "SLUICE_AGGREGATORS": fake.address})
        fake.serve_until(lambda: worker.job.poll() is not None)
        self.assertEqual(worker.wait(), 0, worker.said())
        self.call("reduce", "--codec", "f32", "--out", self.path("local.npy"), path)
        self.assertEqual(self.content("stream.npy"), self.content("local.npy"))
        self.assertLessEqual({"join", "contribution", "leave"}, set(fake.heard))
        for kind in ("prove", "refused", "gone", "welcome", "result", "left"):
            self.assertGreater(fake.forged[kind], 0, fake.forged)
