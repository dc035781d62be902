#!/usr/bin/env python3
"""Writes the golden frames of src/wire from docs/wire-format.md alone.

    make_wire_golden.py [FOLDER]

Nothing of Sluice is imported. Files have one frame or body a line, in hexadecimal digits:

    good.txt       NAME HEX       frames that are accepted; src/wire/*_test.cc know them by name
    bad.txt        HEX REASON     frames that are refused, and what the parser says; - has no bytes
    truncated.txt  HEX REASON     the same of frames that lost their end
    bodies.txt     KIND HEX REASON    bodies of join and welcome that are refused
"""

import os
import struct
import sys

M64 = (1 << 64) - 1
KINDS = ("contribution result wait restore restored need_table table join welcome refused leave"
         " gone ask prove left").split()
OPS = "lane_sum wrap_sum max gather block_sum f32_sum bf16_sum f16_sum".split()
FORMS = "full narrow round".split()
FIELDS = dict(magic=(0, "H"), version=(2, "B"), kind=(3, "B"), length=(4, "H"), flags=(6, "B"),
              contributors=(7, "B"), job=(8, "Q"), epoch=(16, "I"), worker=(20, "H"),
              slot=(22, "H"), use=(24, "I"), table=(28, "I"), digest=(32, "Q"),
              workers=(40, "Q"), op=(48, "B"), bits=(49, "B"), down=(50, "B"), extra=(51, "B"),
              count=(52, "I"), grain=(56, "I"), next=(60, "I"), checksum=(64, "I"),
              tag=(68, "I"), tag_end=(76, "I"))


def crc32c(data):
    state = 0xFFFFFFFF
    for byte in data:
        state ^= byte
        for _ in range(8):
            state = state >> 1 ^ (0x82F63B78 if state & 1 else 0)
    return state ^ 0xFFFFFFFF


def mix(a, b):
    z = a + (b + 1) * 0x9E3779B97F4A7C15 & M64
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & M64
    z = (z ^ z >> 27) * 0x94D049BB133111EB & M64
    return z ^ z >> 31


def table_name(entries):
    digest = len(entries)
    for entry in entries:
        digest = mix(digest, entry)
    return digest >> 32 or 1


def frame(kind_name, payload=b"", **fields):
    """A frame; `fields` may say anything, also what is wrong."""
    values = dict(magic=0x4C53, version=3, kind=KINDS.index(kind_name) + 1,
                  length=80 + len(payload),
                  contributors=bin(fields.get("workers", 0)).count("1"))
    values.update(fields)
    header = bytearray(80)
    for name, value in values.items():
        at, form = FIELDS[name]
        struct.pack_into("<" + form, header, at, value)
    if "checksum" not in fields:
        struct.pack_into("<I", header, 64, crc32c(bytes(header) + payload))
    return bytes(header) + payload


def reduction(op, bits, count, down="full", extra=0, grain=0):
    return dict(op=OPS.index(op), bits=bits, down=FORMS.index(down), extra=extra, count=count,
                grain=grain)


def join(workers=3, slots=512, frame_size=576, fits=1472, bound=1, token=0xFEEDFACECAFEBEEF,
         cookie=0x1032547698BADCFE, terms=b"sluice 1, thc:bits=4", size=None, terms_size=None,
         padding=b"\0"):
    body = struct.pack("<HHIIHHQQ", workers, slots, frame_size, fits, bound,
                       len(terms) if terms_size is None else terms_size, token, cookie) + terms
    size = frame_size - 80 if size is None else size
    return (body + padding * (size - len(body)))[:size]


def welcome(workers=3, slots=256, frame_size=1472, window=32, padding=b""):
    return struct.pack("<HHII", workers, slots, frame_size, window) + padding


COOKIE = struct.pack("<Q", 0x1032547698BADCFE)
TOKEN = 0xFEEDFACECAFEBEEF


JOB = dict(job=0x1122334455667788, epoch=3, worker=1)
PLACE = dict(JOB, slot=2, use=5)
SUM = dict(PLACE, digest=0x0123456789ABCDEF, workers=0b111,
           **reduction("lane_sum", 4, 16, "round", 1, 8))
LANES = bytes(range(0x10, 0x18))
TABLE = [0, 1, 3, 7, 15, 31, 63, 65535]
ENTRIES = struct.pack("<8H", *TABLE)
# One block of two, in pairs: its lane 3 is 0x0102.
BLOCKS = struct.pack("<IIBHHH", 1, 1, 2, 1, 3, 0x0102)
WHY = "worker 1 says 3 workers, worker 0 says 4 – réfusé".encode()


