"""What PTX may not contain: what gives other bits than the host, or ends the context.

    problems(text, read)    of the text of a PTX file that was made with -lineinfo
"""

import re

LOCATION = re.compile(r"^\s*\.loc\s+(\d+)\s+(\d+)\s+\d+")
FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"(.*?)"', re.MULTILINE)
FUNCTION = re.compile(r"^(?:\.\w+\s+)*\.(?:entry|func)\b.*?([\w$]+)\s*\(")
FLOATS = r"(?:f16|f16x2|bf16|bf16x2|f32|f32x2|f64)"

FUSED = re.compile(rf"\b(?:fma|mad)\.(?:\w+\.)*{FLOATS}\b")
# What the source says when it wants a fused multiply-add.
ASKED = re.compile(r"\b(?:__fmaf_rn|__fma_rn|(?:std::)?fmaf?)\s*\(")
REFUSED = (
    # A trap leaves a context in which nothing works any more, also not what is not ours.
    (re.compile(r"\b(?:trap|brkpt)\s*;"), "ends the context"),
    (re.compile(r"\b(?:__assertfail|vprintf)\b"), "an assertion or a print in a kernel"),
    (re.compile(rf"\b(?:add|sub|mul)\.(?:sat\.)?{FLOATS}\b"),
     "has no rounding, so ptxas may fuse it"),
    (re.compile(r"\.(?:ftz|approx|full)\b"), "is not what the host computes"),
)


def problems(text, read):
    """Lines, one for each problem. read(path) gives the lines of a source file."""
    fused = "nobody has asked for this fused multiply-add"
    files = {int(number): path for number, path in FILE.findall(text)}
    function, place, found = "", None, []
    for line in text.splitlines():
        if at := FUNCTION.match(line):
            function, place = at.group(1), None
        elif at := LOCATION.match(line):
            place = files.get(int(at.group(1))), int(at.group(2))
        else:
            code = line.split("//", 1)[0]
            if FUSED.search(code) and not _asked(place, read):
                found.append((function, place, code, fused))
            found += [(function, place, code, why) for what, why in REFUSED if what.search(code)]
    return [f"{where(place)}: {function}: `{' '.join(code.split())}`: {why}"
            for function, place, code, why in found]


def where(place):
    return f"{place[0]}:{place[1]}" if place and place[0] else "somewhere"


def _asked(place, read):
    """Whether the statement that begins in that line has a fused multiply-add in its words."""
    if not place or not place[0]:
        return False
    rest = "\n".join(read(place[0])[place[1] - 1:])
    return bool(ASKED.search(re.split(r"[;{}]", rest, maxsplit=1)[0]))
