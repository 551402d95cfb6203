"""Neighborhood Contrastive Learning for online patient monitoring (Yeche et al., ICML 2021)."""

import os
from typing import TYPE_CHECKING

from ncl_tf.version import VERSION

if TYPE_CHECKING:
    from ncl_tf.serving.loading import Model

__version__ = VERSION

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # before TensorFlow starts: its log messages are not for our users


def load(folder: "str | os.PathLike") -> "Model":
    """Load an exported model: `encoder/` or `classifier/` of a run, or a folder that `bin/export` wrote."""
    from ncl_tf import quiet  # noqa: F401 - TensorFlow, only for those who need it
    from ncl_tf.serving.loading import Model

    return Model(folder)
