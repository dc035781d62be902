"""The network: a namespace and a limited link for each node, or loopback for all of them.

A node is a worker or an aggregator with a link of its own; workers come first and have their rank
as index.
"""

import contextlib
import dataclasses
import json
import os
import shutil
import subprocess
import time

from lab_parts.lab_options import Rate, why_no_loss_on_loopback
from lab_parts.system import CLONE_NEWNET, Unavailable, call, say

INTERFACE, BRIDGE = "lab0", "bridge"  # The interface has the same name in every namespace.
FIRST_WORKER, FIRST_AGGREGATOR = 1, 101  # The last numbers of their addresses.
COUNTERS = ("bytes_sent", "bytes_received", "wire_bytes_sent", "wire_bytes_received", "dropped")
LOST = ("lost_sent", "lost_received")
LOSS_STEPS = 10**6              # What nft draws from: 0.0001 percent is one step.
LINKS_UP_S = 30.0               # Tens of milliseconds, unless the machine is busy.
GSO_BYTES_MAX = 1 << 16
ETHERNET_BYTES, TCP_IP_BYTES = 14, 60  # Of headers, with options.
TBF, QUEUES = "1:", ("2:", "3:")  # Handles: of every tbf, and of queues put into one.


@dataclasses.dataclass
class Node:
    port: str                   # The bridge's end of its link.
    address: str
    rate: Rate
    follows: bool = True        # Its rate is changed with that of the workers.
    burst: int = 0              # No packet in its link's queues is larger; 0 where there is no tbf.


def nodes_of(options):
    own = 0 if options.aggregators_on_workers else options.aggregator_count
    return ([Node(f"w{rank}", f"10.77.0.{FIRST_WORKER + rank}", options.rate)
             for rank in range(options.workers)]
            + [Node(f"a{index}", f"10.77.0.{FIRST_AGGREGATOR + index}", options.aggregator_rate,
                    options.aggregator_rate_follows) for index in range(own)])


def node_of_aggregator(options, index):
    return index if options.aggregators_on_workers else options.workers + index


class Loopback:
    """All in the machine's own network; nothing is limited and nothing is counted."""

    mode, interface = "loopback", "lo"

    def address(self, _node):
        return "127.0.0.1"

    def inside(self, _node):
        return contextlib.nullcontext()

    def counters(self, _node):
        return dict.fromkeys(COUNTERS)

    def set_rate(self, rate):
        raise Unavailable(f"'{rate.text}': all workers are on loopback: nothing is limited")


