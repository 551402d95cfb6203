"""The commands that the page shows are those that were given."""

import pathlib

from ncl_tf.reporting.report import provenance
from ncl_tf.reporting.report.sources import Training


def test_commands_tell_what_was_changed_of_the_protocol():
    question = {"task": "sepsis", "head": "mlp", "features": "representation", "fine_tune": False, "labels": 1.0}
    protocol = {
        "rates": {"linear": 1e-4, "mlp": 5e-4},
        "balanced": True,
        "patience": 20,
        "max_epochs": 7,
        "max_minutes": None,
    }
    config = {
        "max_epochs": "9",
        "protocol.linear_rate": "0.0001",
        "protocol.mlp_rate": "5e-05",
        "protocol.balanced": "True",
        "protocol.max_epochs": "%max_epochs",
    }
    question |= {"label_seed": 0, "split": "test"}
    result = {"question": question, "protocol": protocol, "config": config}
    training = Training(pathlib.Path("run"), "run", {}, config, (result,))
    _, judged = provenance._commands(training)
    assert judged == (
        "bin/evaluate --run_dir=AGAIN --task=sepsis --head=mlp "
        "'--gin_param=protocol.mlp_rate = 0.0005' '--gin_param=protocol.max_epochs = 7'"
    )
