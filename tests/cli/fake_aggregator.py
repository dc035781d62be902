"""An aggregator for jobs of one worker, after docs/wire-format.md, that says false things first:
each right answer comes behind some that have another token, epoch, job or digest."""

import collections
import select
import socket
import time

from wire_by_the_page import (WELCOME, HEADER_SIZE, Frame, Welcome, build, gather_down, parse,
                              parse_join, welcome_payload)

LIMIT_SECONDS = 60
COOKIE, EPOCH = 0x1234, 0x77
FRAME_SIZE = 1400


class FakeAggregator:
    def __init__(self, test):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        test.addCleanup(self.socket.close)
        self.socket.bind(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.socket.getsockname()[1]
        self.heard, self.forged = collections.Counter(), collections.Counter()

    def serve_until(self, ended):
        deadline = time.monotonic() + LIMIT_SECONDS
        while not ended():
            if time.monotonic() > deadline:
                raise AssertionError(f"not ended in {LIMIT_SECONDS} s, heard {self.heard}")
            if select.select([self.socket], [], [], 0.05)[0]:
                data, sender = self.socket.recvfrom(65536)
                frame = parse(data)
                self.heard[frame.kind] += 1
                for answer in self.answers(frame, len(data)):
                    self.socket.sendto(build(answer), sender)

    def lie(self, *frames):
        self.forged.update(frame.kind for frame in frames)
        return list(frames)

    def answers(self, frame, size):
        if frame.kind == "join":
            return self.answers_join(frame, size)
        reply = Frame("gone", job=frame.job, worker=frame.worker, epoch=EPOCH)
        lies = self.lie(reply.of(epoch=EPOCH + 1), reply.of(job=frame.job ^ 1), reply.of(epoch=0),
                        reply.of(kind="refused", digest=5, payload=b"forged"),
                        reply.of(kind="refused", digest=5, epoch=0, payload=b"forged"))
        if frame.kind == "ask":
            return lies + [reply.of(kind="wait", slot=frame.slot, use=frame.use,
                                    digest=frame.digest)]
        if frame.kind == "leave":
            left = reply.of(kind="left", workers=1)
            return lies + self.lie(left.of(epoch=1), left.of(job=frame.job ^ 1)) + [left]
        if frame.kind == "contribution":
            return lies + self.answers_contribution(frame)
        raise AssertionError(f"a worker of one sends {frame}")

    def answers_contribution(self, frame):
        payload = frame.payload
        if frame.op == "gather":
            payload = gather_down([(0, payload)])
        elif frame.op not in ("f32_sum", "max", "wrap_sum"):
            raise AssertionError(f"what is a {frame.op} of one worker?")
        result = frame.of(kind="result", next=0, payload=payload)
        wrong = result.of(payload=bytes(len(payload)))
        return self.lie(wrong.of(epoch=1), wrong.of(digest=frame.digest ^ 1),
                        wrong.of(job=frame.job ^ 1), wrong.of(use=frame.use + 2)) + [result]

    def answers_join(self, frame, size):
        join = parse_join(frame.payload)
        reply = Frame("prove", job=frame.job, worker=frame.worker, digest=join.token,
                      payload=COOKIE.to_bytes(8, "little"))
        wrong = reply.of(digest=join.token ^ 1)
        welcome = Welcome(1, join.slots, min(join.fits or FRAME_SIZE, FRAME_SIZE), 16)
        ready = reply.of(kind="welcome", epoch=EPOCH, workers=1,
                         payload=welcome_payload(welcome, HEADER_SIZE + WELCOME.size))
        lies = self.lie(
            wrong.of(payload=bytes([1] * 8)), wrong.of(kind="refused", payload=b"forged"),
            reply.of(job=frame.job ^ 1, payload=bytes([2] * 8)),
            ready.of(digest=join.token ^ 1, epoch=EPOCH + 1),
            ready.of(digest=join.token + (1 << 16) & (1 << 64) - 1, epoch=EPOCH + 2),
            Frame("gone", job=frame.job, worker=frame.worker, epoch=EPOCH + 1))
        if join.cookie != COOKIE:
            return lies + [reply]
        if not join.fits:
            welcome = welcome_payload(welcome, min(size, FRAME_SIZE))
            return lies + [ready.of(epoch=0, workers=0, payload=welcome)]
        return lies + [ready.of(payload=welcome_payload(welcome, size))]
