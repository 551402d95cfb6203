"""Which jobs are done, and how long the rest will take."""

import math
import re
import statistics
import sys
import time
from collections.abc import Iterable

from tqdm import tqdm

from ncl_tf.paper.jobs import Job
from ncl_tf.runs import StoredRun
from ncl_tf.runs.output import read_result
from ncl_tf.runs.store import read_evaluation

SECONDS_BETWEEN_ESTIMATES = 20  # each reads the files of all jobs


def state(job: Job) -> str:
    """Describe the state of a job: 'done', 'step 250 of 6000' or 'to do'."""
    if job.done():
        return "done"
    if job.output or not (step := job.record().get("step", 0)):
        return "to do"
    return f"step {step}" + (f" of {total}" if (total := StoredRun(job.run_dir).total_steps) else "")


def seconds_left(jobs: Iterable[Job], slots: int, wanted: Iterable[Job] | None = None) -> float | None:
    """Estimate the time left by the jobs and steps that are done; None as long as nothing is known about some kind of job.

    A job is taken to last as long as finished ones of its kind: the same method's, or else any training's or evaluation's.
    `wanted` are the jobs whose time is estimated; None: all.
    """
    done = [job for job in jobs if job.done()]
    to_do = [job for job in (jobs if wanted is None else wanted) if not job.done()]
    finished: dict[str, list[float]] = {}
    for job in done:
        for kind in _kinds(job):
            finished.setdefault(kind, []).append(_seconds(job))
    left = 0.0
    for job in to_do:
        if (own := _seconds_by_steps(job)) is None:
            known = [finished[kind] for kind in _kinds(job) if kind in finished]
            if not known:
                return None
            own = statistics.fmean(known[0])
        left += own
    return left / slots


def _kinds(job: Job) -> list[str]:
    """List the kinds of a job, from the most alike to any of the program."""
    fine_tuned = " fine-tuned" if "--fine_tune" in job.arguments else ""
    return [f"{job.program} {_row(job)}{fine_tuned}", f"{job.program}{fine_tuned}"]


def _row(job: Job) -> str:
    """Name what a job has in common with those of other seeds: its method and settings."""
    return re.sub(r"-seed\d+.*", "", job.name)


def _seconds(job: Job) -> float:
    run = StoredRun(job.run_dir)
    if job.output and job.output.exists():
        return read_evaluation(job.output)["wall_seconds"]
    if not job.output and run.exists:
        return run.record["wall_seconds"]
    known = read_result(job.results[0])
    return (known if job.output else known["run"])["wall_seconds"]


def _seconds_by_steps(job: Job) -> float | None:
    """Estimate what a training that has begun still needs, by its own pace."""
    total = StoredRun(job.run_dir).total_steps
    if job.output or not (step := job.record().get("step", 0)) or not total:
        return None
    return _seconds(job) / step * (total - step)


def duration(seconds: float) -> str:
    """Write a duration for people: '2 h 05 min', '3 min', '20 s'."""
    minutes = round(seconds / 60)
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60:02d} min"
    return f"{minutes} min" if seconds >= 60 else f"{seconds:.0f} s"


def print_jobs(jobs: list[Job], slots: int, commands: bool = False) -> None:
    """Print what is done and what is left of each row, or every job with its command; then the time left."""
    if commands:
        for job in jobs:
            print(f"{state(job):>20}  {job.command}")
    else:
        print_rows(jobs, slots)
    print(summary(jobs, slots))


def print_rows(jobs: list[Job], slots: int) -> None:
    """Print a line for each row: trainings and evaluations that are done of all, the steps of one under way, the time left."""
    rows: dict[str, list[Job]] = {}
    for job in jobs:
        rows.setdefault(_row(job), []).append(job)
    width = max(map(len, rows))
    print(f"{'row':<{width}}  {'trained':>10}  {'evaluated':>10}  {'time left':>12}")
    for row, own in rows.items():
        trainings, evaluations = ([job for job in own if bool(job.output) == made] for made in (False, True))
        counts = (f"{sum(job.done() for job in some)} of {len(some)}" for some in (trainings, evaluations))
        left = seconds_left(jobs, slots, own)
        steps = [f"{job.name}: {now}" for job in trainings if (now := state(job)).startswith("step")]
        cells = [*(f"{count:>10}" for count in counts), f"{'unknown' if left is None else duration(left):>12}", *steps]
        print("  ".join([f"{row:<{width}}", *cells]))


def summary(jobs: list[Job], slots: int) -> str:
    """Summarize jobs: '3 jobs, 1 done; time left: about 2 min'."""
    return f"{len(jobs)} jobs, {sum(job.done() for job in jobs)} done; {time_left(jobs, slots)}"


def time_left(jobs: list[Job], slots: int) -> str:
    """State the time left in words."""
    if (seconds := seconds_left(jobs, slots)) is None:
        return "time left: unknown until a job of each kind is done"
    return f"time left: about {duration(seconds)}" + (f", {slots} jobs at a time" if slots > 1 else "")


class Bar:
    """A progress bar in a terminal, with the time left; everywhere, a line at the start and when a job ends."""

    def __init__(self, jobs: list[Job], slots: int) -> None:
        self.jobs, self.slots = jobs, slots
        self.reported = {job.name for job in jobs if job.done()}
        self.left, self.estimated = "", -math.inf
        print(summary(jobs, slots), file=sys.stderr)
        self.bar = tqdm(total=len(jobs), initial=len(self.reported), unit=" jobs", file=sys.stderr, disable=None)

    def update(self, outcomes: dict[str, str], running: list[Job]) -> None:
        """Show the outcomes so far and the running jobs."""
        ended = [name for name in outcomes if name not in self.reported]
        if ended or time.monotonic() > self.estimated + SECONDS_BETWEEN_ESTIMATES:
            self.left, self.estimated = time_left(self.jobs, self.slots), time.monotonic()
        for name in ended:
            self.reported.add(name)
            self.bar.update()
            what = f"failed: {name}, {outcomes[name]}" if outcomes[name] else f"done: {name}"
            self.bar.write(f"{what} ({len(self.reported)} of {len(self.jobs)}; {self.left})", file=sys.stderr)
        states = [f"{job.name} {state(job)}".removesuffix("to do").strip() for job in running[:2]]
        self.bar.set_postfix_str("; ".join([*states, self.left]))

    def close(self) -> None:
        """End the bar's line."""
        self.bar.close()
