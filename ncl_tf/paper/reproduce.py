"""From a plan to the finished table."""

from ncl_tf.errors import InputError
from ncl_tf.paper import executors, progress, results, tables
from ncl_tf.paper.compare import Comparison
from ncl_tf.paper.executors import Executor, Job
from ncl_tf.paper.plan import Plan


def reproduce(plan: Plan, executor: Executor) -> None:
    """Runs what is not done yet, and writes the table anew after every job; at the end, tells of jobs that failed."""
    jobs = plan.jobs()
    bar = progress.Bar(jobs, executor.parallel)
    ended = -1

    def report(outcomes: dict[str, str], running: list[Job]) -> None:
        nonlocal ended
        bar.update(outcomes, running)
        if len(outcomes) > ended:
            ended = len(outcomes)
            write(plan)

    try:
        outcomes = executors.run_all(jobs, executor, report)
    finally:
        bar.close()
        executor.close()
    failed = {name: why for name, why in outcomes.items() if why}
    if failed:
        raise InputError(
            f"{len(failed)} of {len(jobs)} jobs failed; the same command tries them again\n"
            + "\n".join(f"  {name}: {why}" for name, why in failed.items())
        )


def write(plan: Plan) -> str:
    """Collects the results and writes the table with all that the folder has of it; returns it as text."""
    results.collect(plan)
    table = tables.load(plan.table.name)
    rows = results.rows(plan.folder / "results", table)
    if not rows:
        return ""
    comparison = Comparison(table, rows)
    comparison.write(plan.folder)
    return comparison.markdown()
