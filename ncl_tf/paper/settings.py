"""The settings of a training by its gin files and bindings, and those of a result that are others."""

import functools
from collections.abc import Mapping

NO_DIFFERENCE = {"cohort", "seed", "budget", "report_every", "fast", "jit_compile"}  # told elsewhere, or without effect
NOT_OF_END_TO_END = {"steps", "batch_size", "queue_size"}  # its plan is the protocol's


@functools.cache
def configured(gin_files: tuple[str, ...], gin_params: tuple[str, ...]) -> dict[str, str]:
    """Name and value, as gin prints it, of all that a training would be given; refuses what bin/train would."""
    import gin

    from ncl_tf import config, training  # noqa: F401 - configurations bind training; both import TensorFlow

    config.load(gin_files, ("cohort = ''", *gin_params))
    return config.bindings(gin.config_str())


def differing(config: Mapping[str, str], expected: Mapping[str, str], method: str) -> dict[str, str]:
    """Settings of `config` that results of the method depend on and that `expected` has not, or has with other values."""
    without = NO_DIFFERENCE | (NOT_OF_END_TO_END if method == "end_to_end" else set())
    return {
        name: config.get(name, "not set")
        for name in sorted(config.keys() | expected.keys())
        if name.removeprefix("train.") not in without and config.get(name) != expected.get(name)
    }
