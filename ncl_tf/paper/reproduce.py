"""From a plan to the finished table."""

from ncl_tf.errors import InputError
from ncl_tf.paper import executors, progress, results, tables
from ncl_tf.paper.compare import Comparison
from ncl_tf.paper.executors import Local
from ncl_tf.paper.jobs import Job
from ncl_tf.paper.plan import Plan
from ncl_tf.paper.ray_executor import Ray
from ncl_tf.stopping import Stopped


def reproduce(plan: Plan, executor: Local | Ray) -> None:
    """Run what is not done yet, and write the table anew after every job; at the end, report the jobs that failed."""
    jobs = plan.jobs()
    bar = progress.Bar(jobs, executor.parallel)
    ended = -1

    def report(outcomes: dict[str, str], running: list[Job]) -> None:
        nonlocal ended
        bar.update(outcomes, running)
        if len(outcomes) > ended:
            ended = len(outcomes)
            write_table(plan)

    try:
        outcomes = executors.run_all(jobs, executor, report)
    except Stopped as stop:
        stop.advice = "; its jobs stop, too, and the same command resumes them"
        raise
    finally:
        bar.close()
        executor.close()
    failed = {name: why for name, why in outcomes.items() if why}
    if failed:
        raise InputError(
            f"{len(failed)} of {len(jobs)} jobs failed; run the same command to try them again\n"
            + "\n".join(f"  {name}: {why}" for name, why in failed.items())
        )


def write_table(plan: Plan) -> str:
    """Collect the results, write the table with all that the folder has of it, and return it as text."""
    results.collect(plan)
    table = tables.load_table(plan.table.name)
    rows = results.rows(plan.output.results, table)
    if not rows:
        return ""
    comparison = Comparison(table, rows)
    comparison.write(plan.folder)
    return comparison.markdown()
