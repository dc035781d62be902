"""One rank of the lab, under torchrun: all contestants, taking turns, for every job and seed."""

from __future__ import annotations

import json
import os
import pathlib
import sys
import time

import torch
import torch.distributed as dist

from training import contestants, jobs, lab_link, probe, target
from training.contestants import Contestant
from training.course import Course
from training.jobs import Batch, Job
from training.plan import AUTO, UNLIMITED, Plan
from training.trace import Trace

PIECES_MIN = 4  # A run that has to be cut still has this many.


def tell(what: str, **more: object) -> None:
    """An event for whoever shows the progress; a line of rank 0's output that begins with @."""
    if dist.get_rank() == 0:
        print("@" + json.dumps({"what": what, **more}), flush=True)


class Race:
    """One job at one rate with one seed: the contestants train piece by piece in turn, so that a
    noisy minute of the machine hits all of them."""

    def __init__(self, job: Job, plan: Plan, names: list[Contestant], steps: int,
                 rate: str | None) -> None:
        self._job, self._plan, self.steps, self._rate = job, plan, steps, rate
        rank, ranks = dist.get_rank(), dist.get_world_size()
        held_out = job.held_out(rank, ranks, plan.held_out_times)
        self._batches = [job.batch(step, rank) for step in range(steps)]
        with lab_link.without_limit(rate):
            self.courses = [Course(job, contestant, held_out) for contestant in names]

    def run(self, seconds: float | None) -> None:
        """To the end, or as many pieces as fit into that time, judged by the first."""
        piece, began, done = self._plan.piece, time.perf_counter(), 0
        while done < self.steps:
            now = self._batches[done:done + piece]
            turn = done // piece % len(self.courses)
            for course in self.courses[turn:] + self.courses[:turn]:
                self._train(course, now)
            done += len(now)
            if done == len(now) and seconds is not None:
                self._cut(piece, (time.perf_counter() - began), seconds)

    def _train(self, course: Course, batches: list[Batch]) -> None:
        ahead = self.steps // 2 - course.step  # Errors are noted in that step.
        if 0 <= ahead < len(batches):
            if ahead:
                course.train(batches[:ahead])
            with lab_link.without_limit(self._rate):
                means = course.exact_means(batches[ahead])
            course.train(batches[ahead:ahead + 1])
            course.note_errors(means)
            batches = batches[ahead + 1:]
        if batches:
            course.train(batches)
        course.note_loss()
        tell("progress", contestant=course.contestant.name, step=course.step, steps=self.steps,
             loss=course.losses[-1][2], seconds=course.seconds,
             heads=dict(zip(self._job.heads, course.heads[-1] if course.heads else [])))

    def _cut(self, piece: int, took: float, seconds: float) -> None:
        pieces = torch.tensor([max(PIECES_MIN, int(seconds / took))])
        dist.broadcast(pieces, 0)
        steps = min(self.steps, piece * int(pieces.item()))
        if steps < self.steps:
            tell("cut", steps=steps, planned=self.steps, seconds=seconds)
        self.steps = steps

    def results(self) -> list[dict]:
        """One entry per contestant; collective."""
        goal = target.loss_at(self.courses[0].losses, target.TARGET_SHARE * self.steps)
        found = []
        for course in self.courses:
            sent, received = course.bytes_per_step()
            there = target.reached(course.losses, goal)
            found.append({
                "seed": self._job.seed, "target": goal, "final_loss": course.losses[-1][2],
                "steps_to_target": there and there[0], "seconds_to_target": there and there[1],
                "train_seconds": course.seconds, "steps": course.step,
                "step_seconds": course.step_seconds, "held_out": course.losses,
                "heads": course.heads,
                "sent_bytes_per_step": sent, "received_bytes_per_step": received,
                "stats": course.stats(), "failed": None})
        return found

    def end(self) -> None:
        for course in self.courses:
            course.end()


