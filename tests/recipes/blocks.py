"""The blocks of guides that are for a shell, as one script.

    python3 tests/recipes/blocks.py docs/install.md docs/quickstart.md | bash -e
"""

import pathlib
import re
import sys

# Those without a language; the others are code of a file.
BLOCK = re.compile(r"^```\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(*guides):
    return [block for guide in guides
            for block in BLOCK.findall(pathlib.Path(guide).read_text(encoding="utf-8"))]


if __name__ == "__main__":
    print("".join(blocks(*sys.argv[1:])), end="")
