"""Reads a folder that `sluice reduce --dump-wire` wrote: docs/wire-dump.md, and nothing else."""

import json
import os


class Round:
    """One round: `what`, `only`, `parts` of the manifest, `up` (bytes by rank), `down` (bytes)."""

    def __init__(self, entry, ups, downs):
        self.what, self.only, self.parts = entry["what"], entry["only"], entry["parts"]
        self.up = [data[at : at + size] for data, (at, size) in zip(ups, entry["up"])]
        at, size = entry["down"]
        self.down = downs[at : at + size]
        lane = 0
        for part in self.parts:
            assert part["first"] == lane and part["from"] == sorted(set(part["from"])), part
            assert self.only in (None, part["from"]), (self.only, part)
            lane += part["count"]
        assert lane == self.what["count"], self.what

    def expect(self, only, **what):
        want = {"down": "full", "extra": 0, "table": None, **what}
        assert (self.what, self.only) == (want, only), (self.what, self.only, want, only)

    def contributors(self):
        """Those of the whole round; reduce with --drop never makes more than one set."""
        members = [part["from"] for part in self.parts]
        assert all(each == members[0] for each in members), members
        return members[0]


def read(folder):
    """The manifest; an exchange's `rounds` are Rounds."""
    def content(name):
        with open(os.path.join(folder, name), "rb") as file:
            return file.read()

    manifest = json.loads(content("manifest.json"))
    assert manifest["version"] == 1
    ups = [content(f"up-{rank}.bin") for rank in range(manifest["workers"])]
    downs = content("down.bin")
    used = 0
    for exchange in manifest["exchanges"]:
        exchange["rounds"] = [[Round(r, ups, downs) for r in step] for step in exchange["rounds"]]
        used += sum(len(r.down) for step in exchange["rounds"] for r in step)
    assert used == len(downs), (used, len(downs))
    return manifest
