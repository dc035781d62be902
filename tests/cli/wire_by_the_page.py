"""Frames as docs/wire-format.md says, made and read by somebody who has only that page.

Where this file and src/wire disagree one of them, or the page, is wrong.
"""

import dataclasses
import struct

KINDS = ("contribution", "result", "wait", "restore", "restored", "need_table", "table", "join",
         "welcome", "refused", "leave", "gone", "ask", "prove", "left")
OPS = ("lane_sum", "wrap_sum", "max", "gather", "block_sum", "f32_sum", "bf16_sum", "f16_sum")
DOWNS = ("full", "narrow", "round")
NON_FINITE, REPEATED = 1, 2  # flags

MAGIC, VERSION = 0x4C53, 3
HEADER = struct.Struct("<HBBHBBQIHHIIQQBBBBIIII12x")
HEADER_SIZE, FRAME_SIZE_MAX, JOIN_SIZE_MIN = 80, 65507, 576
TAG_AT = 64
WORKERS_MAX, TERMS_SIZE_MAX, REFUSAL_SIZE_MAX, ENTRIES_MAX = 64, 512, 1024, 256

# Which fields a kind has besides job and worker; the others are zero.
PLACE = ("slot", "use")
REDUCTION = ("op", "bits", "down", "extra", "count", "grain")
SUMMED = ("epoch", *PLACE, "digest", "workers", "table", "flags", *REDUCTION)
FIELDS = {
    "contribution": (*SUMMED, "next"), "result": (*SUMMED, "next"), "restore": SUMMED,
    "wait": ("epoch", *PLACE, "digest", "workers", "next"), "restored": ("epoch", *PLACE),
    "need_table": ("epoch", "table"), "table": ("epoch", "table"), "join": (),
    "welcome": ("epoch", "digest", "workers"), "refused": ("epoch", "digest"),
    "leave": ("epoch",), "gone": ("epoch",), "ask": ("epoch", *PLACE, "digest", "next"),
    "prove": ("digest",), "left": ("epoch", "workers"),
}
BARE = ("wait", "restored", "need_table", "leave", "gone", "ask", "left")  # have no payload


class Malformed(Exception):
    """What a receiver drops, with the reason."""


@dataclasses.dataclass(frozen=True)
class Frame:
    kind: str
    job: int = 0
    worker: int = 0
    epoch: int = 0
    slot: int = 0
    use: int = 0
    table: int = 0
    digest: int = 0  # the token in what answers a join
    workers: int = 0
    flags: int = 0
    op: str = "lane_sum"
    bits: int = 0
    down: str = "full"
    extra: int = 0
    count: int = 0
    grain: int = 0
    next: int = 0  # the stamp in asks and what answers them
    payload: bytes = b""

    def of(self, **changes):
        return dataclasses.replace(self, **changes)


@dataclasses.dataclass(frozen=True)
class Join:
    workers: int
    slots: int
    frame_size: int
    token: int
    fits: int = 0
    bound: int = 0
    cookie: int = 0
    terms: bytes = b""


@dataclasses.dataclass(frozen=True)
class Welcome:
    workers: int
    slots: int
    frame_size: int
    window: int


def crc32c_table():
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


CRC32C = crc32c_table()


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ CRC32C[(crc ^ byte) & 255]
    return crc ^ 0xFFFFFFFF


def sealed(data):
    """The datagram with its checksum in place."""
    bare = data[:TAG_AT] + bytes(HEADER_SIZE - TAG_AT) + data[HEADER_SIZE:]
    return bare[:TAG_AT] + struct.pack("<I", crc32c(bare)) + bare[TAG_AT + 4:]


def build(frame, version=VERSION):
    """The datagram of a frame. Checks nothing: tests send what is wrong, too."""
    return sealed(HEADER.pack(
        MAGIC, version, KINDS.index(frame.kind) + 1, HEADER_SIZE + len(frame.payload), frame.flags,
        bin(frame.workers).count("1"), frame.job, frame.epoch, frame.worker, frame.slot,
        frame.use, frame.table, frame.digest, frame.workers, OPS.index(frame.op), frame.bits,
        DOWNS.index(frame.down), frame.extra, frame.count, frame.grain, frame.next, 0
    ) + frame.payload)


