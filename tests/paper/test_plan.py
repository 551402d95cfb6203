"""Plans: which jobs a table needs, what they share, which folders and requests are refused, and how long it takes."""

import json
import pathlib
import re
import shutil

import pytest

from ncl_tf.data import Cohort
from ncl_tf.evaluation.evaluate import evaluate
from ncl_tf.evaluation.settings import EvaluationSettings
from ncl_tf.evaluation.subject import cohort_alone
from ncl_tf.paper import progress, results, settings, tables
from ncl_tf.paper.compare import Comparison
from ncl_tf.paper.plan import Plan
from ncl_tf.paper.tables import SEEDS
from ncl_tf.training import config, trainer  # noqa: F401 - configurations bind training
from refusals import refused


@pytest.fixture(scope="module")
def cohorts(
    ward_cohort: pathlib.Path, mimic_ward_cohort: pathlib.Path, observed_cohort: pathlib.Path
) -> dict[str, str]:
    return {
        "physionet2019": str(ward_cohort),
        "mimic3_benchmark": str(mimic_ward_cohort),
        "physionet2019_observed": str(observed_cohort),
    }


def make(name: str, cohorts: dict[str, str], output: pathlib.Path, methods=None, heads=None, **options) -> Plan:
    table = tables.load_table(name)
    options = {"budget": "smoke", "seeds": 1, **options}
    return Plan(table.narrowed(methods, heads), cohorts[table.cohort], output=str(output), **options)


def names(plan: Plan) -> list[str]:
    return [job.name for job in plan.jobs()]


def test_jobs_of_a_table(cohorts, tmp_path):
    plan = make("physionet2019", cohorts, tmp_path, ["cl", "end_to_end"], seeds=2)
    jobs = plan.jobs()
    expected = []
    for seed in (1111, 2222):
        expected += [f"cl-seed{seed}", f"cl-seed{seed}-sepsis-linear", f"cl-seed{seed}-sepsis-mlp"]
        for head in ("linear", "mlp"):  # End-to-End trains its head: one training each
            expected += [f"end_to_end-head_{head}-seed{seed}", f"end_to_end-head_{head}-seed{seed}-sepsis-{head}"]
    assert [job.name for job in jobs] == expected
    assert jobs[0].command == (
        "bin/train --gin_file=gin/paper/physionet2019/cl.gin --gin_file=gin/budgets/smoke.gin "
        f'"--gin_param=cohort = \'{pathlib.Path(cohorts["physionet2019"]).resolve()}\'" "--gin_param=seed = 1111" '
        f"--run_dir={tmp_path}/runs/cl-seed1111"
    )
    assert jobs[2].arguments[2:] == ("--task=sepsis", "--head=mlp", "--split=test")
    assert (jobs[2].needs, jobs[2].output) == ("cl-seed1111", tmp_path / "runs/cl-seed1111/evaluations/sepsis-mlp.json")
    assert "--gin_param=head = 'linear'" in jobs[3].arguments


