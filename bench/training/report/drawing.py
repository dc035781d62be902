"""What the charts have in common: SVG whose width is the reader's.

Positions across are percentages and a plot's margins are outside of its SVG, so that text has one
size on every screen.
"""

from .markup import element, join

COLOUR_COUNT = 8                # As in style.css.
DASHES = (None, "7 3", "2 2.5", "10 3 2 3", "14 4")
MARKERS = ("M-4,0a4,4 0 1,0 8,0a4,4 0 1,0 -8,0", "M-3.5,-3.5h7v7h-7z", "M0,-4.6L4.4,3.4H-4.4z",
           "M0,-5L5,0L0,5L-5,0z", "M0,4.6L4.4,-3.4H-4.4z",
           "M-4,-1.4h2.6v-2.6h2.8v2.6h2.6v2.8h-2.6v2.6h-2.8v-2.6h-2.6z")
AXIS_HEIGHT = 40


def classes(index, *more):
    """Of what belongs to a configuration: t for the legend's switch, c for its colour."""
    return " ".join((f"t{index}", f"c{index % COLOUR_COUNT}", *more))


def dash(index):
    return DASHES[index % len(DASHES)]


def definitions():
    """What charts refer to."""
    hatch = element("pattern", element("path", d="M-1,1l2,-2M0,6l6,-6M5,7l2,-2"),
                    id="hatch", width=6, height=6, patternUnits="userSpaceOnUse")
    markers = [element("path", id=f"m{i}", d=d) for i, d in enumerate(MARKERS)]
    return element("svg", element("defs", hatch, *markers), class_="definitions",
                   aria_hidden="true")


def text(words, x, y, anchor="start", **more):
    return element("text", words, x=x, y=y, text_anchor=anchor, **more)


def marker(index, x, y, **more):
    return element("use", href=f"#m{index % len(MARKERS)}", x=x, y=y, **more)


def swatch(index):
    """A configuration's line and marker."""
    line = element("line", x1=0, x2=28, y1=7, y2=7, class_="line", stroke_dasharray=dash(index))
    return element("svg", line, marker(index, 14, 7, class_="marker"), width=28, height=14,
                   class_=f"swatch c{index % COLOUR_COUNT}", aria_hidden="true")


def keys(pairs):
    """What the colours of a chart mean: (class, letter or None, words)."""
    return element("ul", *(element("li", element("i", letter, class_=f"key {kind}"), words)
                           for kind, letter, words in pairs), class_="keys")


def drawing(height, *children, title, desc, **more):
    return element("svg", element("title", title), element("desc", desc), *children,
                   width="100%", height=height, role="img", **more)


def figure(title, note, *children, **more):
    return element("figure", element("figcaption", element("h3", title), element("p", note)),
                   *children, **more)


def row(index, name, *children):
    """A configuration's own; what is below moves up when the legend hides it."""
    return element("div", element("p", name, class_="name"), *children, class_=classes(index))


def plot(*children, left=0):
    return element("div", *children, class_="plot", style=f"--left:{left}px")


def grid(axis, top, bottom):
    return join(element("line", x1=axis.percent(tick), x2=axis.percent(tick), y1=top, y2=bottom,
                        class_="grid") for tick, _ in axis.ticks())


def ticks_below(axis, y):
    ticks = [text(words, axis.percent(tick), y + 16, "middle", class_="tick")
             for tick, words in axis.ticks()]
    label = text(axis.label, "100%", y + 33, "end", class_="label") if axis.label else None
    return join((*ticks, label))


def axis_below(axis):
    """Under rows that are drawings of their own."""
    return element("svg", ticks_below(axis, 0), width="100%", aria_hidden="true",
                   height=AXIS_HEIGHT if axis.label else AXIS_HEIGHT // 2)
