"""What is evaluated: the encoder of a finished run, an exported one, or a cohort alone, for heads on what was measured."""

import dataclasses
import inspect
import pathlib
from typing import Any

import gin
import keras

from ncl_tf import project
from ncl_tf.data.cohort import Cohort, SplitData
from ncl_tf.data.prepared_again import PreparedAgain
from ncl_tf.data.raw_features import HOURS
from ncl_tf.errors import InputError
from ncl_tf.evaluation.settings import RAW_FEATURES, TREES, EvaluationSettings
from ncl_tf.methods.base import Method
from ncl_tf.methods.supervised import Classifier
from ncl_tf.networks.encoder import Encoder
from ncl_tf.runs import Run, StoredRun, bindings
from ncl_tf.training import config, factories, trainer  # noqa: F401 - a run's configuration binds training
from ncl_tf.training.pretrained import PretrainedEncoder

OTHER_DATASETS = "table"  # whose constants of the protocol are those of datasets without a file in gin/datasets
CONSTANTS = ("protocol", "trees")  # configurables that an evaluation may bind


class ValuesAlone(Cohort):
    """A cohort without its observation columns: the last known values."""

    def __init__(self, path: pathlib.Path) -> None:
        super().__init__(path)
        self.columns = self.preprocessor.dataset.value_columns if self.preprocessor else self.columns

    def _read(self, split: str) -> SplitData:
        stored = super()._read(split)
        return dataclasses.replace(stored, data=stored.data[:, : len(self.columns)])


@dataclasses.dataclass(frozen=True)
class Subject:
    """What is evaluated, and where its evaluations are written.

    Attributes:
        cohort: on which it is evaluated.
        model: a method or an encoder with its trained weights; None: there is no encoder.
        record: seed, budget, dataset, cohort_checksum, step and wall_seconds, and what else is known of the training; of an
            exported encoder, also what it is and which of its channels the cohort has.
        config: the settings of the training, name -> value as gin prints it; without one, those of heads.
        folder: that of the evaluations.
        gin_params: what the evaluation binds.
        run: the run directory; None: there is none.
    """

    cohort: Cohort
    model: keras.Model | None
    record: dict[str, Any]
    config: dict[str, str]
    folder: pathlib.Path
    gin_params: tuple[str, ...] = ()
    run: StoredRun | None = None

    def evaluation_path(self, name: str) -> pathlib.Path:
        """The JSON of an evaluation."""
        return self.folder / f"{name}.json"

    @property
    def history(self) -> int:
        """Hours of a window."""
        return self.encoder.history if self.encoder else HOURS

    @property
    def encoder(self) -> Encoder | None:
        """The encoder, if there is one."""
        return self.model.encoder if isinstance(self.model, Method) else self.model

    def completed(self, settings: EvaluationSettings) -> EvaluationSettings:
        """Return the settings with task and head named; an End-to-End run has both, and allows nothing else."""
        if isinstance(self.model, Classifier):
            return self._as_trained(settings)
        task, head = settings.task or self.cohort.tasks[0].name, settings.head or "mlp"
        if self.model is None and settings.needs_encoder:
            raise InputError(
                f"features must be one of {', '.join(RAW_FEATURES)} without a run, got {settings.features!r}, which needs an "
                "encoder; name a run by --run_dir, or an export by --encoder"
            )
        used = "trees" if head == TREES else "protocol"
        for param in self.gin_params:
            if not param.strip().startswith(f"{used}."):
                raise InputError(f"--gin_param={param!r}: head {head} uses bindings of {used} alone")
        return dataclasses.replace(settings, task=task, head=head)

    def _as_trained(self, settings: EvaluationSettings) -> EvaluationSettings:
        """Return the settings with the task and head of an End-to-End run."""
        free = {"split": settings.split, "external": settings.external} | settings.of_alarms
        own = EvaluationSettings(self.cohort.tasks[self.model.task].name, self.model.head.kind, **free)
        asked = dataclasses.replace(settings, task=settings.task or own.task, head=settings.head or own.head)
        for name, value in dataclasses.asdict(asked).items():
            if value != (allowed := dataclasses.asdict(own)[name]):
                raise InputError(
                    f"{self.run.folder}: End-to-End has trained its own head, so it is only scored; --{name} must be "
                    f"{allowed}, got {value}"
                )
        if self.gin_params:
            raise InputError(
                f"{self.run.folder}: End-to-End is only scored, so it takes no --gin_param, got {self.gin_params[0]!r}"
            )
        return own


