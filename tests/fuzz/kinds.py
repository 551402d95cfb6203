"""What is damaged: small files of every kind, the code that reads them, and an independent reading to compare values with.

`ours` and `theirs` take the folder with the files and return what is in them as a dictionary of arrays, lists and numbers.
"""

import ast
import dataclasses
import hashlib
import json
import math
import pathlib
import shutil
from collections.abc import Callable
from typing import Any

import numpy as np

from exports import tables as yaib_tables
from fuzz import by_hand, mutations
from meds_files import write_small
from ncl_tf.data.cohort import Cohort, write_cohort
from ncl_tf.data.declaration import Channel, Dataset, Task
from ncl_tf.data.describe import describe
from ncl_tf.data.exports import check_saved, read_card, read_preprocessor
from ncl_tf.data.hdf5 import sums_path
from ncl_tf.data.raw_file import RawFile, write_raw_file
from ncl_tf.data.simulator.ward import write_ward
from ncl_tf.data.sources import archives, meds, mimic3_benchmark, physionet2019, raw, table, yaib
from ncl_tf.data.sources.meds_schema import read_meds_schema
from ncl_tf.data.splits import SPLITS
from ncl_tf.data.stays import Stays
from ncl_tf.runs import OutputFolder, StoredRun, TrainingFolder
from ncl_tf.runs.output import read_result

Values = dict[str, Any]
SCHEMA = """name = "small"
stay = "stay"
hour = "hour"
subject = "patient"
split = "part"

[[channels]]
name = "sex"
kind = "categorical"
static = true
levels = ["female", "male"]
spellings = { F = "female", W = "female" }

[[channels]]
name = "HR"
low = 10
high = 300
unit = "1/min"

[[channels]]
name = "rhythm"
kind = "categorical"
levels = [1, 2, 3]

[[tasks]]
name = "ill"

[[tasks]]
name = "left"
kind = "bins"
edges = [1, 3]
"""
CHANNELS = (
    Channel("sex", "categorical", True, levels=(0.0, 1.0), spellings={"F": 0.0, "female": 0.0, "M": 1.0}),
    Channel("HR", low=10, high=300),
)
DATASET = Dataset("small", (*CHANNELS, Channel("hour")), (Task("ill"), Task("left", "bins", (1.0, 3.0))), "hour")


@dataclasses.dataclass(frozen=True)
class Kind:
    """One kind of input.

    Attributes:
        name: as the figures show it.
        make: writes sound files into a folder.
        damaged: patterns of the files of which one or two are damaged.
        ours, theirs: read the folder.
        share_of_bytes: of the cases, how many damage bytes; the others damage the structure.
        cases: of the whole campaign.
        heavy: whether it needs TensorFlow.
    """

    name: str
    make: Callable[[pathlib.Path], Any]
    damaged: tuple[str, ...]
    ours: Callable[[pathlib.Path], Values]
    theirs: Callable[[pathlib.Path], Values]
    cases: int
    share_of_bytes: float = 0.4
    heavy: bool = False

    def damage(self, folder: pathlib.Path, random: np.random.Generator) -> None:
        """Damage a copy of the files."""
        found = sorted(path for pattern in self.damaged for path in folder.glob(pattern))
        for path in {mutations.one(random, found) for _ in range(1 + (random.random() < 0.1))}:
            mutations.damage(path, random, self.share_of_bytes)


class Archive(Kind):
    """Archives of .psv files; their name is that of the form."""

    def damage(self, folder: pathlib.Path, random: np.random.Generator) -> None:
        files = {path.name: path.read_bytes() for path in sorted(folder.glob("*.psv"))}
        data = mutations.packed(files, self.name, random)
        (folder / f"ward.{self.name}").write_bytes(mutations.of_bytes(data, random) if random.random() < 0.7 else data)


def of_stays(stays: Stays) -> Values:
    """Stays as the comparison takes them."""
    values = {"names": stays.names.tolist(), "lengths": stays.lengths, "values": stays.values, "labels": stays.labels}
    return values | ({} if stays.subjects is None else {"subjects": stays.subjects.tolist()})


def of_split(split: dict[str, np.ndarray]) -> Values:
    return {part: np.asarray(stays) for part, stays in split.items()}


def make_psv(folder: pathlib.Path) -> None:
    write_ward(30, seed=3, output=folder / "all")
    for index, path in enumerate(sorted((folder / "all").glob("*.psv"))[:2]):
        lines = path.read_bytes().splitlines(keepends=True)[:7]
        (folder / f"p00000{index + 1}.psv").write_bytes(b"".join(lines[:4] + lines[4 + index :]))  # an hour is left out
    shutil.rmtree(folder / "all")


def read_psv(folder: pathlib.Path) -> Values:
    return of_stays(physionet2019.read_stays([folder])[0])


