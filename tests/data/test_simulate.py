"""The simulated ward: reproducible, well-formed, and telling through change and through what is measured when."""

import pathlib
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from ncl_tf.data.datasets import MIMIC3_BENCHMARK, PHYSIONET2019
from ncl_tf.data.simulator.folder import MARKER
from ncl_tf.data.simulator.ward import write_ward
from ncl_tf.data.splits import SPLITS
from processes import ROOT
from psv import COLUMNS, DYNAMIC, HEADER
from refusals import refused
from trainings import contents


@pytest.fixture(scope="module")
def ward(tmp_path_factory) -> tuple[pd.DataFrame, dict]:
    """1000 stays as one table with a column `stay`, and the summary."""
    folder = tmp_path_factory.mktemp("ward") / "psv"
    summary = write_ward(1000, 7, folder)
    frames = [pd.read_csv(path, sep="|").assign(stay=path.stem) for path in sorted(folder.glob("*.psv"))]
    return pd.concat(frames, ignore_index=True), summary


@pytest.fixture(scope="module")
def benchmark(tmp_path_factory) -> tuple[pathlib.Path, pd.DataFrame, dict]:
    """300 stays of the other form: folder, the three list files as one table with a column `split`, and the summary."""
    folder = tmp_path_factory.mktemp("ward") / "multitask"
    summary = write_ward(300, 7, folder, "mimic3_benchmark")
    lists = [pd.read_csv(folder / f"{name}_listfile.csv", dtype=str).assign(split=name) for name in SPLITS]
    return folder, pd.concat(lists, ignore_index=True), summary


@pytest.fixture(scope="module")
def series(benchmark) -> list[tuple[pd.Series, pd.DataFrame]]:
    """Each line of the lists with its file."""
    folder, lists, _ = benchmark
    paths = [folder / ("test" if stay.split == "test" else "train") / stay.filename for stay in lists.itertuples()]
    read = (pd.read_csv(path, keep_default_na=False, na_values=[""]) for path in paths)
    return [(stay, table) for (_, stay), table in zip(lists.iterrows(), read, strict=True)]