def settle_rate(job: Job, rate: str, batches: list[Batch]) -> tuple[str | None, str, float | None]:
    """Sets the links' rate; what it is, why, and which share of a dense step is communication."""
    if not lab_link.is_limited():
        return None, "loopback: links could not be limited", None
    if rate == AUTO:
        found = probe.find_rate(job, batches)
        return found.rate, (f"chosen so that communication that nothing hides is about"
                            f" {probe.SHARE:.0%} of a step of plain DDP: a step computes for"
                            f" {found.compute_s:.3f} s and takes {found.step_s:.3f} s"), found.share
    chosen = None if rate == UNLIMITED else rate
    lab_link.set_rate(chosen)
    measured = probe.compute(job, batches)
    measured.step_s = probe.dense_step(job, batches, chosen)
    return chosen, "as asked for", measured.share


def run_job(plan: Plan, name: str, rate: str) -> dict:
    """All seeds of one job at one rate."""
    names = [contestants.parse(each) for each in plan.contestants[name]]
    job = jobs.make(name, plan.seeds[0])
    batches = [job.batch(step, dist.get_rank()) for step in range(plan.piece)]
    tell("probe", job=name, title=job.title, rate=rate)
    chosen, why, share = settle_rate(job, rate, batches)
    tell("job", job=name, title=job.title, rate=chosen, why=why, share=share,
         contestants=[contestant.name for contestant in names])
    steps, seeds = plan.jobs[name], []
    for seed in plan.seeds:
        tell("seed", seed=seed, seeds=len(plan.seeds))
        race = Race(jobs.make(name, seed), plan, names, steps, chosen)
        race.run(plan.seconds.get(name))
        steps = race.steps
        seeds.append(race.results())
        if seed == plan.seeds[0]:
            layers = [course.layers for course in race.courses]
            buckets = bucket_count(race.courses[0])
        race.end()
    traces = trace_all(plan, job, names, batches, chosen)
    entries = [{"name": contestant.name, "title": contestant.title, "about": contestant.about,
                "kind": contestant.kind, "codec": contestant.codec, "carrier": contestant.carrier,
                "feedback": contestant.feedback, "seeds": [found[number] for found in seeds],
                "trace": traces[number], "layers": layers[number]}
               for number, contestant in enumerate(names)]
    return {"name": name, "title": job.title, "loss_name": job.loss_name,
            "heads": [{"name": head, "weight": weight} for head, weight in job.heads.items()],
            "parameters": sum(p.numel() for p in job.model().parameters()),
            "buckets": buckets, "steps": steps, "batch": job.batch_text, "rate": chosen,
            "rate_why": why, "dense_share": share, "target_share": target.TARGET_SHARE,
            "configurations": entries}


def trace_all(plan: Plan, job: Job, names: list[Contestant], batches: list[Batch],
              rate: str | None) -> list[dict | None]:
    """One after the other: a trace's steps are few, and told apart by what they do."""
    if plan.trace_rounds == 0:
        return [None] * len(names)
    traces = []
    for contestant in names:
        tell("trace", contestant=contestant.name)
        with lab_link.without_limit(rate):
            trace = Trace(job, contestant, batches)
        traces.append(trace.run(plan.trace_rounds))
    return traces


def bucket_count(course: Course) -> int:
    """As DDP laid them out after the first step."""
    data = course.model._get_ddp_logging_data()
    return len(data.get("rebuilt_bucket_sizes", data["bucket_sizes"]).split(","))


def take_a_core() -> None:
    """Ranks share the cores evenly, or one that the scheduler has put beside two others would hold
    everybody up. Threads that are started later stay there."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[int(os.environ["RANK"]) % len(cores)]})


def main() -> None:
    plan = Plan.read(sys.argv[1])
    torch.set_num_threads(1)
    take_a_core()
    dist.init_process_group("gloo")
    found = [run_job(plan, name, rate) for rate in plan.rates for name in plan.jobs]
    if dist.get_rank() == 0:
        pathlib.Path(plan.results).write_text(json.dumps(
            {"workers": dist.get_world_size(), "torch": torch.__version__, "jobs": found},
            allow_nan=False), encoding="utf-8")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
