"""The blocks of docs/install.md and docs/quickstart.md, pasted in order into one shell.

Run as they are: the virtual environment, sluice.info, `sluice`, the first averages, torchrun.
Stood in for, because they need a network or minutes of compiling: apt-get (the packages must be
known here), pip (what it is told to install is linked into the environment; tests/install/wheel
builds and installs the wheel), cmake and ninja (tests/install/run builds and installs the library).
"""

import importlib.util
import os
import pathlib
import sys
import unittest

from shell_blocks import blocks
from recipes_kit import ATTEMPTS, ROOT, RecipeTest, needs

GUIDES = [ROOT / "docs" / f"{name}.md" for name in ("install", "quickstart")]
LIBRARY = pathlib.Path(os.environ.get("SLUICE_LIBRARY", ROOT / "build/release/libsluice.so"))
COMMAND = ROOT / "build/bin/sluice"

# Functions, because a shell finds them before the programs of an environment.
STAND_INS = r"""
refuse() { echo "stand-in for $1: not expected: $*" >&2; exit 9; }
apt-get() {
  [ "$*" = update ] && return
  [ "$1 $2" = "install -y" ] || refuse apt-get "$@"  # Or it would ask, and eat the next line.
  shift 2
  dpkg-query -W "$@" >/dev/null
}
pip() {
  [ -n "$VIRTUAL_ENV" ] || refuse pip "$@"
  [ "$*" = "wheel --no-deps --wheel-dir dist ." ] && return
  [ "$*" = "install .[torch]" ] || refuse pip "$@"
  local site
  site=$("$VIRTUAL_ENV/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  printf '%s\n' "$TREE/python" "$PACKAGES" >"$site/stand-in.pth"
  ln -sf "$COMMAND" "$VIRTUAL_ENV/bin/sluice"
  printf '#!/bin/sh\nexec "%s" -m torch.distributed.run "$@"\n' "$VIRTUAL_ENV/bin/python" \
    >"$VIRTUAL_ENV/bin/torchrun"
  chmod +x "$VIRTUAL_ENV/bin/torchrun"
}
python3() { "$PYTHON" "$@"; }  # The version that the packages are for.
cmake() {
  case "$*" in
    "--preset release -DSLUICE_TESTS=OFF") configured=1 ;;
    "--install build/release --prefix /usr/local") [ -n "$built" ] || refuse cmake "$@" ;;
    *) refuse cmake "$@" ;;
  esac
}
ninja() {
  [ "$*" = "-C build/release" ] && [ -n "$configured" ] || refuse ninja "$@"
  built=1
}
"""


class Blocks(RecipeTest):
    def test_nothing_asks_and_nothing_is_left_out(self):
        text = "".join(blocks(*GUIDES))
        for word in ("python3 -m venv", "pip install", "sluice codecs", "torchrun", "sluice.info"):
            self.assertIn(word, text)

    def test_only_blocks_for_a_shell_are_taken(self):
        file = pathlib.Path(self.path("x.md"))
        file.write_text("```\na\n```\ntext\n```python\nb\n```\nmore\n\n```\nc\nd\n```\n",
                        encoding="utf-8")
        self.assertEqual(blocks(file), ["a\n", "c\nd\n"])


@needs("torch", "numpy")
@unittest.skipUnless(LIBRARY.is_file() and COMMAND.is_file(),
                     f"needs {LIBRARY} and {COMMAND} of a build")
class Newcomer(RecipeTest):
    def test_blocks_work_in_order(self):
        # A tree to write into, that shows this one; the build's library stands for the wheel's.
        for name in ("docs", "examples", "tests"):
            os.symlink(ROOT / name, self.path(name))
        os.makedirs(self.path("build", "release"))
        os.symlink(LIBRARY, self.path("build", "release", "libsluice.so"))
        os.symlink(ROOT / "python", self.path("python"))
        script = pathlib.Path(self.path("blocks.sh"))
        script.write_text(STAND_INS + "".join(blocks(*GUIDES)), encoding="utf-8")
        packages = pathlib.Path(importlib.util.find_spec("torch").origin).parents[1]
        out = self.run_command("bash", "-e", str(script), attempts=ATTEMPTS, variables={
            "TREE": str(ROOT), "PACKAGES": str(packages), "COMMAND": str(COMMAND),
            "PYTHON": sys.executable, "SLUICE_LIBRARY": str(LIBRARY), "PYTHONPATH": ""})
        for said in (r"codecs +f32, ", r"error energy 0\.\d+ of the mean's", "tide: bits=",
                     r"40 steps, .* times less than float32"):
            self.assertRegex(out, said)


if __name__ == "__main__":
    unittest.main()
