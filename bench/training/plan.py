"""What a run of the lab does; made from the options, read by every rank."""

from __future__ import annotations

import dataclasses
import json
import pathlib

AUTO, UNLIMITED = "auto", "unlimited"


@dataclasses.dataclass(frozen=True)
class Plan:
    """Everything that decides a run's course."""

    jobs: dict[str, int]            # name and steps
    contestants: dict[str, list[str]]   # by job; the first is what the others are compared with
    seeds: tuple[int, ...]
    rates: tuple[str, ...]          # of the links, in turn: AUTO, UNLIMITED, or as `tc` writes it
    piece: int                      # steps of a contestant before it is the next one's turn
    trace_rounds: int               # 0: no trace
    seconds: dict[str, float]       # for the training of a job; none: as long as it takes
    results: str                    # file
    held_out_times: int = 1         # as much held-out data as the job's own

    def write(self, path: pathlib.Path) -> None:
        path.write_text(json.dumps(dataclasses.asdict(self)), encoding="utf-8")

    @staticmethod
    def read(path: str) -> Plan:
        fields = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
        return Plan(**{key: tuple(value) if isinstance(value, list) else value
                       for key, value in fields.items()})
