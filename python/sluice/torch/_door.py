"""How the other ranks of a group find rank 0: a TCP port that is open while they attach.

Rank 0 tells its addresses and a random token through the store. Whoever does not show the token is
a stranger and is turned away; whoever does not answer with the other one is not rank 0. When all
ranks are connected the port closes.
"""

from __future__ import annotations

import errno
import fcntl
import hmac
import os
import secrets
import select
import socket
import struct
import threading
import time
from typing import Any, Iterator

from sluice.torch._errors import SluiceError

LINE_MAX = 65536  # bytes of one message
HELLO_MAX = 256  # bytes that somebody unknown may send
STRANGERS_MAX = 64  # connections of nobody known, of which the oldest is closed
ANSWER_SECONDS = 10.0  # for one address to connect, and to answer, at most
SIOCGIFADDR = 0x8915

# A host that vanishes closes nothing: after a minute and a half without any sign of its kernel it
# is given up. The kernel of a process that only computes, or is stopped, answers.
KEEPALIVE = (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 5))


class Line:
    """Messages over a connection, each ended by a newline. Never waits."""

    def __init__(self, connection: socket.socket, limit: int = LINE_MAX) -> None:
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in KEEPALIVE:
            if hasattr(socket, name):
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        self.socket = connection
        self.limit = limit
        self._lock = threading.RLock()  # a finalizer may say goodbye on a thread that sends
        self._inbox = b""
        self._unread: list[bytes] = []
        self._outbox = b""  # the rest of a message that the kernel took a part of

    def send(self, message: bytes) -> None:
        """From any thread. A message for somebody who has not read a buffer full of others before
        it is dropped; that the connection has ended, receive() says."""
        with self._lock:
            for part in (self._outbox, message + b"\n"):
                if self._outbox and part is not self._outbox:
                    return
                try:
                    sent = self.socket.send(part, socket.MSG_NOSIGNAL) if part else 0
                except OSError:
                    return
                self._outbox = part[sent:]

    def receive(self) -> tuple[list[bytes], str]:
        """Messages that have come, and why there will be no more: empty if there may be. Reads no
        more than the limit and leaves the rest to the next call, which a poll asks for."""
        end = ""
        try:
            while not end and b"\n" not in self._inbox:
                data = self.socket.recv(self.limit + 1 - len(self._inbox))
                self._inbox += data
                if not data:
                    end = "its process has ended"
                elif len(self._inbox) > self.limit and b"\n" not in self._inbox:
                    end = f"it sent more than {self.limit} bytes without an end"
        except (BlockingIOError, InterruptedError):
            pass
        except ConnectionError:
            end = "its process has ended"
        except OSError as error:
            end = f"its host does not answer: {error.strerror}"
        *messages, self._inbox = self._inbox.split(b"\n")
        messages, self._unread = self._unread + messages, []
        return messages, end

    def put_back(self, messages: list[bytes]) -> None:
        """For the next receive()."""
        self._unread = messages

    def hang_up(self) -> None:
        """Wakes whoever polls it; what was sent still arrives."""
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def _addresses_of(interface: str) -> Iterator[str]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            request = struct.pack("256s", interface.encode()[:15])
            found = fcntl.ioctl(probe.fileno(), SIOCGIFADDR, request)
            yield socket.inet_ntoa(found[20:24])
        except OSError:
            pass
    try:
        with open("/proc/net/if_inet6", encoding="ascii") as table:
            for address, _, _, scope, _, name in map(str.split, table):
                if name == interface and scope != "20":  # which only means something with a zone
                    yield socket.inet_ntop(socket.AF_INET6, bytes.fromhex(address))
    except OSError:
        pass


def route_to(host: str) -> str:
    """The address of this host that its packets to another one carry."""
    family, kind, protocol, _, target = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.connect(target)  # Sends nothing.
        return probe.getsockname()[0]


def own_hosts() -> list[str]:
    """Addresses that other ranks may reach this one at, likely ones first: those of the interfaces
    that Gloo is told to take, of the way to the store's host, and of the host's name."""
    found = [address for name in os.environ.get("GLOO_SOCKET_IFNAME", "").split(",") if name
             for address in _addresses_of(name)]
    try:
        found.append(route_to(os.environ.get("MASTER_ADDR", "localhost")))
    except OSError:
        pass
    try:
        found += [entry[4][0] for entry in socket.getaddrinfo(socket.gethostname(), None,
                                                              type=socket.SOCK_STREAM)]
    except OSError:
        pass
    return list(dict.fromkeys(found))[:16]


def _open_port() -> socket.socket:
    if socket.has_dualstack_ipv6():
        try:
            return socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True,
                                        backlog=1024)
        except OSError as error:
            if error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                raise
    return socket.create_server(("", 0), backlog=1024)