def test_a_table_with_observations_has_recipes_and_a_folder_of_its_own(cohorts, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = tables.load_table("observed_physionet2019").narrowed(["observed_ncl_w", "observed_end_to_end"], ["mlp"])
    plan = Plan(table, cohorts["physionet2019_observed"], "smoke", seeds=1)
    assert plan.folder == tmp_path / "runs" / "physionet2019_observed_smoke"
    expected = [("observed_ncl_w", "observed_ncl_w-seed1111")]
    expected += [("observed_end_to_end", "observed_end_to_end-head_mlp-seed1111")]
    assert [
        (job.arguments[0].removeprefix("--gin_file=gin/beyond/physionet2019/").removesuffix(".gin"), job.name)
        for job in plan.jobs()
        if job.program == "bin/train"
    ] == expected
    plan.open(write=False)  # the recipes can be configured


def test_rows_without_an_encoder_need_no_training(cohorts, tmp_path):
    cohort = cohorts["physionet2019_observed"]
    plan = make("beyond_physionet2019", {"physionet2019_observed": cohort}, tmp_path, seeds=1)
    jobs = {job.name: job for job in plan.jobs()}
    training = "observed_ncl_w-seed1111"
    alone = [f"no_encoder-seed1111-sepsis-{end}" for end in ("linear-last_hour", "trees-last_hour", "trees-engineered")]
    ends = ("mlp", "trees", "trees-representation+last_hour", "trees-representation+engineered")
    supervised = [f"observed_ncl_y-seed1111{end}" for end in ("", f"-sepsis-{ends[0]}", f"-sepsis-{ends[-1]}")]
    assert list(jobs) == [*alone, training, *(f"{training}-sepsis-{end}" for end in ends), *supervised]
    assert jobs[alone[2]].command == (
        f"bin/evaluate --output={tmp_path}/evaluations/no_encoder-seed1111 --seed=1111 "
        f"--cohort={pathlib.Path(cohort).resolve()} --task=sepsis --head=trees --split=test --features=engineered"
    )
    assert (jobs[alone[2]].needs, jobs[f"{training}-sepsis-trees"].needs) == (None, training)
    output = tmp_path / "evaluations/no_encoder-seed1111/sepsis-trees-engineered.json"
    assert jobs[alone[2]].output == output
    assert jobs[alone[2]].results == (tmp_path / "results/no_encoder-seed1111/sepsis-trees-engineered.json",)
    assert (
        jobs[f"{training}-sepsis-trees-representation+engineered"].arguments[-1]
        == "--features=representation+engineered"
    )
    assert progress.state(jobs[alone[0]]) == "to do"


def test_the_result_of_trees_is_that_of_the_plans_cohort(cohorts, raw_ward_cohort, tmp_path):
    made = tmp_path / "out" / "evaluations" / "no_encoder-seed1111"
    constants = ("trees.max_iterations = 3",)
    trees = EvaluationSettings(head="trees", features="last_hour")
    evaluate(cohort_alone(raw_ward_cohort, made, 1111, constants), trees)
    observed = {"physionet2019_observed": str(raw_ward_cohort)}
    plan = make("beyond_physionet2019", observed, tmp_path / "out", ["trees_last_hour"], seeds=1)
    (job,) = plan.jobs()
    assert job.done()
    results.collect(plan)
    table = tables.load_table("beyond_physionet2019")
    (row,) = results.rows(tmp_path / "out" / "results", table)
    assert (row["row"], row["budget"], row["changed"]) == ("trees_last_hour", None, {"trees.max_iterations": "3"})
    text = Comparison(table, [row]).markdown()
    assert "| The paper's best of each metric |  | 10.1 ± 0.3 | 80.9 ± 0.2 | 32.6 ± 1.0 |" in text
    assert f"| Trees on last values | 1 | **{100 * row['metrics']['auprc']:.1f}**" in text
    assert "Settings other than the paper's or the budget's: Trees on last values trees.max_iterations = 3." in text
    shutil.rmtree(made.parent)
    with refused("other settings & trees.max_iterations = 3"):
        plan.open(write=False)


def test_a_cohort_has_the_observations_of_the_table(cohorts, tmp_path):
    observed, plain = cohorts["physionet2019_observed"], cohorts["physionet2019"]
    with refused("must be prepared with no --observations", "got --observations=recency,count"):
        make("physionet2019", {"physionet2019": observed}, tmp_path, ["cl"])
    with refused("must be prepared with --observations=recency,count for table 'observed", "got no --observations"):
        make("observed_physionet2019", {"physionet2019_observed": plain}, tmp_path)


def test_seeds_by_number_and_by_name(cohorts, tmp_path):
    """In the paper's order."""
    expected = {None: SEEDS, 2: (1111, 2222), "3": (1111, 2222, 3333), "1234, 2222": (2222, 1234), "1111": (1111,)}
    assert {
        asked: make("physionet2019", cohorts, tmp_path, ["cl"], seeds=asked).seeds for asked in expected
    } == expected


def test_both_tasks_are_evaluated_from_one_training(cohorts, tmp_path):
    plan = make("mimic3", cohorts, tmp_path, ["ncl_w", "end_to_end"], ["mlp"])
    tasks = ("decompensation", "length_of_stay")
    expected = ["ncl_w-seed1111", *(f"ncl_w-seed1111-{task}-mlp" for task in tasks)]
    for task in tasks:
        expected += [f"end_to_end_{task}-head_mlp-seed1111{end}" for end in ("", f"-{task}-mlp")]
    assert names(plan) == expected


def test_limited_labels_and_fine_tuning_share_trainings(cohorts, tmp_path):
    limited = make("limited_labels_physionet2019", cohorts, tmp_path, ["cl"])
    assert len(limited.jobs()) == 1 + 3 * 4
    assert {"--labels=0.1", "--label_seed=2"} <= set(limited.jobs()[7].arguments)
    assert limited.jobs()[7].output.name == "sepsis-mlp-labels_0.1_2.json"
    tuned = make("fine_tuning_physionet2019", cohorts, tmp_path, ["ncl_w", "end_to_end"], ["mlp"])
    end_to_end, ncl_w = tuned.jobs()[1], tuned.jobs()[3]
    assert "--fine_tune" in ncl_w.arguments
    assert ncl_w.output.name == "sepsis-mlp-fine_tuned.json"
    assert "--fine_tune" not in end_to_end.arguments  # it has nothing to fine-tune
    main = make("physionet2019", cohorts, tmp_path)
    assert {limited.jobs()[0].command, tuned.jobs()[2].command} <= {job.command for job in main.jobs()}


@pytest.mark.parametrize("dataset", ["mimic3", "physionet2019"])
def test_blocks_share_the_training_of_a_point_in_common(dataset, cohorts, tmp_path):
    """Kernel size 2 with 32 filters is a point of both searches."""
    plan = make(f"kernel_filters_{dataset}", cohorts, tmp_path)
    commands = [sorted(job.arguments[:-1]) for job in plan.jobs() if job.needs is None]
    assert not [command for command in commands if commands.count(command) > 1]
    both = [row for row in plan.table.rows if dict(row.settings) == {"filters": 32, "kernel_size": 2}]
    assert len(both) == 2


def test_sweeps_are_products_evaluated_on_validation_data(cohorts, tmp_path):
    plan = make("temperature_momentum_physionet2019", cohorts, tmp_path)
    jobs, rows = plan.jobs(), plan.table.rows
    assert [dict(row.settings) for row in rows[:2]] == [{"temperature": 0.05, "momentum": x} for x in (0.9, 0.99)]
    assert len(jobs) == 2 * len(rows) == 2 * 4 * 3
    assert all("--split=val" in job.arguments for job in jobs if job.needs)
    assert "--gin_param=temperature = 0.05" in jobs[0].arguments
    augmented = make("augmentations_physionet2019", cohorts, tmp_path).jobs()[8]
    assert augmented.name == "cl-layers_cutout+crop-seed1111"
    assert "--gin_param=augmentation.layers = ['cutout', 'crop']" in augmented.arguments


@pytest.mark.parametrize("name", tables.names())
def test_every_training_is_a_valid_configuration(name, cohorts, tmp_path):
    """bin/train refuses unknown names and macros that nothing uses."""
    for job in make(name, cohorts, tmp_path).jobs():
        if job.program == "bin/train":
            flags = [re.fullmatch(r"--(\w+)=(.*)", argument).groups() for argument in job.arguments]
            files, params = ([value for flag, value in flags if flag == kind] for kind in ("gin_file", "gin_param"))
            config.configure(files, params)
            assert config.macro("budget") == "smoke"


def test_parameters_for_all_or_for_one_method(cohorts, tmp_path):
    options = {"gin_params": ["jit_compile = False", "end_to_end: rate = 1e-4"], "gin_files": ["gin/authors_code.gin"]}
    jobs = make("physionet2019", cohorts, tmp_path, ["cl", "end_to_end"], ["mlp"], **options).jobs()
    cl, end_to_end = jobs[0].arguments, jobs[2].arguments
    assert cl[1:3] == ("--gin_file=gin/authors_code.gin", "--gin_file=gin/budgets/smoke.gin")
    assert "--gin_param=jit_compile = False" in cl
    assert not any("rate" in argument for argument in cl)
    assert {"--gin_param=jit_compile = False", "--gin_param=rate = 1e-4"} <= set(end_to_end)
    jobs = make("physionet2019", cohorts, tmp_path, ["cl"], ["mlp"], budget="paper", **options).jobs()
    assert jobs[0].arguments[1] == "--gin_file=gin/authors_code.gin"  # whose number of steps is not the paper's
    assert not any("budgets" in argument for argument in jobs[0].arguments)
    for params, named in [
        (["ncl: alpha = 1"], "method & seq2seq_ae & got 'ncl'"),
        (["seed = 7"], "--gin_param='seed = 7' & use --seeds"),
        (["cl: train.budget = 'x'"], "use --budget"),
        (["cohort='a.h5'"], "use --cohort"),
        (["cl: steps = 3", "cl:steps=4"], "--gin_param='cl:steps=4' & steps once for all"),
    ]:
        with refused(named):
            make("physionet2019", cohorts, tmp_path, gin_params=params)


def test_what_is_for_one_method_wins_and_holds_for_each_of_its_tasks(cohorts, tmp_path):
    for order in (1, -1):
        params = ["ncl_y: alpha = 0.5", "alpha = 0.7"][::order]
        methods = {"ncl_w": 0.7, "ncl_y_decompensation": 0.5, "ncl_y_length_of_stay": 0.5}
        plan = make("mimic3", cohorts, tmp_path, list(methods), gin_params=params)
        alphas = {job.name: [text for text in job.arguments if "alpha" in text] for job in plan.jobs() if not job.needs}
        last = {name: texts[-1] for name, texts in alphas.items()}
        assert last == {f"{name}-seed1111": f"--gin_param=alpha = {alpha}" for name, alpha in methods.items()}


def test_a_folder_is_for_one_cohort_and_budget_and_may_grow(cohorts, tmp_path):
    folder = tmp_path / "out"
    make("physionet2019", cohorts, folder, ["cl"]).open()
    make("physionet2019", cohorts, folder, ["ncl_w"], ["mlp"], seeds=2).open()
    make("fine_tuning_physionet2019", cohorts, folder).open()
    before = (folder / "plan.json").read_text()
    expected = {"methods": ["cl", "ncl_w"], "heads": ["linear", "mlp"], "seeds": [1111, 2222]}
    assert json.loads(before)["tables"]["physionet2019"] == expected
    for name, options, different in [
        ("physionet2019", {"budget": "laptop"}, "\n  budget: laptop & has smoke"),
        ("physionet2019", {"gin_params": ["alpha = 1"]}, "\n  gin_params"),
        ("mimic3", {}, f"\n  cohort_checksum: & {Cohort(cohorts['physionet2019']).checksum}"),
    ]:
        with refused(folder, "--output", different):
            make(name, cohorts, folder, **options).open()
    assert (folder / "plan.json").read_text() == before
    for damaged, named in [("{", ""), ("{}", "bin/reproduce & lacks budget, cohort_")]:
        (folder / "plan.json").write_text(damaged)
        with refused("plan.json: ", named):
            make("physionet2019", cohorts, folder, ["cl"]).open()
    killed = tmp_path / "killed"
    killed.mkdir()
    (killed / ".plan.json.abc.partial").touch()  # in the middle of its first write
    make("physionet2019", cohorts, killed, ["cl"]).open()
    (tmp_path / "letter.txt").touch()
    for output, named in [(folder / "plan.json" / "below", "cannot write"), (tmp_path, "empty & plan.json & --output")]:
        with refused(output, named):
            make("physionet2019", cohorts, output, ["cl"]).open()


def test_bad_requests(cohorts, tmp_path):
    with refused("budget", "desktop, laptop, paper, paper_quarter, search, smoke", "'huge'"):
        make("physionet2019", cohorts, tmp_path, budget="huge")
    for seeds in (0, -1, 21, "", "three", "1.5", "1,2", "1111,1112", "2222,2222"):
        with refused("--seeds", "1 to 20", "1111,2222,", f"got {seeds}"):
            make("physionet2019", cohorts, tmp_path, seeds=seeds)
    for name, cohort, named in [
        ("mimic3", cohorts["physionet2019"], "ward.h5 & 'decompensation' & 'mimic3' & got sepsis"),
        ("physionet2019", "nowhere.h5", "nowhere.h5: no such file"),
    ]:
        with refused(named):
            make(name, dict.fromkeys(cohorts, cohort), tmp_path)


def write_run(plan: Plan, name: str, **record) -> pathlib.Path:
    folder = plan.folder / "runs" / name
    (folder / "evaluations").mkdir(parents=True)
    (folder / "config.gin").write_text("steps = 1000\ntrain.steps = %steps\n")
    record = {"budget": "smoke", "dataset": "physionet2019", "cohort_checksum": "abc", **record}
    (folder / "run.json").write_text(json.dumps(record))
    return folder


def test_states_and_time_left_by_hand(cohorts, tmp_path, capsys):
    plan = make("physionet2019", cohorts, tmp_path, ["cl", "ncl_w"], ["mlp"], seeds=2)
    jobs = plan.jobs()
    assert progress.seconds_left(jobs, slots=1) is None
    done = write_run(plan, "cl-seed1111", status="finished", step=1000, wall_seconds=100.0)
    (done / "evaluations" / "sepsis-mlp.json").write_text('{"wall_seconds": 10.0}')
    write_run(plan, "ncl_w-seed1111", status="started", step=250, wall_seconds=60.0)
    (write_run(plan, "cl-seed2222") / "run.json").write_text("{")  # damaged: the job will report it, and the others run
    states = {job.name: progress.state(job) for job in jobs}
    assert states["cl-seed1111"] == states["cl-seed1111-sepsis-mlp"] == "done"
    assert states["ncl_w-seed1111"] == "step 250 of 1000"
    assert states["cl-seed2222"] == "to do"
    left = 3 * 60 + 2 * 100 + 3 * 10  # NCL(n_w) at its own pace, two trainings like CL's, three evaluations
    assert progress.seconds_left(jobs, slots=1) == pytest.approx(left)
    assert progress.seconds_left(jobs, slots=2) == pytest.approx(left / 2)
    progress.print_jobs(jobs, slots=1)
    rows = [re.split(r"  +", line) for line in capsys.readouterr().out.splitlines()]
    assert rows[1:3] == [
        ["cl", "1 of 2", "1 of 2", "2 min"],  # 100 + 10 s
        ["ncl_w", "0 of 2", "0 of 2", "5 min", "ncl_w-seed1111: step 250 of 1000"],  # 180 + 100 + 2 * 10 s
    ]
    progress.print_jobs(jobs, slots=1, commands=True)
    shown = capsys.readouterr().out
    assert "8 jobs, 2 done; time left: about 7 min" in shown
    assert f"step 250 of 1000  {jobs[2].command}" in shown
    assert [progress.duration(seconds) for seconds in (20, 61, 3600 * 26)] == ["20 s", "1 min", "26 h 00 min"]


def test_results_are_collected_and_read_as_rows(cohorts, tmp_path):
    plan = make("window_alpha_physionet2019", cohorts, tmp_path, ["window_8-alpha_0.3"])
    facts = {"status": "finished", "step": 2, "wall_seconds": 1.0, "seed": 1111, "versions": {"python": "3"}}
    run = write_run(plan, "ncl_w-alpha_0.3-window_8-seed1111", result={"val_accuracy": 0.4}, **facts)
    files = ("gin/paper/physionet2019/ncl_w.gin", "gin/budgets/smoke.gin")
    config = settings.configured(files, ("window = 8", "alpha = 0.3"))
    protocol = {"rates": {"linear": 1e-4, "mlp": 5e-5}, "balanced": True, "patience": 2, "max_epochs": 3}
    evaluation = {"name": "sepsis-mlp-val", "metrics": {"utility": 0.3}, "intervals": {"utility": [0.2, 0.4]}}
    evaluation |= {"curve": [1, 2, 3], "protocol": protocol, "best_epoch": 1, "stopped_by_budget": True}
    evaluation |= {"config": config | {"cohort": "'/home/someone/ward.h5'", "max_epochs": "3"}, "wall_seconds": 2.0}
    (run / "evaluations" / "sepsis-mlp-val.json").write_text(json.dumps(evaluation))
    results.collect(plan)
    path = tmp_path / "results" / "ncl_w-alpha_0.3-window_8-seed1111" / "sepsis-mlp-val.json"
    content = json.loads(path.read_text())
    assert content["config"]["alpha"] == "0.3"
    assert {"budget", "seed", "cohort_checksum", "versions", "wall_seconds"} <= content["run"].keys()
    assert "cohort" not in content["config"] and "curve" not in content
    (row,) = results.rows(tmp_path / "results", tables.load_table("window_alpha_physionet2019"))
    assert (row["window"], row["alpha"], row["seed"], row["method"]) == (8, 0.3, 1111, "ncl_w")
    assert (row["metrics"], row["training"]) == ({"utility": 0.3}, {"val_accuracy": 0.4})
    assert row["stopped_by_budget"]
    assert (row["dataset"], row["simulated"]) == ("physionet2019", True)
    assert row["changed"] == {"max_epochs": "3", "protocol.patience": "2"}  # of the training, and of bin/evaluate
    path.write_text(json.dumps({**content, "best_epoch": 5}))  # copied over it
    results.collect(plan)
    assert json.loads(path.read_text()) == content
    other = path.parent.with_name("ncl_w-alpha_0.3-window_8-seed2222") / path.name
    other.parent.mkdir()
    other.write_text(json.dumps({**content, "run": {**content["run"], "cohort_checksum": "xyz"}}))
    with refused("more than one cohort_checksum", "abc, xyz"):
        results.rows(tmp_path / "results", tables.load_table("window_alpha_physionet2019"))


def test_settings_by_hand():
    files = ("gin/paper/physionet2019/end_to_end.gin", "gin/budgets/paper_quarter.gin")
    found = settings.configured(files, ("end_to_end.labels = 0.1",))
    expected = {"steps": "6250", "batch_size": "2048", "rate": "1e-05", "task": "'sepsis'", "end_to_end.labels": "0.1"}
    assert expected.items() <= found.items()
    before = {"steps": "5", "rate": "0.1", "seed": "1", "protocol.batch_size": "32"}
    now = {"steps": "6", "rate": "0.1", "seed": "2"}
    assert settings.differing(before, now, "cl") == {"steps": "5", "protocol.batch_size": "32"}
    assert settings.differing(now, before, "end_to_end") == {"protocol.batch_size": "not set"}  # it has no steps


def test_what_is_in_results_is_not_done_again(cohorts, tmp_path):
    folder = tmp_path / "continued"
    plan = make("physionet2019", cohorts, folder, ["cl"], seeds=2)
    kept = folder / "results" / "cl-seed1111"
    kept.mkdir(parents=True)
    run = {"cohort_checksum": plan.cohort.checksum, "dataset": "physionet2019", "budget": "smoke"}
    run |= {"wall_seconds": 100.0}
    files = ("gin/paper/physionet2019/cl.gin", "gin/budgets/smoke.gin")
    known = {"run": run, "config": settings.configured(files, ("seed = 1111",)), "wall_seconds": 30.0}
    known |= {"metrics": {}, "intervals": {}, "stopped_by_budget": False}
    known |= {"protocol": {"patience": 20, "max_epochs": 1}, "best_epoch": 1}
    (kept / "sepsis-linear.json").write_text(json.dumps(known))
    assert [job.name for job in plan.jobs() if job.done()] == ["cl-seed1111-sepsis-linear"]  # the MLP needs the run
    (kept / "sepsis-mlp.json").write_text(json.dumps(known | {"wall_seconds": 10.0}))
    assert [job.name for job in plan.jobs() if not job.done()] == names(plan)[3:]
    assert progress.seconds_left(plan.jobs(), slots=1) == pytest.approx(100 + 2 * 20)  # like those of the first seed
    limited = make("limited_labels_physionet2019", cohorts, folder, ["cl"])
    assert not any(job.done() for job in limited.jobs())  # they need the run, which is not there
    for options, different in [
        ({"budget": "laptop"}, "budget: smoke & has laptop"),
        ({"gin_params": ["cl: temperature = 0.2"]}, "temperature = 0.1 & has 0.2"),
        ({"gin_files": ["gin/authors_code.gin"]}, "SameStayWithin.inclusive = not set & has True"),
    ]:
        with refused(f"{kept}/sepsis-", f"\n  {different}"):
            make("physionet2019", cohorts, folder, ["cl"], **options).open()
    for text, named in [
        ("{", ""),
        ("{}", f"bin/reproduce & lacks {', '.join(sorted(known))}"),
        (json.dumps(known | {"run": {}}), "run: must have budget, dataset & got no 'budget'"),
    ]:
        (kept / "sepsis-linear.json").write_text(text)
        with refused("sepsis-linear.json: ", named):
            plan.open()
    assert not (folder / "plan.json").exists()
    (kept / "sepsis-linear.json").write_text(json.dumps(known))
    plan.open()
    assert json.loads((folder / "plan.json").read_text())["tables"]["physionet2019"]["seeds"] == [1111, 2222]


@pytest.mark.parametrize(
    ("table", "method", "options", "named"),
    [
        ("physionet2019", "cl", {"gin_params": ["alpa = 0.3"]}, "'alpa' & 'alpha'"),
        ("physionet2019", "cl", {"gin_params": ["cl: rate = 1e-4"]}, "no macro 'rate'"),
        ("physionet2019", "cl", {"gin_files": ["nosuch.gin"]}, "nosuch.gin: no such gin file"),
        # What a row sets is not bound anew.
        ("alpha_n_w_physionet2019", "alpha_0.3", {"gin_params": ["alpha = 0.5"]}, "to 0.3 in ncl_w-alpha_0.3-"),
        ("alpha_n_w_physionet2019", "alpha_0.3", {"gin_params": ["ncl_w: window=8"]}, "to 12 in ncl_w-alpha_0.3-"),
        ("physionet2019", "end_to_end", {"gin_params": ["head = 'mlp'"]}, "to 'linear' in end_to_end-head_linear-"),
    ],
)
def test_settings_that_no_training_takes_leave_no_plan(cohorts, tmp_path, table, method, options, named):
    with refused(named, f"table '{table}'" if " in " in named else ""):
        make(table, cohorts, tmp_path / "out", [method], **options).open()
    assert not (tmp_path / "out").exists()


def test_the_order_of_parameters_makes_no_other_plan(cohorts, tmp_path):
    params, made = ["steps = 3", "cl: temperature = 0.2"], []
    for order in (params, params[::-1]):
        make("physionet2019", cohorts, tmp_path, ["cl"], gin_params=order).open()
        made.append((tmp_path / "plan.json").read_text())
    assert made[0] == made[1]