def good():
    top = dict(job=M64, epoch=0xFFFFFFFF, worker=63, slot=0xFFFF, use=0xFFFFFFFF, digest=M64,
               workers=M64, table=0xFFFFFFFF, next=0xFFFFFFFF, flags=1)
    yield "contribution", frame("contribution", LANES, **SUM)
    yield "contribution_table", frame("contribution", LANES, **dict(SUM, table=table_name(TABLE)))
    yield "contribution_nothing", frame("contribution", **dict(SUM, **reduction("gather", 8, 0)))
    yield "contribution_top", frame("contribution", b"\xff", **top, op=7, bits=255, down=2,
                                    extra=255, count=0xFFFFFFFF, grain=0xFFFFFFFF)
    blocks = dict(SUM, slot=600, next=9, **reduction("block_sum", 16, 16, grain=8))
    yield "contribution_blocks", frame("contribution", BLOCKS, **blocks)
    yield "contribution_silent", frame("contribution", **dict(blocks, use=7))
    yield "result", frame("result", bytes(20), **dict(SUM, workers=0b101))
    yield "result_flagged", frame("result", struct.pack("<f", float("inf")), **dict(
        SUM, flags=1, **reduction("f32_sum", 32, 1)))
    yield "result_repeated", frame("result", bytes(20), **dict(SUM, workers=0b101, flags=2,
                                                               next=0x89ABCDEF))
    yield "restore", frame("restore", bytes(20), **dict(SUM, workers=0b101))
    yield "wait", frame("wait", **PLACE, digest=0x0123456789ABCDEF, workers=0b011, next=7)
    yield "restored", frame("restored", **PLACE)
    yield "need_table", frame("need_table", **JOB, table=table_name(TABLE))
    yield "table", frame("table", ENTRIES, **JOB, table=table_name(TABLE))
    yield "join", frame("join", join(), **dict(JOB, epoch=0))
    yield "join_first", frame("join", join(fits=0, bound=0, cookie=0), **dict(JOB, epoch=0))
    yield "prove", frame("prove", COOKIE, **dict(JOB, epoch=0), digest=TOKEN)
    yield "welcome", frame("welcome", welcome(), **JOB, digest=TOKEN, workers=0b111)
    yield "welcome_early", frame("welcome", welcome(padding=bytes(484)), **dict(JOB, epoch=0),
                                 digest=TOKEN, workers=0b010)
    yield "refused", frame("refused", WHY, **JOB, digest=TOKEN)
    yield "leave", frame("leave", **JOB)
    yield "gone", frame("gone", **JOB)
    yield "ask", frame("ask", **PLACE, digest=0x0123456789ABCDEF, next=0x89ABCDEF)
    yield "left", frame("left", **JOB, workers=0b101)


UNUSED = dict(
    flags=("contribution result restore", "flags in"),
    workers=("contribution result restore wait welcome left", "a count of workers in"),
    epoch=("", "an epoch in"),
    slot=("contribution result restore wait restored ask", "a slot in"),
    use=("contribution result restore wait restored ask", "a use in"),
    table=("contribution result restore need_table table", "a table's name in"),
    digest=("contribution result restore wait ask prove welcome refused", "a digest in"),
    op=("contribution result restore", "a reduction in"),
    bits=("contribution result restore", "a reduction in"),
    count=("contribution result restore", "a reduction in"),
    grain=("contribution result restore", "a reduction in"),
    next=("contribution result wait ask", "a next use or stamp in"),
)
OTHERS = dict(result=LANES, restore=LANES, wait=b"", restored=b"", need_table=b"",
              table=ENTRIES, join=join(),
              welcome=welcome(), refused=WHY, leave=b"", gone=b"",
              ask=b"", prove=COOKIE, left=b"")


def unused():
    """Every field in every kind that does not use it."""
    for field, (users, words) in UNUSED.items():
        for kind, payload in OTHERS.items():
            fields = dict(job=1, worker=1)
            if kind in ("table", "need_table"):
                fields["table"] = table_name(TABLE)
            if kind not in users.split() and (field != "epoch" or kind in ("join", "prove")):
                yield frame(kind, payload, **dict(fields, **{field: 1})), \
                    words + " a frame of a kind without"


