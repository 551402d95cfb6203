"""Cohorts of YAIB: their counts and values are those of the files, read by pandas; what is refused, and with which words."""

import pathlib

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

from exports import CONCEPTS, hours, tables, write_export
from ncl_tf.data.cohort import Cohort
from ncl_tf.data.concepts import DYNAMIC
from ncl_tf.data.raw_file import RawFile
from ncl_tf.data.sources import yaib
from ncl_tf.data.splits import SPLITS
from refusals import refused

NAN = np.nan


def read(folder: pathlib.Path, task: str | None = None, **options):
    dataset = yaib.declare(folder, yaib.find_task([folder], task))
    return dataset, yaib.read_stays(folder, dataset, **options)


@pytest.mark.parametrize("unit", ["s", "ns"])
def test_a_small_cohort_by_hand(tmp_path, unit):
    """Rows in any order, a gap of an hour, a static value that is missing, a label that is, concepts in another order."""
    dyn = {
        "stay_id": [7, 7, 3, 3],
        "time": hours([2, 0, 1, 0], unit),
        "map": [70.0, NAN, NAN, 60],
        "hr": [90.0, 80, 101, 100],
    }
    sta = {"stay_id": [3, 7], "age": [50.0, 60], "sex": ["Female", None], "height": [170.0, NAN], "weight": [NAN, 80.5]}
    outc = {"stay_id": [3, 3, 7, 7], "time": hours([1, 0, 0, 2], unit), "label": [True, False, None, False]}
    folder = write_export(
        tmp_path / "aki" / "own", {n: pa.table(t) for n, t in (("dyn", dyn), ("sta", sta), ("outc", outc))}
    )
    dataset, stays = read(folder)
    assert [channel.name for channel in dataset.channels] == ["age", "sex", "height", "weight", "time", "hr", "map"]
    assert dataset.tasks[0].name == "aki"
    assert stays.names.tolist() == ["3", "7"]
    expected = [
        [50, 0, 170, NAN, 0, 100, 60],
        [50, 0, 170, NAN, 1, 101, NAN],
        [60, NAN, NAN, 80.5, 0, 80, NAN],
        [60, NAN, NAN, 80.5, 1, NAN, NAN],
        [60, NAN, NAN, 80.5, 2, 90, 70],
    ]
    np.testing.assert_array_equal(stays.values, np.float32(expected))
    np.testing.assert_array_equal(stays.labels[:, 0], [0, 1, NAN, NAN, 0])


def test_one_label_per_stay_belongs_to_its_last_hour(tmp_path):
    folder = write_export(tmp_path / "mortality24" / "own", tables("mortality24"))
    _, stays = read(folder)
    last = np.cumsum(stays.lengths) - 1
    assert stays.labels[last, 0].tolist() == [float(index % 5 == 0) for index in range(40)]
    assert np.isnan(np.delete(stays.labels[:, 0], last)).all()


