"""The settings of a training by its gin files and bindings, and those of a result that are others."""

import ast
import functools
import inspect
from collections.abc import Mapping
from typing import Any

NO_DIFFERENCE = {"cohort", "seed", "budget", "report_every", "fast", "jit_compile"}  # told elsewhere, or without effect
NOT_OF_END_TO_END = {"steps", "batch_size", "queue_size"}  # its plan is the protocol's


@functools.cache
def configured(gin_files: tuple[str, ...], gin_params: tuple[str, ...]) -> dict[str, str]:
    """Name and value, as gin prints it, of all that a training would be given; refuses what bin/train would."""
    import gin

    from ncl_tf.training import config, trainer  # noqa: F401 - configurations bind training; both import TensorFlow

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


def judged_otherwise(result: Mapping[str, Any]) -> dict[str, str]:
    """Bindings of an evaluation's protocol that are not as the training's configuration has them: bin/evaluate got them."""
    from ncl_tf.training.factories import protocol  # imports TensorFlow

    defaults, config = inspect.signature(protocol).parameters, result["config"]

    def as_trained(name: str) -> Any:
        bound = config.get(f"protocol.{name}")
        if bound is None:
            return defaults[name].default
        return ast.literal_eval(config[bound[1:]] if bound.startswith("%") else bound)

    return {
        f"protocol.{name}": repr(value)
        for name, value in by_binding(result["protocol"]).items()
        if value != as_trained(name)
    }


def by_binding(protocol: Mapping[str, Any]) -> dict[str, Any]:
    """A protocol, as a result tells it, by the names that gin has for its parts."""
    rates = {f"{head}_rate": rate for head, rate in protocol.get("rates", {}).items()}
    return rates | {name: value for name, value in protocol.items() if name != "rates"}
