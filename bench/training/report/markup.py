"""HTML and SVG as text that is escaped unless it was made here; numbers as people write them."""

import html

NOTHING, SPACE = "—", "\N{NO-BREAK SPACE}"
SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
VOID = {"meta", "input"}


class Markup(str):
    """Text that is markup already."""


def join(parts, between=""):
    return Markup(between.join(part if isinstance(part, Markup) else html.escape(str(part))
                               for part in parts if part is not None))


def element(tag, *children, **attributes):
    """class_ is class, data_tip is data-tip; what is None is left out."""
    opening = f"<{tag}" + "".join(
        f' {name.rstrip("_").replace("_", "-")}="{html.escape(str(value))}"'
        for name, value in attributes.items() if value is not None) + ">"
    return Markup(opening if tag in VOID else f"{opening}{join(children)}</{tag}>")


def number(value, digits=3, unit=""):
    """With this many significant digits; a dash where there is no number."""
    if value is None:
        return NOTHING
    mantissa, _, exponent = f"{value:.{digits - 1}e}".partition("e")
    if value and not -4 < int(exponent) < 9:
        text = f"{mantissa}·10{power(int(exponent))}"
    else:
        text = f"{value:,.{max(0, digits - 1 - int(exponent))}f}"
    return text.replace("-", "−") + (SPACE + unit if unit else "")


def power(exponent):
    return str(exponent).translate(SUPERSCRIPT)


def percent(share, decimals=0, sign="", unit=SPACE + "%"):
    """sign "+": as a change, with its sign also when it is more."""
    if share is None:
        return NOTHING
    value = round(100 * share, decimals) + 0.0  # Not -0.
    return f"{value:{sign if value else ''}.{decimals}f}{unit}".replace("-", "−")