def bad():
    name = table_name(TABLE)
    right = frame("contribution", LANES, **SUM)
    yield b"\x53\x4c" * 40, "another version"
    yield frame("contribution", LANES, **SUM, magic=0x534C), "not of Sluice"
    yield frame("contribution", LANES, **SUM, version=1), "another version"
    yield frame("contribution", LANES, **SUM, version=2), "another version"
    yield frame("contribution", LANES, **SUM, version=4), "another version"
    yield frame("contribution", LANES, **SUM, length=87), "the length is not the datagram's"
    yield frame("contribution", LANES, **SUM, length=0), "the length is not the datagram's"
    yield right + b"\0", "the length is not the datagram's"
    yield frame("contribution", LANES, **SUM, checksum=0), "wrong checksum"
    yield right[:-1] + b"\x16", "wrong checksum"
    yield frame("contribution", LANES, **SUM, tag=1), "a tag other than a checksum"
    yield frame("contribution", LANES, **SUM, tag_end=1 << 31), "a tag other than a checksum"
    yield frame("contribution", LANES, **dict(SUM, kind=0)), "unknown kind"
    yield frame("contribution", LANES, **dict(SUM, kind=16)), "unknown kind"
    yield frame("contribution", LANES, **dict(SUM, kind=255)), "unknown kind"
    yield frame("contribution", LANES, **dict(SUM, worker=64)), "a worker beyond the 64th"
    yield frame("leave", **dict(JOB, worker=0xFFFF)), "a worker beyond the 64th"
    for count in (0, 2, 4, 255):
        yield frame("result", LANES, **SUM, contributors=count), \
            "the count of workers is not that of their bits"
    yield frame("contribution", LANES, **SUM, flags=2), "unknown flag"
    yield frame("restore", LANES, **SUM, flags=3), "unknown flag"
    yield frame("result", LANES, **SUM, flags=4), "unknown flag"
    yield frame("result", LANES, **SUM, flags=0x81), "unknown flag"
    yield frame("result", LANES, **dict(SUM, op=8)), "unknown operation"
    yield frame("restore", LANES, **dict(SUM, down=3)), "unknown form of the answer"
    yield frame("table", ENTRIES, **JOB, table=name ^ 1), "not the table of this name"
    yield frame("table", ENTRIES[:-2], **JOB, table=name), "not the table of this name"
    yield frame("table", ENTRIES[:-1], **JOB, table=name), "not the table of this name"
    yield frame("table", **JOB, table=1), "not the table of this name"
    yield frame("table", bytes(514), **JOB, table=table_name([0] * 257)), \
        "not the table of this name"
    for cookie in (b"", bytes(8), COOKIE[:7], COOKIE + b"\0"):
        yield frame("prove", cookie, **dict(JOB, epoch=0), digest=TOKEN), \
            "a proof without a cookie"
    yield frame("need_table", **JOB), "need of a table without a name"
    for text in (b"", b"a" * 1025, b"two\nlines", b"\0", b"\x80", b"\xc0\xaf", b"\xed\xa0\x80",
                 b"\xf4\x90\x80\x80", b"\xf5", b"cut \xe2\x80"):
        yield frame("refused", text, **JOB), "a refusal that is no text"
    for kind in ("wait", "restored", "leave", "gone", "ask", "left"):
        yield frame(kind, b"\0", **JOB), "a payload in a frame of a kind without"
    yield frame("need_table", b"\0\0", **JOB, table=name), "a payload in a frame of a kind without"
    yield from unused()


def truncated():
    right = frame("contribution", LANES, **SUM)
    for size in (0, 1, 2, 4, 64, 79):
        yield right[:size], "shorter than a header"
    for size in (80, 81, 87):
        yield right[:size], "the length is not the datagram's"
    # Ends lost with the length set right: the checksum sees them.
    cut = bytearray(right[:80])
    struct.pack_into("<H", cut, 4, 80)
    yield bytes(cut), "wrong checksum"


def bodies():
    yield "join", b"", "shorter than a join"
    yield "join", join()[:31], "shorter than a join"
    for workers in (0, 65, 0xFFFF):
        yield "join", join(workers=workers), "workers must be 1 to 64"
        yield "welcome", welcome(workers=workers), "workers must be 1 to 64"
    yield "join", join(slots=0), "slots must be 1 or more"
    yield "welcome", welcome(slots=0), "slots must be 1 or more"
    for size in (0, 575, 65508, 0xFFFFFFFF):
        yield "join", join(frame_size=size, size=496), "a frame size must be 576 to 65507"
        yield "welcome", welcome(frame_size=size), "a frame size must be 576 to 65507"
    for size in (52, 495, 497):
        yield "join", join(size=size), "a join must be as long as the frame size it names"
    yield "join", join(frame_size=1000, terms=b"t" * 513), "terms may have at most 512 bytes"
    yield "join", join(terms_size=0xFFFF), "terms may have at most 512 bytes"
    yield "join", join(terms_size=465), "terms beyond the join's end"
    for byte in (0, 9, 10, 27, 31):
        yield "join", join(terms=b"a" + bytes([byte])), "control bytes in the terms"
    yield "join", join(terms_size=21), "control bytes in the terms"
    yield "join", join(terms_size=19), "a join's padding is not zero"
    yield "join", join()[:-1] + b"\1", "a join's padding is not zero"
    for size in (1, 575, 65508, 0xFFFFFFFF):
        yield "join", join(fits=size), "a size that fits must be 0 or 576 to 65507"
    for bound, fits in ((2, 1472), (0xFFFF, 1472), (1, 0)):
        yield "join", join(bound=bound, fits=fits), "bound must be 0, or 1 with a size that fits"
    yield "welcome", b"", "a welcome has 12 bytes or more"
    yield "welcome", welcome()[:11], "a welcome has 12 bytes or more"
    yield "welcome", welcome(padding=b"\1"), "a welcome's padding is not zero"
    yield "welcome", welcome(padding=bytes(484) + b"\1"), "a welcome's padding is not zero"
    yield "welcome", welcome(window=0), "a window must be 1 or more"


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    files = {
        "good.txt": [f"{name} {data.hex()}" for name, data in good()],
        "bad.txt": [f"{data.hex()} {why}" for data, why in bad()],
        "truncated.txt": [f"{data.hex() or '-'} {why}" for data, why in truncated()],
        "bodies.txt": [f"{kind} {data.hex() or '-'} {why}" for kind, data, why in bodies()],
    }
    for name, lines in files.items():
        with open(os.path.join(folder, name), "w", encoding="ascii") as file:
            file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
