"""Turns RESULTS.json into REPORT.html."""

import json
import pathlib
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from report import write  # noqa: E402


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: python3 bench/training/report RESULTS.json REPORT.html")
    source, target = map(pathlib.Path, sys.argv[1:])
    try:
        write(json.loads(source.read_text(encoding="utf-8")), target)
    except (OSError, ValueError) as why:
        sys.exit(f"report: {source} -> {target}: {why}")


if __name__ == "__main__":
    main()
