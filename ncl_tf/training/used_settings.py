"""Which settings a method uses, so that one that it ignores can be refused where a user gives it.

Works on configurations as `ncl_tf.runs.bindings` returns them: name -> value as gin prints it. A name without a dot is a macro.
"""

import re
from collections.abc import Mapping

# Configurables behind every training; the protocol trains the heads of every method.
SHARED = {"train", "encoder", "protocol"}
# Those of each method beside them; what their values refer to, such as a neighborhood, is used, too.
OWN = {
    "momentum_contrast": {"momentum_contrast", "augmentation"},
    "autoencoder": {"autoencoder"},
    "end_to_end": {"end_to_end"},
}
# What a method has no use for: End-to-End is trained with the protocol's batch size and early stopping, at a constant rate.
WITHOUT = {
    "momentum_contrast": set(),
    "autoencoder": {"encoder.normalize"},
    "end_to_end": {
        f"train.{name}" for name in ("steps", "batch_size", "report_every", "warmup", "lowest_rate", "highest_rate")
    },
}
WITHOUT_LABELS = {"SameStayWithin", "DecayingWithin", "Intersection", "Union"}  # neighborhoods that compare none
CONFIGURABLES = SHARED.union(*OWN.values(), WITHOUT_LABELS, ["SameLabel", "trees"])  # the last: of evaluations


class UsedSettings:
    """The settings that the method of a configuration uses.

    Attributes:
        method: name of the configured method, such as "end_to_end"; empty where the configuration has none.
        known: whether it is one of the project's methods; of others it is not known what they use.
        configurables: those whose bindings are used.
    """

    def __init__(self, config: Mapping[str, str]) -> None:
        self.config = config
        self.method = config.get("train.method", "").removeprefix("@")
        self.known = self.method in OWN
        self.configurables = self._reachable(SHARED | OWN.get(self.method, set()))
        self._without = set(WITHOUT.get(self.method, ()))
        if self.configurables - SHARED - OWN.get(self.method, set()) <= WITHOUT_LABELS:
            self._without.add("momentum_contrast.task")

    def uses(self, name: str) -> bool:
        """Return whether a binding has an effect, or a macro through any of the bindings and macros that refer to it."""
        configurable, _, parameter = name.rpartition(".")
        if configurable:
            configurable = re.split(r"[./]", configurable)[-1]
            return configurable in self.configurables and f"{configurable}.{parameter}" not in self._without
        referring = (other for other, value in self.config.items() if re.search(rf"%{re.escape(name)}\b", value))
        return any(self.uses(other) for other in referring)

    def describe(self) -> str:
        """Name the macros and configurables that are used, for messages."""
        macros = sorted(name for name in self.config if "." not in name and self.uses(name))
        return f"{', '.join(macros)}; and bindings of {', '.join(sorted(self.configurables))}"

    def _reachable(self, configurables: set[str]) -> set[str]:
        """Add all configurables that the values of these ones refer to, directly or through macros and others."""
        values = [value for name, value in self.config.items() if re.split(r"[./]", name)[-2:][0] in configurables]
        seen = set()
        while macros := set(re.findall(r"%(\w+)", " ".join(values))) - seen:
            seen |= macros
            values += [self.config.get(name, "") for name in macros]
        found = {re.split(r"[./]", name)[-1] for name in re.findall(r"@([\w./]+)", " ".join(values))}
        found -= OWN.keys()  # train.method itself
        return configurables if found <= configurables else self._reachable(configurables | found)