def load_run(folder: pathlib.Path, cohort: str | None = None, gin_params: tuple[str, ...] = ()) -> Subject:
    """Load a finished run, its cohort (checked to be the same) and its model with the trained weights.

    Args:
        cohort: path of the run's cohort file; None: where it was in training.
        gin_params: bindings of the protocol or of trees.
    """
    stored = StoredRun(folder)
    stored.require_finished()
    _configure(stored.configuration, gin_params)
    data = stored.cohort(Cohort, cohort)
    model = config.method()(cohort=data, seed=stored.record["seed"], fast=True)
    model.build((None, model.window_hours, len(data.columns)))
    run = Run(folder)
    run.writes = False
    if run.restore(model) != stored.record["step"]:
        raise InputError(
            f"{folder}: no readable checkpoint of step {stored.record['step']}, so there is no encoder to evaluate; "
            "train again in another --run_dir"
        )
    evaluations = stored.evaluation_path("NAME").parent
    return Subject(data, model, stored.record, stored.config, evaluations, gin_params, stored)


def cohort_alone(
    path: pathlib.Path, output: pathlib.Path, seed: int | None = None, gin_params: tuple[str, ...] = ()
) -> Subject:
    """Open a cohort for heads on what was measured, whose evaluations are written into the folder `output`.

    Args:
        seed: of a head's weights and the order of its samples, or of trees; None: the paper's first.
        gin_params: as in `load_run`.
    """
    data = ValuesAlone(path)
    configured = constants(data.name, seed)
    _configure("\n".join(f"{name} = {value}" for name, value in configured.items()), gin_params)
    record = {"seed": int(configured["seed"]), "budget": None, "dataset": data.name, "cohort_checksum": data.checksum}
    return Subject(data, None, record | {"step": 0, "wall_seconds": 0.0}, configured, output, gin_params)


def exported(
    encoder: str, path: pathlib.Path, output: pathlib.Path, seed: int | None = None, gin_params: tuple[str, ...] = ()
) -> Subject:
    """Load an exported encoder for a cohort with its raw rows, which are prepared again as those that it was trained on.

    Args:
        encoder: name of a model that ships, or folder of an export.
        seed, gin_params: as in `cohort_alone`, whose other arguments are the same.
    """
    pretrained = PretrainedEncoder(encoder)
    if pretrained.preprocessor is None:
        raise InputError(
            f"{encoder}: takes no raw values, which other stays are prepared from; it was trained on a file of "
            "the authors' code"
        )
    data = PreparedAgain(path, pretrained.preprocessor)
    facts = pretrained.facts()
    trained_on = facts["trained_on"]
    if data.source_checksum == trained_on["source_checksum"] != "" and data.checksum != trained_on["cohort_checksum"]:
        raise InputError(
            f"{path}: must hold other stays than {encoder} was trained on, or be the same cohort, with SHA-256 "
            f"{trained_on['cohort_checksum']}; got other splits of the same source, {data.source_checksum}"
        )
    alone = constants(data.name, seed)
    _configure("\n".join(f"{name} = {value}" for name, value in alone.items()), gin_params)
    card = pretrained.card
    record = {"seed": int(alone["seed"]), "budget": card["run"]["budget"], "dataset": data.name}
    record |= {"cohort_checksum": data.checksum, "step": card["run"]["step"], "wall_seconds": 0.0}
    record["encoder"] = facts | {"missing": data.missing, "unused": data.unused}
    return Subject(data, pretrained.load(), record, card["config"] | alone, output, gin_params)


def constants(dataset: str, seed: int | None = None) -> dict[str, str]:
    """Return the constants by which heads without an encoder are trained, name -> value as gin prints it."""
    own = f"datasets/{dataset}.gin"
    file = own if (project.GIN / own).exists() else f"datasets/{OTHER_DATASETS}.gin"
    config.configure([file], ["cohort = ''", "budget = None", *([] if seed is None else [f"seed = {seed}"])])
    bound = bindings(gin.config_str())
    used = {name: value for name, value in bound.items() if name.split(".")[0] in CONSTANTS}
    macros = ["seed", "budget", *(value[1:] for value in used.values() if value.startswith("%"))]
    return {name: bound[name] for name in macros} | used


def _configure(configuration: str, gin_params: tuple[str, ...]) -> None:
    """Read a configuration, then bindings of the constants of evaluations, and of nothing else."""
    config.configure_again(configuration, [])
    trained = bindings(gin.config_str())
    config.configure_again(configuration, gin_params)
    for name, value in bindings(gin.config_str()).items():
        if value != trained.get(name) and name.split(".")[0] not in CONSTANTS:
            allowed = (
                f"{of}.NAME = VALUE with a NAME of {', '.join(inspect.signature(getattr(factories, of)).parameters)}"
                for of in CONSTANTS
            )
            raise InputError(
                f"--gin_param must set bindings of the protocol or of trees, {'; or '.join(allowed)}; got {name} = {value}"
            )