def require(holds, what):
    if not holds:
        raise Malformed(what)


def parse(data):
    """The frame of a datagram, or Malformed with the first fault in the order of the page."""
    require(len(data) >= HEADER_SIZE, "shorter than a header")
    (magic, version, kind, length, flags, contributors, job, epoch, worker, slot, use, table,
     digest, workers, op, bits, down, extra, count, grain, next_chunk, tag) = HEADER.unpack(
         data[:HEADER_SIZE])
    require(magic == MAGIC, "not of Sluice")
    require(version == VERSION, "another version")
    require(len(data) <= FRAME_SIZE_MAX, "longer than a datagram")
    require(length == len(data), "the length is not the datagram's")
    require(tag == struct.unpack("<I", sealed(data)[TAG_AT:TAG_AT + 4])[0], "damaged")
    require(not any(data[TAG_AT + 4:HEADER_SIZE]), "the rest of the tag is not zero")
    require(1 <= kind <= len(KINDS), "an unknown kind")
    values = {"epoch": epoch, "slot": slot, "use": use, "table": table, "digest": digest,
              "workers": workers, "flags": flags, "op": op, "bits": bits, "down": down,
              "extra": extra, "count": count, "grain": grain, "next": next_chunk}
    name = KINDS[kind - 1]
    for field, value in values.items():
        require(field in FIELDS[name] or value == 0, f"a {name} has no {field}")
    require(worker < WORKERS_MAX, "no such worker")
    require(contributors == bin(workers).count("1"), "contributors are not those of workers")
    require(flags & ~(NON_FINITE | (REPEATED if name == "result" else 0)) == 0, "an unknown flag")
    require(op < len(OPS) and down < len(DOWNS), "an unknown op or down")
    values.update(op=OPS[op], down=DOWNS[down])
    frame = Frame(kind=name, job=job, worker=worker, payload=data[HEADER_SIZE:], **values)
    check_payload(frame)
    return frame


def check_payload(frame):
    payload = frame.payload
    require(frame.kind not in BARE or not payload, f"a {frame.kind} has no payload")
    require(frame.kind != "need_table" or frame.table, "no table is needed")
    require(frame.kind != "prove" or len(payload) == 8 and any(payload), "a cookie has 8 bytes")
    if frame.kind == "table":
        require(2 <= len(payload) <= 2 * ENTRIES_MAX and len(payload) % 2 == 0, "a table's size")
        require(table_name(table_entries(payload)) == frame.table, "the name of other entries")
    elif frame.kind == "refused":
        require(1 <= len(payload) <= REFUSAL_SIZE_MAX, "a refusal's size")
        require(min(payload) >= 0x20, "a refusal is one line")
        try:
            payload.decode()
        except UnicodeDecodeError as error:
            raise Malformed("a refusal is UTF-8") from error
    elif frame.kind == "join":
        parse_join(payload)
    elif frame.kind == "welcome":
        parse_welcome(payload)


JOIN = struct.Struct("<HHIIHHQQ")
WELCOME = struct.Struct("<HHII")


def join_payload(join):
    body = JOIN.pack(join.workers, join.slots, join.frame_size, join.fits, join.bound,
                     len(join.terms), join.token, join.cookie) + join.terms
    return body + bytes(max(0, join.frame_size - HEADER_SIZE - len(body)))


def parse_join(payload):
    require(len(payload) >= JOIN.size, "a join's size")
    (workers, slots, frame_size, fits, bound, terms_size, token, cookie) = JOIN.unpack(
        payload[:JOIN.size])
    require(1 <= workers <= WORKERS_MAX and slots >= 1, "a join's workers or slots")
    require(JOIN_SIZE_MIN <= frame_size == HEADER_SIZE + len(payload), "a join's frame_size")
    require(fits == 0 or JOIN_SIZE_MIN <= fits <= FRAME_SIZE_MAX, "a join's fits")
    require(bound <= 1, "a join's bound")
    require(not bound or fits, "a bound join has fits")
    require(terms_size <= min(TERMS_SIZE_MAX, len(payload) - JOIN.size), "a join's terms_size")
    terms = payload[JOIN.size:JOIN.size + terms_size]
    require(all(byte >= 0x20 for byte in terms), "a join's terms")
    require(not any(payload[JOIN.size + terms_size:]), "a join's padding")
    return Join(workers, slots, frame_size, token, fits, bound, cookie, terms)


