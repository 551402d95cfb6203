"""Neighborhood Contrastive Learning for online patient monitoring (Yeche et al., ICML 2021)."""

import os
from typing import TYPE_CHECKING, Any

from ncl_tf.version import VERSION

if TYPE_CHECKING:
    from ncl_tf.serving.loading import Model

__version__ = VERSION

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # before TensorFlow starts: its log messages are not for our users


def load(model: "str | os.PathLike") -> "Model":
    """Load a model that ships, by its name, or an export: `encoder/` or `classifier/` of a run, or what `bin/export` wrote."""
    from ncl_tf.runs.shipped import model_folder

    folder = model_folder(model)
    from ncl_tf import quiet  # noqa: F401 - TensorFlow, only for those who need it
    from ncl_tf.serving.loading import Model

    return Model(folder)


def models() -> "dict[str, dict[str, Any]]":
    """Describe the models that ship, by the names that `load` takes: kind, task, raw channels, figures, data and run."""
    from ncl_tf.runs import shipped

    return shipped.described()
