"""The run as it goes: a line per contestant that stays in its place on a terminal; elsewhere, as in
a log, a line per contestant now and then."""

from __future__ import annotations

import shutil
import sys
import time

QUARTERS = 4  # as often does a contestant have a line where lines cannot be replaced


def job_text(rate: str | None, share: float | None) -> str:
    link = "links without limit" if rate is None else f"links of {rate}"
    return link if share is None else f"{link}; plain DDP spends {share:.0%} of a step waiting"


class Progress:
    """Takes a worker's events."""

    def __init__(self, out=sys.stdout) -> None:
        self._out, self._live = out, out.isatty()
        self._began = time.monotonic()
        self._lines: dict[str, str] = {}
        self._shown: dict[str, int] = {}
        self._drawn = 0
        self.where = "starting"

    def take(self, event: dict) -> None:
        getattr(self, f"_on_{event['what']}")(event)

    def say(self, text: str) -> None:
        """A line that stays."""
        self._drawn = 0  # What was drawn stays above.
        print(f"{self._clock()}  {text}", file=self._out, flush=True)

    def _clock(self) -> str:
        seconds = int(time.monotonic() - self._began)
        return f"{seconds // 60}:{seconds % 60:02}"

    def _on_probe(self, event: dict) -> None:
        self.where = f"{event['job']}, probe"
        self.say(f"{event['job']}: {event['title']}; timing some steps")

    def _on_job(self, event: dict) -> None:
        self.say(f"{event['job']}: {job_text(event['rate'], event['share'])}")
        self._job, self._names = event["job"], event["contestants"]
        self._width = max(map(len, self._names))

    def _on_seed(self, event: dict) -> None:
        self._seed, self._lines, self._shown, self._drawn = event["seed"], {}, {}, 0
        self.where = f"{self._job}, seed {event['seed']}"
        if event["seeds"] > 1:
            self.say(f"{self._job}: seed {event['seed']} of {event['seeds']}")

    def _on_cut(self, event: dict) -> None:
        self.say(f"{self._job}: {event['steps']} steps instead of {event['planned']}, to be done in"
                 f" time (--steps {event['planned']} takes as long as it takes)")

    def _on_progress(self, event: dict) -> None:
        name, step, steps = event["contestant"], event["step"], event["steps"]
        self.where = f"{self._job}, seed {self._seed}, {name}, step {step} of {steps}"
        bar = "#" * (20 * step // steps)
        heads = ", ".join(f"{head} {loss:.4f}" for head, loss in event["heads"].items())
        text = (f"{name:{self._width}}  {bar:.<20} {step:4}/{steps}  loss {event['loss']:.4f}"
                f"{f' ({heads})' if heads else ''}  {event['seconds'] / step:.3f} s/step")
        if self._live:
            self._lines[name] = text
            self._draw()
        elif QUARTERS * step // steps > self._shown.get(name, 0):
            self._shown[name] = QUARTERS * step // steps
            self.say(text)

    def _on_trace(self, event: dict) -> None:
        self.where = f"{self._job}, trace of {event['contestant']}"
        if event["contestant"] == self._names[0]:
            self.say(f"{self._job}: where the time of a step goes, contestant by contestant")

    def _draw(self) -> None:
        width = shutil.get_terminal_size().columns - 1
        up = f"\x1b[{self._drawn}A" if self._drawn else ""
        lines = [self._lines[name] for name in self._names if name in self._lines]
        self._out.write(up + "".join(f"\r\x1b[2K      {line}"[:width + 5] + "\n" for line in lines))
        self._out.flush()
        self._drawn = len(lines)
