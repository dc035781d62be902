"""The watch over ranks and how they find rank 0, in one process: over real connections, no ranks.

    SLUICE_LIBRARY=build/release/libsluice.so PYTHONPATH=python python python/tests/test_watch.py
"""

import contextlib
import os
import select
import socket
import threading
import unittest
from unittest import mock

from sluice.torch import _door, _ranks, _watch
from sluice.torch._door import Door, Line, knock
from sluice.torch._errors import SluiceError
from sluice.torch._watch import DIED, FAILED, LEFT, Bell, Watch, Word

LIMIT = 60.0  # seconds; nothing here takes long unless it is broken
ENDED = "its process has ended"


def connect(door, size, hosts=("127.0.0.1",)):
    """(lines of rank 0, {rank: line to rank 0})."""
    lines, facts = {}, {**door.facts, "hosts": list(hosts)}

    def come(rank):
        lines[rank] = knock(facts, rank, LIMIT)

    threads = [threading.Thread(target=come, args=(rank,)) for rank in range(1, size)]
    for thread in threads:
        thread.start()
    admitted = door.admit(size, LIMIT)
    for thread in threads:
        thread.join()
    door.close()
    return admitted, lines


class Watches(unittest.TestCase):
    size = 3

    def setUp(self):
        admitted, lines = connect(Door(), self.size)
        self.watches = [Watch(0, admitted)] + [Watch(rank, {0: lines[rank]})
                                               for rank in range(1, self.size)]
        for watch in self.watches:
            self.addCleanup(watch.close)

    def die(self, rank):
        """As the kernel does for a process that is killed."""
        watch = self.watches[rank]
        watch._closing = True  # Its own thread is no part of this.
        for line in watch._lines.values():
            line.hang_up()
        watch._thread.join(LIMIT)
        watch.forget()

    def heard(self, rank, count=1):
        """Words about others, once there are so many."""
        watch = self.watches[rank]
        with watch._heard:
            self.assertTrue(watch._heard.wait_for(lambda: len(watch._words) >= count, LIMIT))
            return sorted(watch._words.values())

    def test_all_others_hear_which_rank_died(self):
        self.die(1)
        for rank in (0, 2):
            self.assertEqual(self.heard(rank), [Word(1, DIED, ENDED)])
            self.assertEqual(self.watches[rank].doom(), [Word(1, DIED, ENDED)])

    def test_rank_0s_death_is_heard_by_all(self):
        self.die(0)
        for rank in (1, 2):
            self.assertEqual(self.heard(rank), [Word(0, DIED, ENDED)])

    def test_a_goodbye_is_no_death_and_dooms_only_steps_that_the_rank_did_not_end(self):
        self.watches[2].step = 7
        self.watches[2].close()
        for rank in (0, 1):
            watch = self.watches[rank]
            self.assertEqual([word.kind for word in self.heard(rank)], [LEFT])
            watch.step = 6
            self.assertEqual(watch.doom(), [])
            watch.step = 7
            self.assertEqual([word.steps for word in watch.doom()], [7])

    def test_a_word_comes_before_the_end_of_who_said_it(self):
        self.watches[1].say(FAILED, "step 3", "OSError: the disk is full")
        self.die(1)
        for rank in (0, 2):
            word, = self.heard(rank)
            self.assertEqual(word, Word(1, FAILED, "step 3", "OSError: the disk is full", -1))

    def test_words_without_a_cause_wait_for_one_that_explains_them(self):
        self.watches[2].say(FAILED, "step 3")
        self.heard(0)
        self.die(1)
        words = self.watches[0].words(others=2, seconds=LIMIT)
        self.assertEqual([word.kind for word in words], [DIED, FAILED])

    def test_rank_0_passes_a_word_on_before_anybody_there_can_end_its_process(self):
        watch, known = self.watches[0], []
        line = watch._lines[2]
        send = line.send
        with mock.patch.object(line, "send", lambda data: (known.append(dict(watch._words)),
                                                           send(data))):
            self.die(1)
            self.heard(2)
            self.heard(0)
        self.assertEqual(known, [{}])

    def test_long_words_are_cut_and_still_arrive(self):
        self.watches[1].say(FAILED, "p" * 10**6, "\0ü\n" * 10**6)
        word, = self.heard(2)
        self.assertEqual((len(word.text), len(word.cause)), (2000, 2000))

    def test_what_is_no_word_is_passed_over(self):
        line, = self.watches[1]._lines.values()
        for message in (b"", b"{}", b"[1]", b'[1,"died",2,3,"x"]', b"\xff\xfe", b"[" * 5000):
            line.send(message)
        self.watches[1].say(FAILED, "after all")
        self.assertEqual([word.text for word in self.heard(2)], ["after all"])

    def test_a_rank_speaks_for_nobody_else(self):
        line, = self.watches[1]._lines.values()
        line.send(b'[2, "died", "says rank 1", "", 0]')
        self.assertEqual([word.rank for word in self.heard(0)], [1])

    def test_a_message_without_an_end_is_given_up(self):
        line, = self.watches[1]._lines.values()
        with contextlib.suppress(OSError):
            for _ in range(64):
                line.socket.setblocking(True)
                line.socket.send(b"x" * 65536)
        self.assertIn("without an end", self.heard(2)[0].text)

    def test_alarms_come_once_and_at_once_when_it_is_late(self):
        rang, late = threading.Semaphore(0), threading.Event()
        self.watches[0].on_loss(rang.release)
        self.die(1)
        self.assertTrue(rang.acquire(timeout=LIMIT))
        self.die(2)
        self.heard(0, 2)
        self.assertFalse(rang.acquire(blocking=False))
        self.watches[0].on_loss(late.set)
        self.assertTrue(late.is_set())

    def test_a_child_does_not_keep_a_dead_ranks_connection_open(self):
        admitted, lines = connect(Door(), 2)
        one, other = Watch(0, admitted), Watch(1, {})
        self.addCleanup(one.close)
        other._lines = {0: lines[1]}  # and no thread, which would keep it open as well
        _watch._watches.add(other)
        stay, go = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(go)
            os.read(stay, 1)
            os._exit(0)
        other.forget()  # as the kernel closes what a process had open
        try:
            self.assertEqual(one.words(1, LIMIT), [Word(1, DIED, ENDED)])
        finally:
            os.close(go)
            os.waitpid(child, 0)
            os.close(stay)

    def test_nothing_is_left_behind(self):
        before = len(os.listdir("/proc/self/fd"))
        admitted, lines = connect(Door(), self.size)
        watches = [Watch(0, admitted)] + [Watch(r, {0: line}) for r, line in lines.items()]
        for watch in watches:
            watch.close()
            watch.close()
            self.assertFalse(watch._thread.is_alive())
        self.assertEqual(len(os.listdir("/proc/self/fd")), before)


