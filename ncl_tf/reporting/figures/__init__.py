"""Figures of the paper and of runs, drawn from run directories and from the output folders of bin/reproduce.

from ncl_tf.reporting import figures

for figure in figures.make(figures.Sources([pathlib.Path("runs/physionet2019_laptop")])):
    figure.save(pathlib.Path("figures"))
"""

import importlib
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from ncl_tf.errors import InputError
from ncl_tf.reporting.sources import MissingInputError, Sources

if TYPE_CHECKING:
    from ncl_tf.reporting.figures.figure import Figure

# What draws each of them; imported when needed, as matplotlib takes seconds.
DRAWN_BY = {
    "alpha_n_w": "sweeps.alpha_n_w",
    "alpha_n_y": "sweeps.alpha_n_y",
    "temperature_momentum": "sweeps.temperature_momentum",
    "window_alpha": "sweeps.window_alpha",
    "augmentations": "sweeps.augmentations",
    "length_of_stay_bins": "cohorts.length_of_stay_bins",
    "tsne": "representations.tsne",
    "distances": "representations.distances",
    "training_curves": "training.training_curves",
    "precision_recall": "evaluations.precision_recall",
    "reliability": "evaluations.reliability_curves",
    "event_recall": "wards.event_recall",
    "calibration": "calibration.calibration",
    "subgroups": "wards.subgroups",
    "decision_curve": "wards.decision_curves",
}
NAMES = tuple(DRAWN_BY)

__all__ = ["NAMES", "Sources", "make"]


def make(
    sources: Sources,
    names: Sequence[str] | None = None,
    progress: Callable[[Sequence[str]], Iterable[str]] = lambda names: names,
    left_out: Callable[[str, str], None] = lambda name, needs: None,
) -> "list[Figure]":
    """Draw figures.

    Args:
        sources: run directories, output folders of bin/reproduce and their cohorts.
        names: the figures' names; None: every one for which the folders hold data.
        progress: wraps the names while they are drawn.
        left_out: called, if `names` is None, with each figure that cannot be drawn and what it needs.
    """
    for name in names or ():
        if name not in NAMES:
            raise InputError(f"the figure must be one of {', '.join(NAMES)}, got {name!r}")
    from ncl_tf.reporting.figures.figure import style

    figures = []
    for name in progress(NAMES if names is None else names):
        try:
            with style(name):
                module, function = DRAWN_BY[name].split(".")
                draw = getattr(importlib.import_module(f"{__name__}.{module}"), function)
                figures.append(draw(sources).laid_out())
        except MissingInputError as error:
            if names is not None:
                raise InputError(f"figure {name!r} needs {error}; given: {sources.given}") from error
            left_out(name, str(error))
    return figures
