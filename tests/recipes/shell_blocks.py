"""The blocks of guides that are for a shell, as one script.

    python3 tests/recipes/shell_blocks.py docs/install.md docs/quickstart.md | bash -e
"""

import pathlib
import re
import sys

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(*guides):
    """Those without a language; the others are code of a file."""
    return [block for guide in guides
            for language, block in BLOCK.findall(pathlib.Path(guide).read_text(encoding="utf-8"))
            if not language]


if __name__ == "__main__":
    print("".join(blocks(*sys.argv[1:])), end="")
