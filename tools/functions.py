"""Finds the functions of a C++ or CUDA file and how long they are, without a compiler.

Works on code whose comments and strings are blanked (house.split). Namespaces and classes are
walked through; at their level a `{` is judged by its head, that is, by the tokens since the last
`;`, `{` or `}`, with each (...), [...] and already skipped {...} folded into one token. A body is
skipped whole, so lambdas and local classes belong to the function around them.
"""

import bisect
import dataclasses
import re

_TOKEN = re.compile(
    r"""(?P<directive> ^[ \t]*\#(?:[^\\\n]|\\.)* )
      | "[^"]*"? | '[^']*'? | [A-Za-z_]\w* | [0-9][\w.']*
      | :: | -> | <=>? | >= | == | != | && | \|\| | \S""", re.M | re.S | re.X)
_CLOSE = {"(": ")", "[": "]", "{": "}"}
_ACCESS = ("public", "private", "protected")
_MACRO = re.compile(r"_*[A-Z][A-Z0-9_]+")
_QUALIFIERS = ("const", "volatile", "noexcept", "override", "final", "mutable", "try", "&", "&&",
               "[]")
_ALIGNERS = ("alignas", "__attribute__", "__declspec", "__align__")


@dataclasses.dataclass(frozen=True)
class Function:
    name: str
    first: int  # Line of the signature's first token.
    body: int   # Line of the opening brace.
    last: int   # Line of the closing brace.

    @property
    def lines(self):
        return self.last - self.first + 1


def find(code):
    """The functions of the file, in order. `code` comes from house.split."""
    tokens = [(m.group().strip(), m.start(), bool(m.group("directive")))
              for m in _TOKEN.finditer(code)]
    starts = [0] + [m.end() for m in re.finditer("\n", code)]
    found, head, i = [], [], 0
    while i < len(tokens):
        text, _, directive = tokens[i]
        if directive:
            pass
        elif text in (";", "}"):
            head = []
        elif text == ":" and head and head[-1][0] in _ACCESS:
            head = []
        elif text in ("(", "["):
            head.append((text + _CLOSE[text], i))
            i = _match(tokens, i)
        elif text == "{":
            kind, name = _judge([t for t, _ in head])
            if kind == "scope":
                head = []
            else:
                end = _match(tokens, i)
                if kind == "function":
                    at = (bisect.bisect(starts, tokens[j][1]) for j in (_start(head), i, end))
                    found.append(Function(name, *at))
                head = head + [("{}", i)] if kind == "part" else []
                i = end
        else:
            head.append((text, i))
        i += 1
    return found


def _start(head):
    """The token the function begins with, after macros that were called without a `;`."""
    while len(head) > 2 and _MACRO.fullmatch(head[0][0]) and head[1][0] == "()" \
            and re.fullmatch(r"\w+", head[2][0]):
        head = head[2:]
    return head[0][1]


def _match(tokens, i):
    """The index of the token that closes the bracket at i. Branches of #if each count once."""
    opener, closer = tokens[i][0], _CLOSE[tokens[i][0]]
    depth, saved = 0, []
    while i < len(tokens):
        text, _, directive = tokens[i]
        if directive:
            word = text.lstrip("# \t")
            if word.startswith("if"):
                saved.append(depth)
            elif word.startswith("el") and saved:
                depth = saved[-1]
            elif word.startswith("el"):
                i = _endif(tokens, i)  # The bracket was opened in a branch: leave out the others.
            elif word.startswith("endif") and saved:
                saved.pop()
        elif text == opener:
            depth += 1
        elif text == closer:
            depth -= 1
            if depth == 0:
                return i
        i += 1
    return len(tokens) - 1


def _endif(tokens, i):
    depth = 1
    while depth and i + 1 < len(tokens):
        i += 1
        word = tokens[i][0].lstrip("# \t") if tokens[i][2] else ""
        depth += word.startswith("if") - word.startswith("endif")
    return i


def _judge(head):
    """What a `{` after these tokens opens, and the function's name.

    scope: walk on inside. function: a body. part: of the head, which goes on after it. other: a
    value or an enumeration.
    """
    head = _without_angles(_without_operators(head))
    if not head:
        return "other", ""
    if head[-1] == "requires" or _ends_in_requires_expression(head):
        return "part", ""
    if "namespace" in head or (head[-1][0] == '"' and head[-2:-1] == ["extern"]):
        return "scope", ""
    if any(k in head for k in ("class", "struct", "union", "enum")) and _declares_type(head):
        return ("other" if "enum" in head else "scope"), ""
    if "=" in head:
        is_lambda = head[head.index("=") + 1:][:1] == ["[]"]
        return ("function" if is_lambda else "other"), "lambda"
    return _judge_signature(head)


def _judge_signature(head):
    cut = _end_of_signature(head)
    signature = head[:cut]
    while signature and (signature[-1] in _QUALIFIERS or _MACRO.fullmatch(signature[-1])):
        signature.pop()
    if not signature or signature[-1] != "()":
        return "other", ""
    # In `: a_{1}, b_(2) {` the brace after a name initialises, the one after a bracket is the body.
    if head[cut:cut + 1] == [":"] and head[-1] not in ("()", "{}", "."):
        return "part", ""
    return "function", _name(signature)


def _end_of_signature(head):
    """Where the initialiser list, trailing return type or requires clause begins."""
    if "()" in head:
        for i in range(head.index("()"), len(head)):
            if head[i] in (":", "->") or (head[i] == "requires" and head[i - 1] != "template"):
                return i
    return len(head)


def _name(signature):
    for i in range(len(signature) - 1, 0, -1):
        before = signature[i - 1]
        if signature[i] == "()" and re.fullmatch(r"\w+", before) and before != "noexcept":
            if not _MACRO.fullmatch(before) or "()" not in signature[:i - 1]:
                return before
    return "(unnamed)"


def _declares_type(head):
    """Tells `struct alignas(8) A : B {` from `struct stat f() {` and `struct A a = {`."""
    kept = []
    for token in head:
        if token == ":":
            break
        attribute = kept and (kept[-1] in _ALIGNERS or _MACRO.fullmatch(kept[-1]))
        if token == "()" and attribute:
            kept.pop()
        else:
            kept.append(token)
    return "()" not in kept and "=" not in kept


def _ends_in_requires_expression(head):
    return (head[-2:] == ["requires", "()"]
            and head[-3:-2] in (["requires"], ["="], ["&&"], ["||"], ["!"]))


def _without_operators(head):
    """`operator==()` and `operator()()` become `operator()`, so that no symbol misleads."""
    kept, i = [], 0
    while i < len(head):
        kept.append(head[i])
        i += 1
        if kept[-1] == "operator":
            if head[i:i + 2] == ["()", "()"]:
                i += 1
            while i < len(head) and head[i] != "()":
                i += 1
    return kept


def _without_angles(head):
    kept, depth = [], 0
    for token in head:
        if token == "<":
            depth += 1
        elif token == ">" and depth:
            depth -= 1
        elif depth == 0:
            kept.append(token)
    return kept
