"""What the house-keeping checks share.

Which files there are (`files`), what each of them is (`is_test`, `is_header`, ...), what of a file
is code and what is comment (`split`, `includes`), and a memory of commands that passed
(`run_stamped`), so that a check with nothing changed costs nothing.
"""

import concurrent.futures
import dataclasses
import fnmatch
import hashlib
import os
import pathlib
import re
import subprocess

CODE = (".h", ".hpp", ".cuh", ".c", ".cc", ".cu")
HEADERS = (".h", ".hpp", ".cuh")
TOOLS = pathlib.Path(__file__).resolve().parent
ROOT = TOOLS.parent


# --- files -----------------------------------------------------------------------------------


def files(root):
    """Every file of the tree as a sorted list of paths relative to root, with '/' between."""
    # A hook runs with GIT_DIR set; the tree that was asked for is the one to be listed.
    env = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    command = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others",
               "--exclude-standard"]
    try:
        done = subprocess.run(command, env=env, capture_output=True, check=False)
        in_git = done.returncode == 0
    except FileNotFoundError:
        in_git = False
    listed = done.stdout.decode("utf-8", "replace").split("\0") if in_git else _walk(root)
    return sorted({f for f in listed if f and os.path.isfile(os.path.join(root, f))})


def _walk(root):
    for folder, folders, names in os.walk(root):
        top = os.path.samefile(folder, root)
        built = "build*" if top else "build"  # src/builder is code.
        folders[:] = [f for f in folders
                      if f not in (".git", "__pycache__") and not fnmatch.fnmatch(f, built)]
        for name in names:
            yield pathlib.PurePath(os.path.relpath(os.path.join(folder, name), root)).as_posix()


def read(root, path):
    """The file's text; bytes that are not UTF-8 come as U+FFFD."""
    return (pathlib.Path(root) / path).read_bytes().decode("utf-8", "replace")


def in_folders(path, folders):
    return path.split("/", 1)[0] in folders and "/" in path


def is_code(path):
    return path.endswith(CODE)


def is_header(path):
    return path.endswith(HEADERS)


def is_bench(path):
    return path.startswith("bench/") or _stem(path).endswith("_bench")


def is_test(path):
    """A unit test, a fuzzer, or anything under tests/."""
    return path.startswith("tests/") or _stem(path).endswith(("_test", "_fuzz"))


def is_beside(path):
    """A test, benchmark or fuzzer that lives beside its source."""
    return _stem(path).endswith(("_test", "_bench", "_fuzz"))


def _stem(path):
    return pathlib.PurePath(path).stem


# --- text ------------------------------------------------------------------------------------

_TOKEN = re.compile(
    r"""(?P<comment> //(?:[^\\\n]|\\.)* | /\*.*?(?:\*/|\Z) )
      | (?P<string> (?:u8|[uUL])?R"(?P<mark>[^\s()\\"]{0,16})\(.*?\)(?P=mark)"
                  | "(?:[^"\\\n]|\\.)*"? | '(?:[^'\\\n]|\\.)*'? )
      | (?P<word> [A-Za-z_]\w* | \.?[0-9](?:[eEpP][+-]|'?\w|\.)* )""", re.S | re.X)
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(["<])', re.M)


def _blank(text):
    return re.sub(r"[^\n]", " ", text)


def split(text):
    """Two texts of the same length and the same lines: code alone, and comments alone.

    Strings and character literals keep their quotes and lose what is between them. A word or
    number is matched only so that 1'000 opens no literal and FOOR"(" is not taken for a raw string.
    """
    code, comments, at = [], [], 0
    for m in _TOKEN.finditer(text):
        gap, token = text[at:m.start()], m.group()
        code.append(gap)
        comments.append(_blank(gap))
        at = m.end()
        if m.group("comment"):
            code.append(_blank(token))
            comments.append(token)
            continue
        if m.group("string") and len(token) >= 2:
            quote = "'" if token[0] == "'" else '"'
            # A backslash that ends a line stays: the string may be part of a macro.
            token = quote + re.sub(r"(?!\\\n)[^\n]", " ", token[1:-1]) + quote
        code.append(token)
        comments.append(_blank(token))
    code.append(text[at:])
    comments.append(_blank(text[at:]))
    return "".join(code), "".join(comments)


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def includes(text):
    """(line, path, quoted) of each #include that is neither commented out nor inside a string."""
    code, _ = split(text)
    for m in _INCLUDE.finditer(code):
        quoted = m.group(1) == '"'
        rest = text[m.end():].split("\n", 1)[0]
        yield line_of(text, m.start()), rest.split('"' if quoted else ">", 1)[0], quoted


# --- commands that are remembered when they pass ---------------------------------------------


@dataclasses.dataclass(frozen=True)
class Check:
    name: str       # What to call it when it fails.
    key: str        # A digest of all that its outcome depends on.
    command: tuple
    stdin: str = ""


def digest(*parts):
    h = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else str(part).encode()
        h.update(b"%d:" % len(data))
        h.update(data)
    return h.hexdigest()


def digest_of_files(root, paths):
    root = pathlib.Path(root)
    return digest(*(x for p in paths for x in (p, (root / p).read_bytes())))


def version_of(tool):
    """What the tool says it is, or None when it is not there."""
    try:
        done = subprocess.run([tool, "--version"], capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout


def run_stamped(checks, root, stamps):
    """Runs the checks that have no stamp, one per processor at a time, from root.

    Returns (list of (check, output) that failed, number of checks that were remembered). Stamps of
    other keys are forgotten, so the folder does not grow.
    """
    stamps = pathlib.Path(stamps)
    stamps.mkdir(parents=True, exist_ok=True)

    def run(check):
        done = subprocess.run(check.command, cwd=root, input=check.stdin, text=True,
                              errors="replace", stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              check=False)
        if done.returncode == 0:
            (stamps / check.key).write_text(check.name + "\n")
        return done

    todo = [j for j in checks if not (stamps / j.key).exists()]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        results = list(pool.map(run, todo))
    keys = {j.key for j in checks}
    for old in stamps.iterdir():
        if old.name not in keys:
            old.unlink(missing_ok=True)
    failed = [(j, r.stdout) for j, r in zip(todo, results) if r.returncode != 0]
    return failed, len(checks) - len(todo)
