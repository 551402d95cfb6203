"""The encoder in its fast form: the same weights and results, without what the last hour does not depend on."""

import tensorflow as tf

from ncl_tf.networks.encoder import Encoder
from ncl_tf.networks.fast.last_step import last_step
from ncl_tf.networks.fast.pieces import map_in_pieces, means_in_pieces
from ncl_tf.networks.fast.stays import last_steps


class FastEncoder(Encoder):
    """`Encoder` that computes only those of the TCN's outputs that the last hour depends on, a piece of the batch at a time."""

    means = staticmethod(means_in_pieces)

    def call(self, windows: tf.Tensor) -> tf.Tensor:
        """Represent the last hour of each window: [B, T, C] -> [B, size]."""
        return map_in_pieces(super().call, windows)

    def stays(self, rows: tf.Tensor, hour: tf.Tensor) -> tf.Tensor:
        """Represent every hour of whole stays; hours that windows have in common are computed once."""
        rows = self.compressed(rows)
        static, dynamic = rows[:, : self.static_columns], rows[:, self.static_columns :]
        return self.represent(last_steps(self.tcn, dynamic, hour, self.history), static)

    def _last_step(self, dynamic: tf.Tensor) -> tf.Tensor:
        """Return the TCN's output at the last hour: [B, T, channels] -> [B, filters]."""
        return last_step(self.tcn, dynamic)
