"""Imports TensorFlow without the log messages that its C++ code prints whatever the log level, such as those about missing
GPUs. Import this module before TensorFlow; errors are shown.
"""

import os
import tempfile

_kept = os.dup(2)
with tempfile.TemporaryFile() as _notes:
    os.dup2(_notes.fileno(), 2)
    try:
        import tensorflow as tf

        tf.config.list_physical_devices()
    except BaseException:
        _notes.seek(0)
        os.write(_kept, _notes.read())
        raise
    finally:
        os.dup2(_kept, 2)
        os.close(_kept)
