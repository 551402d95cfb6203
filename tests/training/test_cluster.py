"""TF_CONFIG: what is read, and what is refused."""

import json
import socket

import pytest

from ncl_tf.training.cluster import Cluster, read_cluster
from refusals import refused

WORKERS = ["host0:2222", "10.0.0.7:2222"]


def tf_config(workers=WORKERS, task=("worker", 1), **jobs) -> str:
    return json.dumps({"cluster": {"worker": workers} | jobs, "task": {"type": task[0], "index": task[1]}})


@pytest.mark.parametrize("index", [1, "1"])
def test_workers_and_index_are_read(index):
    assert read_cluster(tf_config(task=("worker", index))) == Cluster(("host0:2222", "10.0.0.7:2222"), 1)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (None, "TF_CONFIG & must be set & multiworker & {"),
        ("", "TF_CONFIG & must be set"),
        ("{'cluster': 1}", "TF_CONFIG & JSON & \"{'cluster': 1}\" & Expecting property name"),
        ('"worker"', "TF_CONFIG & object 'cluster' & got 'worker'"),
        ('{"task": {}}', "TF_CONFIG & object 'cluster' & got {'task': {}}"),
        ('{"cluster": {"worker": ["a:1"]}}', "TF_CONFIG & object 'task' & got {'cluster': {'worker': ['a:1']}}"),
        ('{"cluster": {}, "task": {}}', "TF_CONFIG & cluster.worker & list & got None"),
        (tf_config([]), "TF_CONFIG & cluster.worker & list & got []"),
        (tf_config("host0:2222"), "TF_CONFIG & cluster.worker & list & got 'host0:2222'"),
        (tf_config(["host0:2222", "host1"]), "TF_CONFIG & worker 1 & host:port & got 'host1'"),
        (tf_config(["http://host0:2222"]), "TF_CONFIG & worker 0 & host:port & got 'http://host0:2222'"),
        (tf_config(["host0:70000"]), "TF_CONFIG & worker 0 & host:port & got 'host0:70000'"),
        (tf_config([2222]), "TF_CONFIG & worker 0 & host:port & got 2222"),
        (tf_config(["a:1", "b:1", "a:1"]), "TF_CONFIG & once & got 'a:1' & workers 0 and 2"),
        (tf_config(task=("worker", 2)), "TF_CONFIG & task.index & 0 to 1 & got 2"),
        (tf_config(task=("worker", -1)), "TF_CONFIG & task.index & 0 to 1 & got -1"),
        (tf_config(task=("worker", None)), "TF_CONFIG & task.index & 0 to 1 & got None"),
        (tf_config(task=("worker", True)), "TF_CONFIG & task.index & 0 to 1 & got True"),
        (tf_config(task=("ps", 0)), "TF_CONFIG & task.type & 'worker' & got 'ps'"),
        (tf_config(task=("chief", 0), chief=["c:1"]), "TF_CONFIG & cluster & 'worker' alone & got 'chief'"),
        (tf_config(ps=["c:1"]), "TF_CONFIG & cluster & 'worker' alone & got 'ps'"),
    ],
)
def test_a_cluster_that_is_none_is_refused(text, named):
    with refused(named):
        read_cluster(text)


def test_a_port_in_use_is_refused():
    with socket.create_server(("", 0)) as server:
        port = server.getsockname()[1]
        cluster = Cluster((f"localhost:{port}",), 0)
        with refused("TF_CONFIG", f"worker 0 (localhost:{port})", "free port", f"got {port}"):
            cluster.check_port()
    cluster.check_port()