class Doors(unittest.TestCase):
    def setUp(self):
        self.open = contextlib.ExitStack()
        self.addCleanup(self.open.close)

    def stranger(self, port, data=b""):
        connection = self.open.enter_context(socket.create_connection(("127.0.0.1", port)))
        connection.sendall(data)
        return connection

    def check_all_come(self, door, size=4, hosts=("127.0.0.1",)):
        admitted, lines = connect(door, size, hosts)
        for rank in range(1, size):
            lines[rank].send(b"rank %d" % rank)
            poll = select.poll()
            poll.register(admitted[rank].socket, select.POLLIN)
            poll.poll(1000 * LIMIT)
            self.assertEqual(admitted[rank].receive(), ([b"rank %d" % rank], ""))
        for line in (*admitted.values(), *lines.values()):
            line.socket.close()

    def test_strangers_do_no_harm(self):
        door = Door()
        port, token = door.facts["port"], door.facts["token"].encode()
        for data in (b"", b"GET / HTTP/1.0\r\n\r\n", b"\n" * 1000, b"x" * 10**5,
                     b"0" * 32 + b" rank 1\nhere\n", token + b" rank 0\n", token + b" rank 4\n",
                     token + b" rank -1\n", token + b" rank one\n", token[:8], b"\xff" * 300):
            self.stranger(port, data)
        self.stranger(port, token + b" rank 1\n").close()  # It was a rank, and gave up.
        self.check_all_come(door)

    def test_more_strangers_than_there_is_room_for_do_no_harm(self):
        door = Door()
        for _ in range(_door.STRANGERS_MAX + 10):
            self.stranger(door.facts["port"])
        let_in, most = door._let_in, []

        def counted(guests, *rest):
            let_in(guests, *rest)
            most.append(len(guests))

        door._let_in = counted
        self.check_all_come(door, size=4)
        self.assertLessEqual(max(most), _door.STRANGERS_MAX + 3)

    def test_somebody_else_at_rank_0s_port_is_not_believed(self):
        """An address may lead somewhere else on another host, as loopback does."""
        impostor = self.open.enter_context(socket.create_server(("127.0.0.1", 0)))
        facts = {"hosts": ["127.0.0.1"], "port": impostor.getsockname()[1], "token": "t" * 32,
                 "answer": "a" * 32}

        def answer(data):
            connection, _ = impostor.accept()
            with connection:
                connection.recv(64)
                connection.sendall(data)

        for data in (b"", b"rank 0 " + b"b" * 32 + b"\n", b"x" * 10**4):
            thread = threading.Thread(target=answer, args=(data,))
            thread.start()
            with mock.patch.dict(os.environ, MASTER_ADDR="127.0.0.1"), \
                    self.assertRaisesRegex(SluiceError, "(somebody else|reset by peer)"):
                knock(facts, 1, 0)
            thread.join()

    def test_who_cannot_reach_rank_0_says_what_it_tried(self):
        door = Door()
        door.close()
        facts = {**door.facts, "hosts": ["127.0.0.1", "::1"]}
        with mock.patch.dict(os.environ, MASTER_ADDR="127.0.0.1"), \
                self.assertRaisesRegex(SluiceError, r"rank 2 cannot reach rank 0, port \d+, at"
                                       r" 127.0.0.1 \(.*refused\), ::1 \(.*GLOO_SOCKET_IFNAME"):
            knock(facts, 2, 0)

    def test_ranks_that_do_not_come_are_not_waited_for_longer_than_that(self):
        door = Door()
        self.stranger(door.facts["port"], b"nobody")
        self.assertEqual(door.admit(3, 0.2), {})
        door.close()

    def test_the_interface_that_gloo_is_told_comes_first(self):
        with mock.patch.dict(os.environ, GLOO_SOCKET_IFNAME="nosuch0,lo", MASTER_ADDR="127.0.0.1"):
            self.assertEqual(_door.own_hosts()[0], "127.0.0.1")
        with mock.patch.dict(os.environ, GLOO_SOCKET_IFNAME="", MASTER_ADDR="no.such.host.invalid"):
            _door.own_hosts()


