"""The settings of a training by its gin files and bindings, and how a result's settings differ from them."""

import ast
import functools
import inspect
from collections.abc import Mapping
from typing import Any

from ncl_tf.runs.configuration import bindings, differences

# shown elsewhere, or without effect
NO_DIFFERENCE = {"cohort", "seed", "budget", "report_every", "fast", "jit_compile"}
NOT_OF_END_TO_END = {"steps", "batch_size", "queue_size"}  # its plan is the protocol's


@functools.cache
def configured(gin_files: tuple[str, ...], gin_params: tuple[str, ...]) -> dict[str, str]:
    """Compute the configuration of a training, name -> value as gin prints it; refuse what bin/train would refuse."""
    import gin

    from ncl_tf import quiet  # noqa: F401 - TensorFlow, only for those who need it
    from ncl_tf.training import config, trainer  # noqa: F401 - configurations bind training

    config.configure(gin_files, ("cohort = ''", *gin_params))
    return bindings(gin.config_str())


def differing(config: Mapping[str, str], expected: Mapping[str, str], method: str) -> dict[str, str]:
    """Find the settings of `config` that results of the method depend on and that have other values in `expected`."""
    ignored = NO_DIFFERENCE | (NOT_OF_END_TO_END if method.endswith("end_to_end") else set())
    found = differences(config, expected, ignored | {f"train.{name}" for name in ignored})
    return {name: value for name, (value, _) in found.items()}


def protocol_overrides(result: Mapping[str, Any]) -> dict[str, str]:
    """Find the bindings of an evaluation's protocol that bin/evaluate was given in place of the training's."""
    from ncl_tf import quiet  # noqa: F401 - TensorFlow, only for those who need it
    from ncl_tf.training import factories

    of, config = constants_of(result), result["config"]
    defaults = inspect.signature(getattr(factories, of)).parameters

    def as_trained(name: str) -> Any:
        bound = config.get(f"{of}.{name}")
        if bound is None:
            return defaults[name].default
        return ast.literal_eval(config[bound[1:]] if bound.startswith("%") else bound)

    return {
        f"{of}.{name}": repr(value)
        for name, value in by_binding(result["protocol"]).items()
        if value != as_trained(name)
    }


def constants_of(result: Mapping[str, Any]) -> str:
    """Name the configurable that a result's protocol is bound by."""
    return "trees" if "max_iterations" in result["protocol"] else "protocol"


def by_binding(protocol: Mapping[str, Any]) -> dict[str, Any]:
    """Name the parts of a result's protocol as gin binds them."""
    rates = {f"{head}_rate": rate for head, rate in protocol.get("rates", {}).items()}
    return rates | {name: value for name, value in protocol.items() if name != "rates"}