class Door:
    """Rank 0's side."""

    def __init__(self) -> None:
        self._socket = _open_port()
        self._socket.setblocking(False)
        self._token, self._answer = secrets.token_hex(16), secrets.token_hex(16)
        self.facts = {"hosts": own_hosts(), "port": self._socket.getsockname()[1],
                      "token": self._token, "answer": self._answer}

    def close(self) -> None:
        self._socket.close()

    def admit(self, size: int, seconds: float) -> dict[int, Line]:
        """The lines to ranks 1 to size - 1, as far as they come in time."""
        until = time.monotonic() + seconds
        guests: dict[int, Line] = {}  # by descriptor; the oldest first
        greeted: dict[int, int] = {}  # descriptor -> rank that it says to be, with the token
        admitted: dict[int, Line] = {}
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        while len(admitted) < size - 1 and time.monotonic() < until:
            for descriptor, _ in poll.poll(1000 * max(0.0, until - time.monotonic())):
                if descriptor == self._socket.fileno():
                    self._let_in(guests, greeted, poll)
                    continue
                line = guests.get(descriptor)
                if line is None:  # closed a moment ago, for being one too many
                    continue
                rank, stays = self._hear(line, greeted.get(descriptor), size, admitted)
                if stays and rank is not None:
                    greeted[descriptor] = rank
                if not stays:
                    poll.unregister(descriptor)
                    del guests[descriptor]
                    greeted.pop(descriptor, None)
                    if rank is None or admitted.get(rank) is not line:
                        line.socket.close()
        for line in guests.values():
            line.socket.close()
        return admitted

    def _let_in(self, guests: dict[int, Line], greeted: dict[int, int], poll: Any) -> None:
        try:
            connection, _ = self._socket.accept()
        except OSError:  # Gone again.
            return
        guests[connection.fileno()] = Line(connection, HELLO_MAX)
        poll.register(connection, select.POLLIN)
        strangers = [descriptor for descriptor in guests if descriptor not in greeted]
        if len(strangers) > STRANGERS_MAX:
            poll.unregister(strangers[0])
            guests.pop(strangers[0]).socket.close()

    def _hear(self, line: Line, rank: int | None, size: int,
              admitted: dict[int, Line]) -> tuple[int | None, bool]:
        """The rank at the other end, if it is known, and whether it is still a guest: it is not
        when it was admitted, nor when it was turned away."""
        messages, end = line.receive()
        for number, message in enumerate(messages, 1):
            if rank is None:
                rank = self._rank_of(message, size)
                if rank is None or rank in admitted:
                    return None, False
                line.send(b"rank 0 " + self._answer.encode())
            elif message == b"here" and rank not in admitted:
                line.limit = LINE_MAX
                line.put_back(messages[number:])
                admitted[rank] = line
                return rank, False
            else:
                return None, False
        return rank, not end

    def _rank_of(self, hello: bytes, size: int) -> int | None:
        token, _, rank = hello.decode("ascii", "replace").partition(" rank ")
        if not hmac.compare_digest(token.encode(), self._token.encode()) or not rank.isdecimal():
            return None
        return int(rank) if 0 < int(rank) < size else None


def _knock(host: str, facts: dict[str, Any], rank: int, seconds: float) -> Line:
    connection = socket.create_connection((host, facts["port"]), timeout=seconds)
    try:
        line = Line(connection, HELLO_MAX)
        line.send(f"{facts['token']} rank {rank}".encode())
        poll = select.poll()
        poll.register(connection, select.POLLIN)
        messages: list[bytes] = []
        end = ""
        while not messages and not end:
            if not poll.poll(1000 * seconds):
                raise TimeoutError(f"no answer within {seconds:g} s")
            messages, end = line.receive()
        if not messages or not hmac.compare_digest(messages[0],
                                                   b"rank 0 " + facts["answer"].encode()):
            raise ConnectionError("somebody else than rank 0 answers")
        line.limit = LINE_MAX
        line.send(b"here")
        return line
    except BaseException:
        connection.close()
        raise


def knock(facts: dict[str, Any], rank: int, seconds: float) -> Line:
    """The line to rank 0, over the first of its addresses at which it answers."""
    until = time.monotonic() + seconds
    hosts = list(dict.fromkeys([*facts["hosts"], os.environ.get("MASTER_ADDR", "localhost")]))
    # Every address has its turn.
    each = max(1.0, min(ANSWER_SECONDS, seconds / (2 * len(hosts))))
    troubles: dict[str, str] = {}
    while True:
        for host in hosts:
            try:
                return _knock(host, facts, rank, each)
            except OSError as error:
                troubles[host] = str(error)
        if time.monotonic() > until:
            tried = ", ".join(f"{host} ({why})" for host, why in troubles.items())
            raise SluiceError(f"rank {rank} cannot reach rank 0, port {facts['port']}, at {tried};"
                              " accepted: an address of rank 0 that all ranks reach; set"
                              " GLOO_SOCKET_IFNAME to its network interface on every host")
        threading.Event().wait(0.2)