class Parts(unittest.TestCase):
    def test_a_flood_after_a_newline_is_not_read_beyond_the_limit(self):
        with socket.create_server(("127.0.0.1", 0)) as server, \
                socket.create_connection(server.getsockname()) as theirs, \
                server.accept()[0] as ours:
            line = Line(ours, _door.HELLO_MAX)
            theirs.setblocking(False)
            theirs.send(b"\n" + 4 * _door.LINE_MAX * b"x")
            poll = select.poll()
            poll.register(ours, select.POLLIN)
            self.assertTrue(poll.poll(1000 * LIMIT))
            self.assertEqual(line.receive(), ([b""], ""))
            self.assertLessEqual(len(line._inbox), _door.HELLO_MAX)
            messages, end = line.receive()
            self.assertEqual(messages, [])
            self.assertIn(f"more than {_door.HELLO_MAX} bytes", end)

    def test_a_full_buffer_drops_messages_but_cuts_none(self):
        with socket.create_server(("127.0.0.1", 0)) as server, \
                socket.create_connection(server.getsockname()) as here, server.accept()[0] as there:
            sender, receiver = Line(here), Line(there)
            message, got = b"m" * 1000, []
            for _ in range(20_000):
                sender.send(message)
            self.assertTrue(sender._outbox)
            poll = select.poll()
            poll.register(there, select.POLLIN)
            while not got or sender._outbox:
                self.assertTrue(poll.poll(1000 * LIMIT))
                got += receiver.receive()[0]
                sender.send(message)
            self.assertEqual(set(got), {message})

    def test_a_bell_is_readable_once_it_rang(self):
        bell = Bell()
        poll = select.poll()
        poll.register(bell.descriptor, select.POLLIN)
        self.assertEqual(poll.poll(0), [])
        bell.ring()
        bell.ring()
        self.assertEqual(len(poll.poll(1000 * LIMIT)), 1)
        bell.close()
        bell.close()
        bell.ring()

    def test_of_torchs_errors_the_first_line_is_told(self):
        text = ("recvValue failed on SocketImpl(fd=3): Connection reset by peer\n"
                "Exception raised from recvBytes at Utils.hpp:679 (most recent call first):\n"
                "frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x80")
        self.assertEqual(_ranks._first_line(RuntimeError(text)), text.splitlines()[0])
        self.assertEqual(_ranks._first_line(RuntimeError(text.replace("\n", " "))),
                         text.splitlines()[0])
        self.assertEqual(_ranks._first_line(RuntimeError()), "RuntimeError")


if __name__ == "__main__":
    unittest.main()