def test_length_of_stay_has_bins_of_a_day_and_the_last_is_open(tmp_path):
    dataset, stays = read(write_export(tmp_path / "los" / "own", tables("los")))
    classes = dataset.tasks[0].classify(stays.labels[:, 0])
    np.testing.assert_array_equal(classes, np.minimum(stays.labels[:, 0] // 24, 7))
    assert classes[stays.labels[:, 0] == 168].min() == 7
    with refused("outc.parquet, column label: labels of los must be hours, got booleans"):
        read(write_export(tmp_path / "sepsis" / "own", tables("sepsis")), "los")


def test_other_concepts_are_read_without_range_and_named(run, tmp_path):
    parts = tables("aki")
    parts["dyn"] = parts["dyn"].append_column("pulse", pa.array(np.full(len(parts["dyn"]), 1e6)))
    parts["sta"] = parts["sta"].append_column("charlson", pa.array(np.arange(40)))
    folder = write_export(tmp_path / "own", parts)
    output = tmp_path / "own.h5"
    result = run("bin/prepare", "yaib", "--task=aki", f"--source={folder}", f"--output={output}")
    assert result.returncode == 0, result.stderr
    assert "concepts without a plausible range: charlson, pulse" in result.stdout
    assert Cohort(output).channel_statistics["pulse"]["max"] == 1e6
    ranges = {
        channel.name: (channel.low, channel.high, channel.unit)
        for channel in Cohort(output).preprocessor.dataset.channels
    }
    assert ranges["hr"] == (0, 300, "beats/min") and ranges["pulse"] == (None, None, "")


def test_several_sources_are_one_cohort_and_one_may_be_for_testing(run, tmp_path):
    """The two have the same numbers of stays and of patients, who are others; 80 / 20 % of one, and all of the other."""
    for source, seed in (("one", 1), ("other", 2)):
        write_export(tmp_path / "aki" / source, tables("aki", stays=60, seed=seed))
        patients = [f"{stay},{stay // 2}" for stay in range(100, 160)]
        (tmp_path / f"{source}.csv").write_text("\n".join(["STAY_ID,SUBJECT_ID", *patients, ""]))
    tables_of_patients = [f"--subjects={tmp_path / name}.csv" for name in ("one", "other")]
    one, other = (f"source={tmp_path / 'aki' / source}" for source in ("one", "other"))
    for name, sources in (("both", ["--" + one, "--" + other]), ("apart", ["--" + one, "--test_" + other])):
        result = run(
            "bin/prepare", "yaib", *sources, *tables_of_patients, f"--output={tmp_path / name}.h5", "--keep_raw"
        )
        assert result.returncode == 0, result.stderr
    both, apart = Cohort(tmp_path / "both.h5"), Cohort(tmp_path / "apart.h5")
    names = [f"{source}_{stay}" for source in ("one", "other") for stay in range(100, 160)]
    assert sorted(name for split in SPLITS for name in both[split].stay_names) == sorted(names)
    assert len({subject for split in SPLITS for subject in both[split].subjects}) == 60
    assert apart["test"].stay_names.tolist() == names[60:]
    assert [len(apart[split].stay_names) for split in ("train", "val")] == [48, 12]
    assert not set(apart["train"].subjects) & set(apart["val"].subjects)
    # Scaled by the training stays alone, each prepared value is (raw - mean) / std of them.
    raw = RawFile(apart)
    position = [channel.name for channel in raw.dataset.channels].index("hr")
    series = {split: pd.Series(raw[split].values[:, position]) for split in ("train", "test")}
    stay = {split: np.repeat(np.arange(len(raw[split].lengths)), raw[split].lengths) for split in series}
    filled = {split: values.groupby(stay[split]).ffill() for split, values in series.items()}
    expected = ((filled["test"] - filled["train"].mean()) / filled["train"].std(ddof=0)).fillna(0)
    np.testing.assert_allclose(apart["test"].data[:, position], expected, rtol=1e-4, atol=1e-5)


def changed(part: str, column: str, values, kind=None):
    """The change of a column, made from its values."""

    def change(parts: dict[str, pa.Table]) -> None:
        index = parts[part].column_names.index(column)
        parts[part] = parts[part].set_column(index, column, pa.array(values(parts[part][column].to_pylist()), kind))

    return change


def first(value):
    return lambda values: [value, *values[1:]]


@pytest.mark.parametrize(
    ("task", "change", "named"),
    [
        *(("aki", lambda parts, name=name: parts.pop(name), f"own & a folder with dyn.parquet, & without {name}.parquet")
          for name in ("dyn", "sta", "outc")),
        ("aki", lambda parts: parts.update(outc=parts["outc"].slice(20)), "outc.parquet & 1 only in dyn.parquet, such as 100"),
        ("aki", changed("outc", "stay_id", first(7)), "outc.parquet & 1 only in outc.parquet, such as 7"),
        ("aki", lambda parts: parts.update(sta=parts["sta"].slice(1)), "sta.parquet & 1 only in dyn.parquet, such as 100"),
        ("aki", changed("sta", "stay_id", first(101)), "sta.parquet & only in dyn.parquet, such as 100"),
        ("aki", lambda parts: parts.update(sta=pa.concat_tables([parts["sta"], parts["sta"].slice(3, 1)])),
         "sta.parquet, row 40: stay 103 must occur once & row 3"),
        ("aki", lambda parts: parts.update(dyn=pa.concat_tables([parts["dyn"], parts["dyn"].slice(0, 1)])),
         "stay 100, hour 0 must occur once"),
        ("aki", lambda parts: parts.update(outc=pa.concat_tables([parts["outc"], parts["outc"].slice(0, 1)])),
         "outc.parquet & stay 100, hour 0 must occur once"),
        ("mortality24", lambda parts: parts.update(outc=pa.concat_tables([parts["outc"], parts["outc"].slice(0, 1)])),
         "outc.parquet, row 40: stay 100 must occur once & row 0"),
        ("aki", lambda parts: parts.update(dyn=parts["dyn"].set_column(1, "time", hours([0.5] * len(parts["dyn"])))),
         "dyn.parquet, row 0, column time & a whole hour & 0.5"),
        ("aki", lambda parts: parts.update(outc=parts["outc"].set_column(1, "time", hours([99] * len(parts["outc"])))),
         "outc.parquet & hour 99 of stay 100 & dyn.parquet, 0 to"),
        ("aki", changed("outc", "label", lambda values: [2, *map(int, values[1:])]),
         "outc.parquet, row 0, column label & aki & 0 or 1 & got 2"),
        ("mortality24", changed("outc", "label", first(-1)), "row 0, column label & mortality24 & 0 or 1 & got -1"),
        ("los", changed("outc", "label", first(-1.0)), "row 0, column label & los & hours, 0 or more & got -1"),
        ("los", changed("outc", "label", lambda values: ["soon", *map(str, values[1:])]), "row 0, column label & 'soon'"),
        ("aki", changed("sta", "sex", first("Other")), "sta.parquet, row 0, column sex & one of 'Female', 'Male' & 'Other'"),
        ("aki", changed("sta", "sex", lambda values: [1.0] * len(values)), "sta.parquet, row 0, column sex & '1'"),
        ("aki", changed("dyn", "hr", lambda values: ["1,080"] * len(values)), "dyn.parquet, row 0, column hr & '1,080'"),
        ("aki", lambda parts: parts.update(outc=parts["outc"].drop_columns("time")), "outc.parquet & 'time' & aki are hourly"),
        ("aki", lambda parts: parts.update(outc=parts["outc"].drop_columns("label")), "outc.parquet & one column 'label'"),
        ("aki", lambda parts: parts.update(sta=parts["sta"].drop_columns("stay_id")), "sta.parquet & one column 'stay_id'"),
        ("aki", lambda parts: parts.update(dyn=parts["dyn"].slice(0, 0)), "dyn.parquet: no rows"),
    ],
)  # fmt: skip
def test_bad_exports(tmp_path, task, change, named):
    parts = tables(task)
    change(parts)
    with refused(named):
        read(write_export(tmp_path / "own", parts), task)


@pytest.mark.parametrize(
    ("folders", "task", "named"),
    [
        (
            ["kidney_function/eicu"],
            None,
            "one of sepsis, aki, mortality24, los & 'kidney_function' & a number & classes",
        ),
        (["aki/eicu"], "kidney_function", "'kidney_function'"),
        (["data/eicu"], None, "'data' & --task"),
        (["aki/eicu", "sepsis/eicu"], None, "'aki' and 'sepsis' & --task"),
    ],
)
def test_tasks_that_are_refused(tmp_path, folders, task, named):
    with refused(named):
        yaib.find_task([tmp_path / folder for folder in folders], task)


def test_sources_with_other_concepts(tmp_path):
    one, other = tables("aki"), tables("aki")
    other["dyn"] = other["dyn"].rename_columns(["stay_id", "time", "pulse", *CONCEPTS[1:]])
    dataset, _ = read(write_export(tmp_path / "one", one), "aki")
    with refused("other & same concepts & hr, pulse"):
        yaib.read_stays(write_export(tmp_path / "other", other), dataset)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (
            "stay,patient\n1,2\n",
            "patients.csv & stay_id and subject_id & patientunitstayid and uniquepid & got stay, patient",
        ),
        ("stay_id,subject_id\n100,1\n", "patients.csv & none for stay 101"),
        ("stay_id,subject_id\n100,1\n100,2\n", "line 3, column subject_id & '2' & stay 100 has '1'"),
    ],
)
def test_patients_that_are_not_known(tmp_path, text, named):
    (tmp_path / "patients.csv").write_text(text)
    with refused(named):
        read(write_export(tmp_path / "own", tables("aki")), "aki", patients=tmp_path / "patients.csv")