class Namespaces:
    """The bridge and one namespace per node, seen from the bridge's namespace.

    Only descriptors of this process and the processes inside hold them: with those go the links.
    """

    mode, interface = "namespaces", INTERFACE

    def __init__(self, options):
        for tool in ("ip", "tc"):
            if shutil.which(tool) is None:
                raise Unavailable(f"no {tool} in PATH")
        self._nodes, self._loss, self._mtu = nodes_of(options), options.loss, options.mtu
        home = os.open("/proc/self/ns/net", os.O_RDONLY)
        try:
            self._bridge, *self._inner = [self._make() for _ in range(len(self._nodes) + 1)]
            call("setns", self._bridge, CLONE_NEWNET)
            self._connect()
            if self._loss:
                self._lose(options.loss_protocol == "udp")
            self._await_ports()
        except (OSError, Unavailable) as why:
            call("setns", home, CLONE_NEWNET)
            raise Unavailable(getattr(why, "strerror", None) or str(why)) from None
        finally:
            os.close(home)

    def _make(self):
        call("unshare", CLONE_NEWNET)
        with contextlib.suppress(OSError):  # Without IPv6 a link is silent until a worker speaks.
            with open("/proc/sys/net/ipv6/conf/default/disable_ipv6", "w", encoding="ascii") as f:
                f.write("1")
        return os.open("/proc/self/ns/net", os.O_RDONLY)

    def address(self, node):
        return self._nodes[node].address

    @contextlib.contextmanager
    def inside(self, node):
        """Within, this process and what it starts is in the node's namespace."""
        call("setns", self._inner[node], CLONE_NEWNET)
        try:
            yield
        finally:
            call("setns", self._bridge, CLONE_NEWNET)

    def counters(self, node):
        """What the interface counted and what tbf counted; docs/lab.md has the difference."""
        port = self._nodes[node].port
        with self.inside(node):
            with open("/proc/self/net/dev", encoding="ascii") as file:
                fields = next(line for line in file if f"{INTERFACE}:" in line).split()
            up = self._charged(INTERFACE)
            lost_received = self._lost(INTERFACE) if self._loss else None
        down = self._charged(port)
        dropped = None if None in (up[1], down[1]) else up[1] + down[1]
        found = dict(zip(COUNTERS, (int(fields[9]), int(fields[1]), up[0], down[0], dropped)))
        if self._loss:
            found |= zip(LOST, (self._lost(port), lost_received))
        return found

    def set_rate(self, rate):
        """Of all links that follow, in both directions; Unavailable when tc refuses."""
        following = [index for index, node in enumerate(self._nodes) if node.follows]
        for index in following:
            self._nodes[index].rate = rate
        try:
            self._limit(following)
        except (OSError, Unavailable) as why:
            raise Unavailable(f"'{rate.text}': {why}; some links may have it, and others still "
                              "the rate before") from None

    def _connect(self):
        mtu = self._mtu
        self._batch("ip", f"link add {BRIDGE} mtu {mtu} type bridge stp_state 0 mcast_snooping 0",
                    f"link set {BRIDGE} up",
                    *(f"link add {node.port} mtu {mtu} type veth"
                      f" peer name {INTERFACE} mtu {mtu} netns /proc/self/fd/{fd}"
                      for node, fd in zip(self._nodes, self._inner)))
        for index, node in enumerate(self._nodes):
            with self.inside(index):
                self._batch("ip", "link set lo up", f"link set {INTERFACE} up",
                            f"addr add {node.address}/24 dev {INTERFACE}")
        self._limit(range(len(self._nodes)))

    def _limit(self, indices):
        """Both ends of these nodes' links get the node's rate.

        A tbf that is there stays and is changed, also to no limit: so it keeps what it has charged
        and what is queued. A link that never had a limit has no tbf.
        """
        limited = [(index, self._nodes[index]) for index in indices
                   if self._nodes[index].burst or self._nodes[index].rate.bits is not None]
        ports = []
        for index, node in limited:
            inner = node.rate.bucket(self._mtu, 1000 * self._mtu)  # As an interface's queue.
            port = node.rate.bucket(self._mtu, 1 << 17)  # A switch has little memory per port.
            shrinks = inner.burst < node.burst
            node.burst = max(node.burst, inner.burst)  # Of one end at least, until all is done.
            with self.inside(index):
                self._fit_packets(inner.burst)
                self._set_buckets([(INTERFACE, inner, shrinks)])
            ports.append((node.port, port, shrinks))
        if ports:
            self._set_buckets(ports)
        for _, node in limited:
            node.burst = node.rate.bucket(self._mtu, 0).burst

    def _fit_packets(self, burst):
        """TCP makes no packet that tbf would have to cut, which would cost a multiple of the
        processor time: a wake-up for each frame that arrives, which no real interface causes.

        Connections take the size with the route, so that has to be found anew.
        """
        payload, frame = self._mtu - TCP_IP_BYTES, self._mtu + ETHERNET_BYTES
        size = min(GSO_BYTES_MAX, burst * payload // frame)
        self._batch("ip", f"link set {INTERFACE} gso_max_size {size}", "route flush cache")

    def _set_buckets(self, links):
        """(device, bucket, whether the burst shrinks) of links in this namespace.

        A queued packet that is larger than the burst would never pass, nor would any behind it.
        From the change on none such comes in; where something is queued after it, the queue is
        replaced by an empty one, which tbf counts as drops.
        """
        self._batch("tc", *(f"qdisc replace dev {device} root handle {TBF} {bucket}"
                            for device, bucket, _ in links))
        shrunk = {device: bucket for device, bucket, shrinks in links if shrinks}
        if not shrunk:
            return
        found = json.loads(self._run("tc", "-s", "-j", "qdisc", "show"))
        queued = [x["dev"] for x in found if x.get("root") and x["dev"] in shrunk and x["backlog"]]
        # One with the handle of that which is there would not replace it.
        second = {x["dev"] for x in found if x["handle"] == QUEUES[0]}
        if queued:
            self._batch("tc", *(f"qdisc replace dev {device} parent {TBF}1 handle "
                                f"{QUEUES[device in second]} bfifo limit {shrunk[device].limit}"
                                for device in queued))

    def _lose(self, udp_only):
        """Where a link ends, so after its rate: what is lost has used the link.

        Not where packets leave: there the kernel tells the sender of a dropped datagram (EPERM).
        ARP is spared: a network loses none, and here each would cost a second.
        """
        steps = round(self._loss * LOSS_STEPS / 100)
        match = "meta l4proto udp" if udp_only else "meta protocol ip"
        if steps < LOSS_STEPS:  # nft refuses a comparison that is always true.
            match += f" numgen random mod {LOSS_STEPS} < {steps}"

        def table(devices):
            return "table netdev lab {\n" + "".join(
                f'counter {name} {{ }}\nchain {name} {{\n'
                f'type filter hook ingress device "{name}" priority 0; policy accept;\n'
                f'{match} counter name "{name}" drop\n}}\n' for name in devices) + "}\n"
        ports = [node.port for node in self._nodes]
        self._run("nft", "-f", "-", text=table(ports))
        # Otherwise a train of datagrams or a 64 KiB piece of TCP would be lost as one packet.
        self._batch("ip", *(f"link set {port} gso_max_segs 1" for port in ports))
        for index in range(len(self._nodes)):
            with self.inside(index):
                self._run("nft", "-f", "-", text=table([INTERFACE]))
                self._batch("ip", f"link set {INTERFACE} gso_max_segs 1")

    def _await_ports(self):
        self._batch("ip", *(f"link set {node.port} master {BRIDGE} up" for node in self._nodes))
        deadline = time.monotonic() + LINKS_UP_S
        while not self._ports_forward():
            if time.monotonic() > deadline:
                raise Unavailable(f"links not up after {LINKS_UP_S:.0f} s")
            time.sleep(0.01)

    def _ports_forward(self):
        """The kernel starts a port a little late; a packet sent before is lost and costs 1 s."""
        links = json.loads(self._run("ip", "-d", "-j", "link", "show", "master", BRIDGE))
        return all(x["linkinfo"]["info_slave_data"]["state"] == "forwarding" for x in links)

    def _charged(self, device):
        """(bytes, drops) of its tbf, or of None where there is none."""
        found = json.loads(self._run("tc", "-s", "-j", "qdisc", "show", "dev", device))
        return next(((x["bytes"], x["drops"]) for x in found if x["kind"] == "tbf"), (None, None))

    def _lost(self, device):
        found = json.loads(self._run("nft", "-j", "list", "counter", "netdev", "lab", device))
        return next(x["counter"]["packets"] for x in found["nftables"] if "counter" in x)

    def _batch(self, tool, *lines):
        self._run(tool, "-batch", "-", text="\n".join(lines) + "\n")

    def _run(self, *command, text=""):
        done = subprocess.run(command, input=text, text=True, pass_fds=self._inner,
                              capture_output=True, check=False)
        if done.returncode != 0:
            raise Unavailable(f"{command[0]}: {(done.stderr.strip() or 'failed').splitlines()[0]}")
        return done.stdout


def make_cluster(options, why_not):
    """Namespaces, or loopback with a line that says why, or None when that is not accepted."""
    if why_not is None:
        try:
            return Namespaces(options)
        except Unavailable as why:
            why_not = str(why)
    none_here = f"no network namespaces here ({why_not})"
    if options.require_namespaces:
        say(f"{none_here}, and --require-namespaces was given")
        return None
    if options.loss and (why_no_loss := why_no_loss_on_loopback(options)):
        say(f"{none_here}, and --loss was given: {why_no_loss}")
        return None
    say(f"{none_here}: all workers on loopback, rate NOT limited")
    options.rate = options.aggregator_rate = Rate("unlimited")
    return Loopback()
