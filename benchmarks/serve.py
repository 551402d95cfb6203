"""Speed of exported models: one more hour of one patient, a stay at a time, and `bin/predict` on a folder of files.

The classifier is untrained: its weights do not matter for the time it takes.
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence

import numpy as np

from benchmarks.measure import Row, worker_environment
from ncl_tf.data.cohort import Cohort

ROOT = pathlib.Path(__file__).resolve().parent.parent
HOURS, WARMUP = 3000, 100  # of streaming
STAYS = 500  # scored one at a time


def serve(sources: Sequence[str]) -> list[Row]:
    """Measure an untrained export on the test split of PhysioNet 2019, if its zips are given, or of a simulated ward."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        name, stays = _prepare(sources, folder)
        call = f"import json; from benchmarks import serve; print(json.dumps(serve.%s({str(folder)!r})))"
        rows = [
            json.loads(
                subprocess.run(
                    [sys.executable, "-c", call % function], stdout=-1, check=True, env=worker_environment()
                ).stdout.splitlines()[-1]
            )
            for function in ("streaming", "stay_by_stay")
        ]
        began = time.perf_counter()
        command = [ROOT / "bin/predict", f"--model={folder / 'model'}", f"--input={folder / 'test'}"]
        printed = subprocess.run([*command, f"--output={folder / 'out'}"], stdout=-1, text=True, check=True).stdout
        seconds, hours = time.perf_counter() - began, int(printed.split()[3].replace(",", ""))
        return [*rows, {"serve": f"bin/predict, {name}, {stays:,} stays, start included", "hours/s": hours / seconds}]


def streaming(folder: str) -> Row:
    """Measure milliseconds per hour when one patient is followed on one core."""
    if hasattr(os, "sched_setaffinity"):  # not on macOS
        os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])  # before TensorFlow starts its threads
    import ncl_tf

    model, stays = ncl_tf.load(f"{folder}/model"), np.load(f"{folder}/stays.npz")
    rows = model.rows
    milliseconds = []
    while len(milliseconds) < WARMUP + HOURS:
        for stay in np.split(stays["values"], np.cumsum(stays["lengths"])[:-1]):
            stream = model.stream(stay[0, : rows.static])
            for row in stay[:, rows.static :]:
                began = time.perf_counter()
                stream.next(row)
                milliseconds.append(1000 * (time.perf_counter() - began))
    measured = sorted(milliseconds[WARMUP : WARMUP + HOURS])
    return {
        "serve": "one more hour, on one core",
        "p50 ms": statistics.median(measured),
        "p99 ms": measured[int(0.99 * len(measured))],
    }


def stay_by_stay(folder: str) -> Row:
    """Measure hours per second through `score_stay`, one stay after the other."""
    import ncl_tf

    model, stays = ncl_tf.load(f"{folder}/model"), np.load(f"{folder}/stays.npz")
    parts = np.split(stays["values"], np.cumsum(stays["lengths"])[:-1])
    static = model.rows.static

    def score(stay: np.ndarray) -> None:
        model.call("score_stay", np.ascontiguousarray(stay[:, static:]), stay[:1, :static])["probabilities"].numpy()

    for stay in parts[:20]:
        score(stay)
    began = time.perf_counter()
    for stay in parts[:STAYS]:
        score(stay)
    seconds = time.perf_counter() - began
    return {"serve": "score_stay, a stay at a time", "hours/s": sum(map(len, parts[:STAYS])) / seconds}


def _prepare(sources: Sequence[str], folder: pathlib.Path) -> tuple[str, int]:
    """Write model/, the raw test stays as test/*.psv and some of them as stays.npz; return their name and number."""
    from benchmarks.data import prepare
    from ncl_tf.data.sources import physionet2019, raw

    name, paths, _ = prepare(sources, folder)
    cohort = Cohort(folder / "cohort.h5")
    export_untrained(folder / "model", cohort)
    chosen = set(cohort["test"].stay_names)
    (folder / "test").mkdir()
    for stay, _, read in physionet2019.find_stays([pathlib.Path(path) for path in paths]):
        if stay in chosen:
            (folder / "test" / f"{stay}.psv").write_bytes(read())
    _, parts = raw.psv_stays([folder / "test"], cohort.preprocessor.dataset)
    some = [next(parts, None) for _ in range(2)]
    stays = [part.stays for part in some if part]
    np.savez(
        folder / "stays.npz",
        values=np.concatenate([s.values for s in stays]),
        lengths=np.concatenate([s.lengths for s in stays]),
    )
    return name, len(chosen)


def export_untrained(folder: pathlib.Path, cohort: Cohort, **settings) -> None:
    """Export an untrained classifier, of the paper's size unless `settings` of the encoder change it."""
    from ncl_tf.methods.supervised import Classifier
    from ncl_tf.networks.fast.encoder import FastEncoder
    from ncl_tf.networks.heads import Head
    from ncl_tf.serving.export import export_classifier

    classifier = Classifier(FastEncoder(cohort.static_columns, **settings), Head("mlp", 2), 0, np.ones(2, np.float32))
    classifier.build((None, classifier.window_hours, len(cohort.columns)))
    evaluation = dict.fromkeys(("name", "best_epoch"), "none: untrained") | {
        "protocol": {},
        "settings": {"task": cohort.tasks[0].name, "split": "test"},
        "metrics": {},
        "intervals": {},
        "config": {},
    }
    export_classifier(folder, classifier, cohort, {"seed": 0, "budget": "none", "step": 0}, evaluation)