def test_refusals_leave_no_file(run, tmp_path):
    """As users see them: one positive stay, and a task that is none of ours."""
    parts = tables("aki")
    changed("outc", "label", lambda values: [index == 5 for index in range(len(values))])(parts)
    folder, output = write_export(tmp_path / "aki" / "own", parts), tmp_path / "out" / "own.h5"
    for flags, named in [
        ([], "got 40 stays, 1 of them ever positive"),
        (["--task=kidney_function"], "kidney_function"),
        (
            [f"--subjects={tmp_path}", f"--subjects={tmp_path}"],
            "--subjects must name a table for each of the 1 sources, got 2",
        ),
        ([f"--source={folder}"], "sources must differ"),
    ]:
        result = run("bin/prepare", "yaib", f"--source={folder}", f"--output={output}", *flags)
        assert (result.returncode, result.stdout) == (1, "")
        assert named in result.stderr.splitlines()[-1]
        assert not list(output.parent.iterdir())


def pandas_counts(folder: pathlib.Path) -> dict[str, float]:
    """Count a folder's stays, hours and labels, without any of our code."""
    dyn, outc = (pd.read_parquet(folder / f"{name}.parquet") for name in ("dyn", "outc"))
    label = outc["label"].astype(float)
    return {
        "stays": dyn["stay_id"].nunique(),
        "hours": int((dyn.groupby("stay_id")["time"].max() / pd.Timedelta(hours=1) + 1).sum()),
        "labelled": int(label.notna().sum()),
        "sum": label.sum(),
        "positive stays": int(outc.loc[label == 1, "stay_id"].nunique()),
        "measured": {name: int(dyn[name].notna().sum()) for name in dyn.columns if name not in ("stay_id", "time")},
    }