def welcome_payload(welcome, length=HEADER_SIZE + WELCOME.size):
    body = WELCOME.pack(welcome.workers, welcome.slots, welcome.frame_size, welcome.window)
    return body + bytes(max(0, length - HEADER_SIZE - len(body)))


def parse_welcome(payload):
    require(len(payload) >= WELCOME.size, "a welcome's size")
    welcome = Welcome(*WELCOME.unpack(payload[:WELCOME.size]))
    require(1 <= welcome.workers <= WORKERS_MAX and welcome.slots >= 1, "a welcome's numbers")
    require(1104 <= welcome.frame_size <= FRAME_SIZE_MAX and welcome.window >= 1,
            "a welcome's frame_size or window")
    require(not any(payload[WELCOME.size:]), "a welcome's padding")
    return welcome


def mix(a, b):
    whole = (1 << 64) - 1
    z = a + (b + 1) * 0x9E3779B97F4A7C15 & whole
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & whole
    z = (z ^ z >> 27) * 0x94D049BB133111EB & whole
    return z ^ z >> 31


def table_payload(entries):
    return struct.pack(f"<{len(entries)}H", *entries)


def table_entries(payload):
    return struct.unpack(f"<{len(payload) // 2}H", payload)


def table_name(entries):
    digest = len(entries)
    for entry in entries:
        digest = mix(digest, entry)
    return digest >> 32 or 1


# Bytes of a reduction


def pack_lanes(values, bits):
    """Lanes of so many bits, the lowest bits of the first byte first."""
    whole = sum(value << index * bits for index, value in enumerate(values))
    return whole.to_bytes((len(values) * bits + 7) // 8, "little")


def grains(values, grain):
    step = grain or max(1, len(values))
    return [values[at:at + step] for at in range(0, len(values), step)]


def narrow_down(sums, sum_bits, grain=0):
    """The answer of a narrow lane_sum."""
    data = b""
    for lanes in grains(sums, grain):
        low = min(lanes)
        width = (max(lanes) - low).bit_length()
        data += bytes([width]) + low.to_bytes((sum_bits + 7) // 8, "little")
        data += pack_lanes([lane - low for lane in lanes], width)
    return data


def round_down(sums, lane_bits, largest, grain=0):
    """The answer of a rounded lane_sum whose sums are at most `largest`."""
    centre, middle = largest + 1 >> 1, 1 << lane_bits - 1
    data = b""
    for lanes in grains(sums, grain):
        best = None
        for shift in range(largest.bit_length() - lane_bits + 1):
            codes = [min(max((s - centre >> shift) + middle, 0), 2 * middle - 1) for s in lanes]
            read = [2 * centre + (code - middle << shift + 1) + (1 << shift) - 1 for code in codes]
            error = sum((2 * s - r) ** 2 for s, r in zip(lanes, read))
            if best is None or error < best[0]:
                best = error, shift, codes
        data += bytes([best[1]]) + pack_lanes(best[2], lane_bits)
    return data


def gather_down(messages):
    """The answer of a gather: (rank, bytes), ranks ascending."""
    return b"".join(struct.pack("<II", rank, len(data)) + data for rank, data in messages)


def block_list(blocks, bits, grain):
    """Blocks by number, as lists of integers: each in its shortest form."""
    size = bits // 8
    data = struct.pack("<I", len(blocks))
    for number, values in sorted(blocks.items()):
        there = [(at, value) for at, value in enumerate(values) if value]
        integers = [value.to_bytes(size, "little") for _, value in there]
        forms = [b"".join(value.to_bytes(size, "little") for value in values),
                 sum(1 << at for at, _ in there).to_bytes(grain // 8, "little")
                 + b"".join(integers),
                 struct.pack("<H", len(there)) + b"".join(
                     struct.pack("<H", at) + integer
                     for (at, _), integer in zip(there, integers))]
        form = min(range(3), key=lambda index: len(forms[index]))
        data += struct.pack("<IB", number, form) + forms[form]
    return data


def f32(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]