def masks_and_labels(text: str) -> tuple[np.ndarray, np.ndarray]:
    cells = np.array(text.split(";"), float)
    assert len(cells) % 2 == 0
    return cells[: len(cells) // 2], cells[len(cells) // 2 :]


@pytest.mark.parametrize("form", ["physionet2019", "mimic3_benchmark"])
def test_same_seed_same_bytes_and_fewer_stays_are_the_first_of_more(tmp_path, form):
    steps = []
    wards = {"a": (260, 3), "b": (260, 3), "fewer": (255, 3), "other": (260, 4)}
    for name, (count, seed) in wards.items():
        write_ward(count, seed, tmp_path / name, form, progress=steps.append)
    assert len(steps) > 4
    assert sum(steps) == 260 + 260 + 255 + 260
    first, second, fewer, other = (contents(tmp_path / name) for name in wards)
    assert first == second
    stays = {name for name in first if name.endswith((".psv", "_timeseries.csv"))}
    assert len(stays) == 260
    assert all(first[name] != other[name] for name in stays)
    kept = stays & set(fewer)
    assert len(kept) == 255
    assert all(first[name] == fewer[name] for name in kept)
    for name in set(first) - stays - {MARKER}:  # the list files
        assert first[name].startswith(fewer[name])


def test_bad_arguments_are_refused(tmp_path):
    for arguments, named in [
        ((0, 1), "stays & 1 to 999999 & got 0"),
        ((1, -1), "seed & 0 or more & got -1"),
        ((1, 1, "eicu"), "physionet2019, mimic3_benchmark & got 'eicu'"),
    ]:
        stays, seed, *form = arguments
        with refused(named):
            write_ward(stays, seed, tmp_path / "w", *form)


def test_psv_files_have_the_challenge_form(tmp_path):
    write_ward(5, 1, tmp_path / "w")
    names = [path.name for path in sorted((tmp_path / "w").glob("*.psv"))]
    assert names == [f"p00000{number}.psv" for number in range(1, 6)]
    for name in names:
        header, *rows, last = (tmp_path / "w" / name).read_text().split("\n")
        assert (header, last) == (HEADER, "")
        for row in rows:
            cells = row.split("|")
            assert len(cells) == 41
            assert all(cell == "NaN" or np.isfinite(float(cell)) for cell in cells)
            assert {"nan", "-0"}.isdisjoint(cells)


def test_hours_labels_and_ranges(ward):
    table, summary = ward
    starts = table.groupby("stay").ICULOS.min()
    assert 0.2 < (starts > 1).mean() < 0.6
    for _, stay in table.groupby("stay"):
        np.testing.assert_array_equal(np.diff(stay.ICULOS), 1)
        assert np.all(np.diff(stay.SepsisLabel) >= 0)  # once 1 stays 1
        assert stay[["Age", "Gender", "HospAdmTime"]].nunique().eq(1).all()
    positive = table[table.SepsisLabel == 1].groupby("stay").size()
    assert positive.between(6, 10).all()  # six hours before the onset until shortly after it
    assert 0.10 < len(positive) / 1000 < 0.12
    assert 0.015 < table.SepsisLabel.mean() < 0.03
    expected = {"stays": 1000, "hours": len(table), "positive_stays": len(positive), "positive_hours": positive.sum()}
    assert {key: summary[key] for key in expected} == expected
    for channel in PHYSIONET2019.channels:
        if channel.low is not None:
            assert table[channel.name].dropna().between(channel.low, channel.high).all(), channel.name


def test_even_a_small_ward_has_septic_stays(tmp_path):
    for seed in range(5):
        assert write_ward(27, seed, tmp_path / str(seed))["positive_stays"] == 3


def test_channels_are_measured_as_often_as_in_the_challenge(ward):
    """Shares of hours with a value in training set A, rounded."""
    measured = ward[0][DYNAMIC].notna()
    shares = {"HR": 0.92, "O2Sat": 0.88, "Temp": 0.34, "DBP": 0.52, "pH": 0.11, "BUN": 0.08, "AST": 0.015}
    for channel, share in shares.items():
        assert 0.8 * share < measured[channel].mean() < 1.25 * share, channel
    assert measured.BUN.corr(measured.Chloride) > 0.9  # one panel
    assert measured.BUN.corr(measured.PTT) < 0.5  # two


def test_channels_agree_with_one_another(ward):
    table = ward[0]
    pressures = table[["SBP", "DBP", "MAP"]].dropna()
    assert (pressures.MAP - (pressures.SBP + 2 * pressures.DBP) / 3).abs().quantile(0.99) <= 1.5  # whole numbers
    gas = table[["pH", "HCO3", "PaCO2"]].dropna()
    assert len(gas) > 100
    henderson_hasselbalch = 6.1 + np.log10(gas.HCO3 / (0.0307 * gas.PaCO2))
    assert (gas.pH - henderson_hasselbalch).abs().quantile(0.95) < 0.03
    assert table.Hct.corr(table.Hgb) > 0.95
    assert np.log(table.Creatinine).corr(np.log(table.BUN)) > 0.5


@pytest.mark.parametrize("vital", ["HR", "MAP", "Resp", "Temp"])
def test_patients_differ_more_than_they_change(ward, vital):
    stays = ward[0].groupby("stay")[vital]
    assert stays.mean().var() > 1.2 * stays.var().mean()


def held_out_auroc(features: np.ndarray, label: np.ndarray, train: np.ndarray) -> float:
    """AUROC on the other half of a logistic regression on standardised features, missing ones zero."""
    scaled = np.nan_to_num((features - np.nanmean(features[train], axis=0)) / np.nanstd(features[train], axis=0))
    model = LogisticRegression(C=0.1, max_iter=500).fit(scaled[train], label[train])
    return roc_auc_score(label[~train], model.predict_proba(scaled[~train])[:, 1])


def test_change_is_more_informative_than_the_last_hour(ward):
    table = ward[0]
    label = table.SepsisLabel.to_numpy()
    filled = table.groupby("stay")[DYNAMIC].ffill()
    usual = filled.groupby(table.stay).rolling(48, min_periods=1).mean().droplevel(0)
    last_hour = np.hstack([filled, table[COLUMNS[34:40]]])
    with_change = np.hstack([last_hour, filled - usual])
    numbers = table.stay.str[1:].astype(int).to_numpy()
    last, change = (
        [held_out_auroc(features, label, numbers % 2 == half) for half in (0, 1)]
        for features in (last_hour, with_change)
    )
    assert 0.65 < np.mean(last) < 0.8
    assert np.mean(change) - np.mean(last) > 0.06
    assert roc_auc_score(label, table.ICULOS) < 0.65
    lengths = table.groupby("stay").size()
    assert 0.35 < roc_auc_score(table.groupby("stay").SepsisLabel.max(), lengths) < 0.65


def test_when_and_how_often_something_was_measured_is_informative(ward):
    table = ward[0]
    label, measured = table.SepsisLabel.to_numpy(), table[DYNAMIC].notna()
    ratios = measured[label == 1].mean() / measured[label == 0].mean()
    assert 1.5 < ratios.pH < 3  # in the challenge, too, about twice as often
    assert ratios[["BUN", "WBC"]].min() > 1.3 and ratios[["BUN", "WBC"]].max() < ratios.pH
    assert 1.1 < ratios.Temp < 1.5
    assert 0.95 < ratios.HR < 1.05  # the monitor is always on

    stays = table.groupby("stay")
    count = measured.groupby(table.stay).cumsum()
    hours = stays.cumcount()
    since = measured.mul(hours + 1, axis=0).where(measured).groupby(table.stay).ffill().rsub(hours + 1, axis=0)
    last_hour = np.hstack([stays[DYNAMIC].ffill(), table[COLUMNS[34:40]]])
    with_observations = np.hstack([last_hour, (1 / (1 + since)).fillna(0), np.log1p(count)])
    numbers = table.stay.str[1:].astype(int).to_numpy()
    last, observed = (
        np.mean([held_out_auroc(features, label, numbers % 2 == half) for half in (0, 1)])
        for features in (last_hour, with_observations)
    )
    assert observed > last + 0.02


def test_benchmark_lists(benchmark):
    folder, lists, summary = benchmark
    shorter = hours = positive_hours = 0
    for _, stay in lists.iterrows():
        length = float(stay["length of stay"])
        masks, remaining = masks_and_labels(stay["length of stay task (masks;labels)"])
        assert len(masks) == int(length) + 1
        np.testing.assert_allclose(remaining, length - np.arange(len(masks)), atol=1e-6)
        np.testing.assert_array_equal(masks, np.arange(len(masks)) >= 5)
        risk_masks, risk = masks_and_labels(stay["decompensation task (masks;labels)"])
        np.testing.assert_array_equal(risk_masks, masks[: len(risk)])
        *known, dies = map(int, stay["in-hospital mortality task (pos;mask;label)"].split(";"))
        assert known == ([47, 1] if length >= 48 else [0, 0])  # position and mask
        assert len(risk) <= len(masks) if dies else len(risk) == len(masks)
        assert risk.sum() == (min(24, len(risk)) if dies else 0)  # entries less than 24 hours before death
        assert np.all(np.diff(risk) >= 0)
        assert len(stay["phenotyping task (labels)"].split(";")) == 25
        shorter += len(risk) < len(masks)
        hours += len(masks)
        positive_hours += risk.sum()
    assert shorter > 0
    assert 0.09 < summary["positive_stays"] / 300 < 0.13
    assert (summary["hours"], summary["positive_hours"]) == (hours, positive_hours)


def test_benchmark_splits_by_subject(benchmark):
    folder, lists, _ = benchmark
    assert lists.filename.is_unique
    subjects = lists.filename.str.split("_").str[0]
    assert lists.groupby(subjects)["split"].nunique().eq(1).all()
    shares = lists["split"].value_counts(normalize=True)
    assert 0.65 < shares["train"] < 0.75
    assert shares[["val", "test"]].between(0.12, 0.18).all()
    assert lists.filename.str.extract(r"_episode(\d+)_")[0].astype(int).max() > 9
    for split, part in (("train", lists["split"] != "test"), ("test", lists["split"] == "test")):
        assert {path.name for path in (folder / split).iterdir()} == set(lists.filename[part])


def test_benchmark_series(series):
    channels = {channel.name: channel for channel in MIMIC3_BENCHMARK.channels}
    seen = {name: set() for name in channels}
    for stay, table in series:
        assert list(table.columns) == ["Hours", *sorted(set(channels) - {"Hours"})]
        assert np.all(np.diff(table.Hours) > 0)
        assert table.Hours.min() >= 0 and table.Hours.max() < float(stay["length of stay"])
        assert table.drop(columns="Hours").notna().any(axis=1).all()
        for name in channels:
            seen[name].update(table[name].dropna())
    assert any(hour != int(hour) for hour in seen["Hours"])
    for name, channel in channels.items():
        assert seen[name], name
        if channel.spellings:
            assert {*map(str, seen[name])} <= set(channel.spellings)
            assert {channel.spellings[str(text)] for text in seen[name]} == set(channel.levels)
        elif channel.low is not None:
            assert channel.low <= min(seen[name]) <= max(seen[name]) <= channel.high, name
    eyes = seen["Glascow coma scale eye opening"]
    assert {"Spontaneously", "4 Spontaneously", "None", "1 No Response"} <= eyes  # both charting systems


def test_benchmark_patients_get_worse_before_death_and_better_before_discharge(series):
    changes = {"0": [], "1": []}
    for stay, table in series:
        if float(stay["length of stay"]) >= 72:
            late, pressure = table.Hours > table.Hours.max() - 10, table["Mean blood pressure"]
            dies = stay["in-hospital mortality task (pos;mask;label)"][-1]
            changes[dies].append(pressure[late].mean() - pressure[~late].mean())
    assert np.mean(changes["1"]) < -3
    assert np.mean(changes["0"]) > 3


def test_only_a_ward_is_replaced(tmp_path):
    ward = tmp_path / "ward"
    write_ward(20, 2, ward)
    with refused(ward, "not empty"):
        write_ward(9, 2, ward)
    write_ward(9, 2, ward, overwrite=True)
    assert len(list(ward.glob("*.psv"))) == 9
    before = contents(ward) | {"thesis.txt": b"years of work"}
    (ward / "thesis.txt").write_bytes(b"years of work")
    with refused("thesis.txt"):
        write_ward(9, 2, ward, overwrite=True)
    assert contents(ward) == before
    (ward / MARKER).unlink()
    with refused(ward, MARKER):
        write_ward(9, 2, ward, overwrite=True)
    with refused("thesis.txt", "must be a folder, got a file"):
        write_ward(9, 2, ward / "thesis.txt", overwrite=True)
    (tmp_path / "empty").mkdir()
    write_ward(1, 2, tmp_path / "empty")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "ward"]


def test_an_interrupted_ward_leaves_nothing_and_spares_the_old_one(tmp_path):
    def interrupt(written: int) -> None:
        raise KeyboardInterrupt

    write_ward(9, 2, tmp_path / "ward")
    before = contents(tmp_path)
    for name in ("ward", "new"):
        with pytest.raises(KeyboardInterrupt):
            write_ward(9, 3, tmp_path / name, progress=interrupt, overwrite=True)
    assert contents(tmp_path) == before


def test_program(tmp_path):
    command = [sys.executable, str(ROOT / "bin" / "prepare"), "simulate", "--seed=2", "--output=ward/"]
    done = subprocess.run([*command, "--stays=20"], cwd=tmp_path, capture_output=True, text=True, check=True)
    summary = write_ward(20, 2, tmp_path / "same")
    assert contents(tmp_path / "ward") == contents(tmp_path / "same")
    assert f"20 stays, {summary['hours']:,} hours" in done.stdout
    assert done.stdout.endswith("next: bin/prepare physionet2019 --source=ward --split=random --output=ward.h5\n")
    again = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert again.returncode == 1
    assert all(part in again.stderr for part in ("error: ward: is not empty", "--overwrite", "--output"))