@pytest.mark.parametrize(
    "source", ["sepsis/eicu_demo", "aki/eicu_demo", "los/eicu_demo", "mortality24/eicu_demo", "aki/mimic_demo"]
)
def test_counts_of_the_demos(yaib_demo, source, tmp_path, run):
    """Those that README of the data states for two of them, too; and ranges that keep 99 of 100 measurements."""
    result = run(
        "bin/prepare", "yaib", f"--source={yaib_demo / source}", f"--output={tmp_path / 'demo.h5'}", "--keep_raw"
    )
    assert result.returncode == 0, result.stderr
    cohort, expected = Cohort(tmp_path / "demo.h5"), pandas_counts(yaib_demo / source)
    splits, raw = [cohort[split] for split in SPLITS], RawFile(cohort)
    labels = np.concatenate([split.labels[:, 0] for split in splits])
    values = np.concatenate([raw[split].values for split in SPLITS])
    names = [channel.name for channel in raw.dataset.channels]
    positive = sum(np.maximum.reduceat(split.labels[:, 0] == 1, split.patient_windows[:, 0]).sum() for split in splits)
    found = {
        "stays": sum(len(split.stay_names) for split in splits),
        "hours": sum(len(split.data) for split in splits),
        "labelled": int((~np.isnan(labels)).sum()),
        "sum": np.nansum(labels, dtype=np.float64),
        "positive stays": positive,
        "measured": {name: int((~np.isnan(values[:, names.index(name)])).sum()) for name in expected["measured"]},
    }
    assert found == expected
    stated = {"sepsis/eicu_demo": (896, 42524, 63), "aki/eicu_demo": (1988, 78205, None)}
    if source in stated:
        assert (found["stays"], found["hours"]) == stated[source][:2]
    if source == "sepsis/eicu_demo":
        assert (found["positive stays"], found["sum"]) == (63, 806)
    dyn = pd.read_parquet(yaib_demo / source / "dyn.parquet")
    for channel in DYNAMIC:
        if (measured := dyn[channel.name].dropna()).empty:
            continue
        low, high = measured.quantile([0.01, 0.99])
        # The eICU demo has three values of C-reactive protein above 1,000 mg/L among some forty.
        assert channel.low <= low and (high <= channel.high or channel.name == "crp"), channel
        assert channel.low <= measured.median() <= channel.high


def test_the_single_septic_stay_of_the_mimic_demo(yaib_demo, tmp_path, run):
    result = run(
        "bin/prepare", "yaib", f"--source={yaib_demo / 'sepsis/mimic_demo'}", f"--output={tmp_path / 'demo.h5'}"
    )
    assert result.returncode == 1
    assert "got 115 stays, 1 of them ever positive" in result.stderr
    assert not list(tmp_path.iterdir())


def test_patients_of_the_mimic_demo(yaib_demo, mimic3_demo, tmp_path, run):
    """The demo's table of ICU stays names them; pandas counts as many."""
    stays = pd.read_csv(mimic3_demo.parent / "raw" / "ICUSTAYS.csv.gz")
    stays.columns = stays.columns.str.lower()
    stays.to_csv(tmp_path / "icustays.csv", index=False)
    flags = [f"--source={yaib_demo / 'aki/mimic_demo'}", f"--subjects={tmp_path / 'icustays.csv'}"]
    result = run("bin/prepare", "yaib", *flags, f"--output={tmp_path / 'demo.h5'}")
    assert result.returncode == 0, result.stderr
    own = pd.read_parquet(yaib_demo / "aki/mimic_demo" / "sta.parquet")["stay_id"]
    patients = stays.set_index("icustay_id").loc[own, "subject_id"]
    cohort = Cohort(tmp_path / "demo.h5")
    parts = [set(map(int, cohort[split].subjects)) for split in SPLITS]
    assert set.union(*parts) == set(patients)
    assert sum(map(len, parts)) == patients.nunique() < len(own)
