"""The one place that uses private parts of Keras and TensorFlow: what no public function does.

Each function states why it is needed; tests/test_compat.py fails once the reason is gone.
"""

import keras


def rename_variable(variable: keras.Variable, path: str) -> None:
    """Give a variable another path, the name under which checkpoints hold it.

    keras-tcn leaves its normalization layers unnamed, so Keras numbers them through the whole process
    ("layer_normalization_7") and their weights' paths would depend on what was built before. A variable's public `path` is
    read-only, and layers that another layer makes while it is built cannot be named from outside.
    """
    variable._path = path


def raise_errors_of_workers(wait: float) -> None:
    """Have a strategy of several workers, made after this call, raise Python errors when workers are missing or lost.

    With its coordination service, TensorFlow ends the process from C++ when a worker does not come, and swallows SIGTERM;
    without it, the strategy looks after its workers in Python, every half minute. Neither this choice nor how long it waits
    for all workers to be there, `wait` seconds, can be set by a public function.
    """
    from tensorflow.python.distribute.collective_all_reduce_strategy import CollectiveAllReduceExtended
    from tensorflow.python.eager import context

    context.context().configure_coordination_service(service_type="")
    CollectiveAllReduceExtended._check_health_initial_timeout = wait
