"""Neighborhood Contrastive Learning for online patient monitoring (Yeche et al., ICML 2021)."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import os

    from ncl_tf.serving.loading import Model

__version__ = "0.1.0"


def load(folder: "str | os.PathLike") -> "Model":
    """An exported model: `encoder/` or `classifier/` of a run, or what `bin/export` wrote."""
    from ncl_tf.serving.loading import Model  # TensorFlow only for those who need it

    return Model(folder)
