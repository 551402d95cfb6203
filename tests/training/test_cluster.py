"""TF_CONFIG: what is read, and what is refused and how."""

import json
import socket

import pytest

from ncl_tf.errors import InputError
from ncl_tf.training.cluster import Cluster, read_cluster

WORKERS = ["host0:2222", "10.0.0.7:2222"]


def tf_config(workers=WORKERS, task=("worker", 1), **jobs) -> str:
    return json.dumps({"cluster": {"worker": workers} | jobs, "task": {"type": task[0], "index": task[1]}})


@pytest.mark.parametrize("index", [1, "1"])
def test_workers_and_index_are_read(index) -> None:
    assert read_cluster(tf_config(task=("worker", index))) == Cluster(("host0:2222", "10.0.0.7:2222"), 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "TF_CONFIG is not set; --strategy=multiworker wants it on each worker, such as {"),
        ("", "TF_CONFIG is not set"),
        ("{'cluster': 1}", "TF_CONFIG is \"{'cluster': 1}\", which is not JSON: Expecting property name"),
        ('"worker"', "TF_CONFIG is 'worker': it has no object 'cluster'. Allowed: such as {"),
        ('{"task": {}}', "TF_CONFIG is {'task': {}}: it has no object 'cluster'"),
        ('{"cluster": {"worker": ["a:1"]}}', "TF_CONFIG is {'cluster': {'worker': ['a:1']}}: it has no object 'task'"),
        ('{"cluster": {}, "task": {}}', "TF_CONFIG: cluster.worker is None; allowed: a list of addresses, host:port"),
        (tf_config([]), "TF_CONFIG: cluster.worker is []; allowed: a list"),
        (tf_config("host0:2222"), "TF_CONFIG: cluster.worker is 'host0:2222'; allowed: a list"),
        (tf_config(["host0:2222", "host1"]), "TF_CONFIG: worker 1 is 'host1'; allowed: host:port"),
        (tf_config(["http://host0:2222"]), "TF_CONFIG: worker 0 is 'http://host0:2222'; allowed: host:port"),
        (tf_config(["host0:70000"]), "TF_CONFIG: worker 0 is 'host0:70000'; allowed: host:port"),
        (tf_config([2222]), "TF_CONFIG: worker 0 is 2222; allowed: host:port"),
        (tf_config(["a:1", "b:1", "a:1"]), "TF_CONFIG: workers 0 and 2 are both 'a:1'; allowed: each once"),
        (tf_config(task=("worker", 2)), "TF_CONFIG: task.index is 2; allowed: 0 to 1"),
        (tf_config(task=("worker", -1)), "TF_CONFIG: task.index is -1; allowed: 0 to 1"),
        (tf_config(task=("worker", None)), "TF_CONFIG: task.index is None; allowed: 0 to 1"),
        (tf_config(task=("worker", True)), "TF_CONFIG: task.index is True; allowed: 0 to 1"),
        (tf_config(task=("ps", 0)), "TF_CONFIG: task.type is 'ps'; allowed: 'worker'"),
        (tf_config(task=("chief", 0), chief=["c:1"]), "TF_CONFIG: cluster names 'chief'; allowed: 'worker' alone"),
        (tf_config(ps=["c:1"]), "TF_CONFIG: cluster names 'ps'; allowed: 'worker' alone"),
    ],
)
def test_what_is_wrong_is_told(text: str | None, message: str) -> None:
    with pytest.raises(InputError) as error:
        read_cluster(text)
    assert str(error.value).startswith(message)


def test_a_port_in_use_is_told() -> None:
    with socket.create_server(("", 0)) as server:
        port = server.getsockname()[1]
        cluster = Cluster((f"localhost:{port}",), 0)
        with pytest.raises(InputError, match=rf"worker 0 \(localhost:{port}\) cannot listen on port {port}: Address "):
            cluster.check_port()
    cluster.check_port()