def make_mimic3(folder: pathlib.Path) -> None:
    write_ward(30, seed=3, output=folder / "all", form="mimic3_benchmark")
    for name, count in (("train", 2), ("val", 1), ("test", 1)):
        lines = (folder / "all" / f"{name}_listfile.csv").read_text().splitlines()[: count + 1]
        (folder / f"{name}_listfile.csv").write_text("\n".join(lines) + "\n")
        part = "test" if name == "test" else "train"
        (folder / part).mkdir(exist_ok=True)
        for line in lines[1:]:
            series = (folder / "all" / part / line.split(",")[0]).read_text().splitlines(keepends=True)[:12]
            (folder / part / line.split(",")[0]).write_text("".join(series))
    shutil.rmtree(folder / "all")


def read_mimic3(folder: pathlib.Path) -> Values:
    stays, split, _ = mimic3_benchmark.read_stays(folder, carry_back=False, shift=0)
    return of_stays(stays) | of_split(split)


def rows_of_table() -> list[dict[str, str]]:
    """Five stays of three to five hours, as a CSV has them."""
    random, rows = np.random.default_rng(1), []
    for stay in range(5):
        for hour in range(int(random.integers(3, 6))):
            row = {
                "stay": str(10 + stay),
                "hour": str(hour),
                "patient": f"P{stay // 2}",
                "part": ("train", "val", "test")[stay // 2],
            }
            row |= {
                "sex": ("female", "M", "F")[0 if stay % 2 else 2],
                "HR": f"{random.normal(80, 9):.1f}",
                "rhythm": str(1 + stay % 3),
            }
            rows.append(
                row
                | {"ill": str(int(hour == 3)), "left": "" if hour == 1 else str(5 - hour), "note": 'a "quoted", text'}
            )
    return rows


def make_csv(folder: pathlib.Path) -> None:
    by_hand.write_csv(folder / "table.csv", rows_of_table())
    (folder / "schema.toml").write_text(SCHEMA)


def make_parquet(folder: pathlib.Path) -> None:
    by_hand.write_parquet(folder / "table.parquet", rows_of_table())
    (folder / "schema.toml").write_text(SCHEMA)


def read_user_table(suffix: str) -> Callable[[pathlib.Path], Values]:
    def read(folder: pathlib.Path) -> Values:
        dataset, schema = table.read_schema(folder / "schema.toml")
        stays, split = table.read_stays([folder / f"table{suffix}"], dataset, schema, seed=0)
        return of_stays(stays) | (of_split(split) if "split" in schema else {})

    return read


def read_schema(folder: pathlib.Path) -> Values:
    dataset, schema = table.read_schema(folder / "schema.toml")
    channels = {
        channel.name: [channel.kind, channel.static, channel.low, channel.high, channel.unit, len(channel.levels)]
        for channel in dataset.channels
    }
    tasks = {task.name: [task.kind, list(task.edges)] for task in dataset.tasks}
    return {"keys": {key: schema[key] for key in ("name", "stay", "hour")}, "channels": channels, "tasks": tasks}


def read_for_model(folder: pathlib.Path) -> Values:
    """Read a table as bin/predict does."""
    count, parts = raw.read_raw([folder / "table.csv"], dataclasses.replace(DATASET, hour=None), "stay", "hour")
    part = next(parts)
    assert count == len(part.stays.names)
    return {"names": part.stays.names.tolist(), "lengths": part.stays.lengths, "values": part.stays.values}


def make_yaib(folder: pathlib.Path) -> None:
    for name, content in yaib_tables("sepsis", stays=3).items():
        by_hand.write_arrow(folder / f"{name}.parquet", content)


def read_yaib(folder: pathlib.Path) -> Values:
    dataset = yaib.declare(folder, yaib.TASKS["sepsis"])
    found = of_stays(yaib.read_stays(folder, dataset))
    values = found.pop("values").T
    return found | {
        "by_channel": {channel.name: column for channel, column in zip(dataset.channels, values, strict=True)}
    }


def read_meds(folder: pathlib.Path) -> Values:
    schema = read_meds_schema(folder / "schema.toml")
    found = meds.read_meds(folder, schema, folder / "task_labels")
    chosen = [channel.name for channel in schema.dataset.channels].index("HR")
    of_stay = of_stays(found.stays)
    return {name: of_stay[name] for name in ("names", "lengths", "subjects", "labels")} | {
        "rates": of_stay["values"][:, chosen]
    }


def read_archive(form: str) -> Callable[[pathlib.Path], Values]:
    return lambda folder: {name: read() for name, read in archives.open_source(folder / f"ward.{form}", ".psv")}


def make_cohort(folder: pathlib.Path) -> None:
    random, hours = np.random.default_rng(0), 3 * 4
    values = np.column_stack([random.integers(0, 2, hours), random.normal(80, 9, hours), np.arange(hours) % 4]).astype(
        "f4"
    )
    labels = np.column_stack([random.integers(0, 2, hours), random.uniform(0, 5, hours)]).astype("f4")
    stays = Stays(np.array(["a", "b", "c"]), np.array([4, 4, 4]), values, labels, subjects=np.array(["p", "q", "r"]))
    stays.label_times = np.arange(hours * 2).reshape(hours, 2)
    split = {name: np.array([index]) for index, name in enumerate(SPLITS)}
    write_cohort(folder / "ward.h5", DATASET, stays, split, "")
    write_raw_file(folder / "ward.h5", DATASET, stays, split)


def make_cohort_without_sums(folder: pathlib.Path) -> None:
    make_cohort(folder)
    sums_path(folder / "ward.h5").unlink()
    sums_path(folder / "ward.raw.h5").unlink()


def read_cohort(folder: pathlib.Path) -> Values:
    cohort = Cohort(folder / "ward.h5")
    describe(folder / "ward.h5")
    values: Values = {"columns": cohort.columns, "tasks": [task.name for task in cohort.tasks]}
    for name in SPLITS:
        split = cohort[name]
        values |= {
            f"data/{name}": split.data,
            f"labels/{name}": split.labels,
            f"stay_names/{name}": split.stay_names.tolist(),
        }
        values[f"patient_windows/{name}"] = split.patient_windows[:, :2]
    return values


def read_raw_file(folder: pathlib.Path) -> Values:
    found = RawFile(Cohort(folder / "ward.h5"))
    return {f"raw/{name}": found[name].values for name in SPLITS}


OLD_RUN = pathlib.Path(__file__).parents[1] / "old_run"


def make_run(folder: pathlib.Path) -> None:
    shutil.copytree(OLD_RUN / "run", folder / "run", ignore=shutil.ignore_patterns("checkpoints"))
    record = json.loads((folder / "run/run.json").read_text())
    (folder / "run/run.json").write_text(json.dumps(record | {"status": "finished"}))


def read_run(folder: pathlib.Path) -> Values:
    run = StoredRun(folder / "run")
    run.require_finished()
    return {"record": run.record, "reports": run.reports, "steps": run.total_steps, "config": run.config.get("alpha"),
            "text": len(run.configuration) > 0}  # fmt: skip


class Variable:
    """A variable of a checkpoint, as Keras has them."""

    def __init__(self, path: str, value: np.ndarray) -> None:
        self.path, self.shape, self.value = path, value.shape, value

    def numpy(self) -> np.ndarray:
        return self.value

    def assign(self, value: np.ndarray) -> None:
        self.value = value.astype(self.value.dtype).reshape(self.shape)


class Part:
    """Something that checkpoints hold."""

    def __init__(self, seed: int) -> None:
        random = np.random.default_rng(seed)
        self.variables = [Variable(f"model/{name}", random.normal(size=(3, 4)).astype("f4")) for name in "abc"]


def make_checkpoints(folder: pathlib.Path) -> None:
    run = TrainingFolder(folder)
    for step in (10, 20):
        run.checkpoint(step, Part(step))


def read_checkpoint(folder: pathlib.Path) -> Values:
    run, part = TrainingFolder(folder), Part(0)
    step = run.restore(part)
    return {"step": step, **{variable.path: variable.numpy() for variable in part.variables}}


def make_results(folder: pathlib.Path) -> None:
    (folder / "results").mkdir()
    source = sorted((pathlib.Path(__file__).parents[2] / "results/physionet2019_laptop").rglob("*-mlp*.json"))[0]
    shutil.copy(source, folder / "results/result.json")
    facts = {"cohort_checksum": "0", "budget": "laptop", "gin_files": [], "gin_params": []}
    OutputFolder(folder).write_plan(facts, "physionet2019", {"methods": ["cl"], "heads": ["mlp"], "seeds": [1]})


def read_results(folder: pathlib.Path) -> Values:
    result = read_result(folder / "results/result.json")
    return {"metrics": result["metrics"], "intervals": result["intervals"], "plan": OutputFolder(folder).plan["tables"]}


GIN = """# a training
include 'paper/physionet2019/ncl_w.gin'
include 'budgets/smoke.gin'

cohort = 'ward.h5'
alpha = 0.25
window = 12
seed = 3
filters = (
    16)
dilations = (1, 2,
    4, 8)
"""
SET_HERE = ("cohort", "alpha", "window", "seed", "filters", "dilations")


def make_gin(folder: pathlib.Path) -> None:
    (folder / "mine.gin").write_text(GIN)


def read_gin(folder: pathlib.Path) -> Values:
    from ncl_tf.runs import bindings
    from ncl_tf.training import config, trainer  # noqa: F401 - they import TensorFlow, and configurations name `train`

    config.configure([str(folder / "mine.gin")], [])
    found = bindings(config.gin.config_str())
    return {name: ast.literal_eval(found[name]) for name in SET_HERE if found.get(name, "@")[0] not in "@%"}


def make_export(folder: pathlib.Path) -> None:
    make_cohort_without_sums(folder)
    preprocessor = Cohort(folder / "ward.h5").preprocessor.to_json()
    (folder / "1/variables").mkdir(parents=True)
    for name in ("saved_model.pb", "variables/variables.index"):
        (folder / "1" / name).write_bytes(np.random.default_rng(0).bytes(300))
    sums = {
        name: hashlib.sha256((folder / "1" / name).read_bytes()).hexdigest()
        for name in ("saved_model.pb", "variables/variables.index")
    }
    card = {
        "format_version": "1.1",
        "kind": "encoder",
        "signatures": ["embed"],
        "task": None,
        "evaluation": None,
        "files": sums,
    }
    card |= {
        "inputs": {"windows": {"hours": 48, "columns": ["a"]}},
        "preprocessor": preprocessor,
        "data": {"dataset": "small"},
    }
    (folder / "model.json").write_text(json.dumps(card))


def read_export(folder: pathlib.Path) -> Values:
    card = read_card(folder)
    prepared = read_preprocessor(folder, card)
    check_saved(folder, card)
    files = {name: (folder / "1" / name).read_bytes() for name in card.get("files", {})}
    return {
        "hours": card["inputs"]["windows"]["hours"],
        "mean": None if prepared is None else prepared.mean,
        "files": files,
    }


def _kinds() -> list[Kind]:
    return [
        Kind("psv", make_psv, ("*.psv",), read_psv, by_hand.psv, 8000),
        Kind("listfiles and series", make_mimic3, ("*/*.csv", "*.csv"), read_mimic3, by_hand.mimic3, 8000),
        Kind("csv", make_csv, ("table.csv",), read_user_table(".csv"), by_hand.user_table, 8000),
        Kind("csv for a model", make_csv, ("table.csv",), read_for_model, by_hand.for_model, 2000),
        Kind("parquet", make_parquet, ("table.parquet",), read_user_table(".parquet"), by_hand.user_table, 6000),
        Kind("yaib", make_yaib, ("*.parquet",), read_yaib, by_hand.yaib, 4000),
        Kind("schema", make_csv, ("schema.toml",), read_schema, by_hand.schema, 5000, 0.3),
        Kind("meds", write_small, ("data/**/*.parquet", "metadata/*", "task_labels/**/*.parquet"), read_meds, by_hand.meds, 3000),
        *(Archive(form, make_psv, (), read_archive(form), by_hand.archive(form), 2000) for form in ("zip", "tar", "tar.gz")),
        Kind("hdf5", make_cohort, ("ward.h5", "ward.h5.sums"), read_cohort, by_hand.cohort, 3000),
        Kind("hdf5 without checksum", make_cohort_without_sums, ("ward.h5",), read_cohort, by_hand.cohort, 400, 0.6),
        Kind("raw rows", make_cohort, ("ward.raw.h5",), read_raw_file, by_hand.raw_rows, 1000),
        Kind("raw rows without checksum", make_cohort_without_sums, ("ward.raw.h5",), read_raw_file, by_hand.raw_rows, 150),
        Kind("npz", make_checkpoints, ("checkpoints/*20.npz",), read_checkpoint, by_hand.checkpoint, 4000),
        Kind("run", make_run, ("run/*",), read_run, by_hand.run, 4000, 0.3),
        Kind("gin", make_gin, ("*.gin",), read_gin, by_hand.gin_file, 1500, 0.3, heavy=True),
        Kind("export", make_export, ("model.json", "1/*.pb", "1/*/*"), read_export, by_hand.export, 2000, heavy=True),
        Kind("results", make_results, ("*.json", "results/*"), read_results, by_hand.results, 3000, 0.3),
    ]  # fmt: skip


KINDS = {kind.name: kind for kind in _kinds()}


def same(one: Any, other: Any) -> bool:
    """Whether two readings hold the same; NaN equals NaN, and numbers may differ as far as the last bit of float32."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        one, other = np.asarray(one), np.asarray(other)
        if one.shape != other.shape:
            return False
        if one.dtype.kind not in "fiub":
            return one.tolist() == other.tolist()
        with np.errstate(all="ignore"):
            close = np.abs(one.astype(float) - other) <= np.spacing(np.abs(other).astype("f4"))
        return bool((close | (one == other) | (np.isnan(one) & np.isnan(other))).all())
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one):
        return math.isnan(other)
    return one == other
