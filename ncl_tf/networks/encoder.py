"""Encoder and projector: f_e and h_e of the paper, and as second copies f_m and h_m."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import keras
import tensorflow as tf
from tcn import TCN

from ncl_tf.compat import rename_variable
from ncl_tf.data.windows import every_window
from ncl_tf.errors import InputError

Samples = TypeVar("Samples")  # tensors [B, ...], one or nested
Means = TypeVar("Means", bound=tuple)  # a named tuple of scalars, means over the samples; the first one is the loss


def l2_normalize(vectors: tf.Tensor) -> tf.Tensor:
    """Divide by the Euclidean norm: [..., D] -> [..., D] unit vectors; zero stays zero, with finite gradients."""
    return tf.math.l2_normalize(vectors, axis=-1, epsilon=1e-12)


class Encoder(keras.Model):
    """Patient-state encoder: a temporal convolutional network over the window, merged with the static values.

    TCN on the dynamic channels -> last step -> concatenation with the static values of the last hour -> Dense ->
    LayerNormalization -> unit sphere.

    Args:
        static_columns: how many columns of a window, the first ones, hold static values.
        history: hours of a window, t_h in the paper; the TCN has to reach its first hour.
        size: of the representation.
        filters: of each convolution.
        kernel_size: of each convolution, in hours before dilation.
        dilations: one residual block of two convolutions each.
        stacks: how often the blocks are repeated.
        normalize: whether representations lie on the unit sphere; the auto-encoders' do not.
        compress: whether it takes the arcsinh of its inputs, which leaves small ones as they are and compresses outliers.
        name: first part of the variables' paths.
    """

    def __init__(
        self,
        static_columns: int,
        history: int = 48,
        size: int = 64,
        filters: int = 64,
        kernel_size: int = 2,
        dilations: Sequence[int] = (1, 2, 4, 8, 16),
        stacks: int = 1,
        normalize: bool = True,
        compress: bool = False,
        name: str = "encoder",
    ) -> None:
        super().__init__(name=name)
        if not static_columns >= 0:
            raise InputError(f"Encoder: static_columns must be 0 or more, got {static_columns}")
        sizes = {"size": size, "filters": filters, "kernel_size": kernel_size, "stacks": stacks}
        for what, value in sizes.items():
            if not value >= 1:
                raise InputError(f"Encoder: {what} must be 1 or more, got {value}")
        if not dilations or not all(isinstance(dilation, int) and dilation >= 1 for dilation in dilations):
            raise InputError(f"Encoder: dilations must be one or more whole numbers of 1 or more, got {dilations}")
        if not history >= 2:
            raise InputError(f"Encoder: history must be 2 hours or more, got {history}")
        reach = 1 + 2 * (kernel_size - 1) * sum(dilations) * stacks
        if reach < history:
            raise InputError(
                f"Encoder: the convolutions must reach the whole history, got dilations {tuple(dilations)}, kernel_size "
                f"{kernel_size}, stacks {stacks}, which reach {reach} hours, while history is {history}; raise one of "
                "them, or lower history"
            )
        self.static_columns, self.history = static_columns, history
        self.normalize, self.compress = normalize, compress
        self.tcn = TCN(
            nb_filters=filters,
            kernel_size=kernel_size,
            nb_stacks=stacks,
            dilations=tuple(dilations),
            padding="causal",
            use_skip_connections=False,
            use_layer_norm=True,
            dropout_rate=0.0,
            activation="relu",
            return_sequences=True,
            name="tcn",
        )
        self.merge = keras.layers.Dense(size, name="merge")
        self.norm = keras.layers.LayerNormalization(name="norm")

    def build(self, input_shape: Sequence[int | None]) -> None:
        """Create the weights for windows of shape [batch, hours, columns]; batch and hours may be None."""
        batch, hours, columns = input_shape
        if not columns > self.static_columns:
            raise InputError(f"{self.name}: windows must have more than {self.static_columns} columns, got {columns}")
        self.tcn.build((batch, hours, columns - self.static_columns))
        _number_norms_within_blocks(self.tcn)
        self.merge.build((batch, self.tcn.nb_filters + self.static_columns))
        self.norm.build((batch, self.merge.units))

    def call(self, windows: tf.Tensor) -> tf.Tensor:
        """Represent the last hour of each window: [B, T, C] -> [B, size]."""
        windows = self.compressed(windows)
        state = self._last_step(windows[:, :, self.static_columns :])
        return self.represent(state, windows[:, -1, : self.static_columns])

    def stays(self, rows: tf.Tensor, hour: tf.Tensor) -> tf.Tensor:
        """Represent every hour of whole stays by the window that ends with it: -> [N, size].

        The rows [N, C] are the prepared hours of any number of stays, stay after stay; `hour` [N] int32 counts from the stay's
        first row.
        """
        return self(every_window(rows, hour, self.history))

    def means(
        self,
        function: Callable[[Samples], Means],
        samples: Samples,
        variables: Sequence[tf.Variable],
        kind: type[Means],
    ) -> Means:
        """Return `function(samples)`, where a function of this encoder's representations is averaged over the samples.

        An encoder that is evaluated on parts of a batch averages over these parts.

        Args:
            function: nested tensors [b, ...] -> means over b samples, for any b; the first one is the loss.
            variables: with respect to which the loss will be differentiated; none: without gradients.
            kind: the named tuple that the function returns.
        """
        del variables, kind  # needed in parts only
        return function(samples)

    def compressed(self, inputs: tf.Tensor) -> tf.Tensor:
        """Return the inputs [..., C] as the layers take them; zero stays zero."""
        return tf.math.asinh(inputs) if self.compress else inputs

    def _last_step(self, dynamic: tf.Tensor) -> tf.Tensor:
        """Return the TCN's output at the last hour: [B, T, channels] -> [B, filters]."""
        return self.tcn(dynamic)[:, -1]

    def represent(self, state: tf.Tensor, static: tf.Tensor) -> tf.Tensor:
        """Merge the TCN's state with the static values: [B, filters], [B, static] -> [B, size]."""
        merged = self.norm(self.merge(tf.concat([state, static], axis=-1)))
        return l2_normalize(merged) if self.normalize else merged


class Projector(keras.Model):
    """Dense -> LayerNormalization -> ReLU -> Dense -> unit sphere.

    Args:
        size: of both layers.
        name: first part of the variables' paths.
    """

    def __init__(self, size: int = 64, name: str = "projector") -> None:
        super().__init__(name=name)
        self.hidden = keras.layers.Dense(size, name="hidden")
        self.norm = keras.layers.LayerNormalization(name="norm")
        self.projection = keras.layers.Dense(size, name="projection")

    def build(self, input_shape: Sequence[int | None]) -> None:
        """Create the weights for representations of shape [batch, size]; batch may be None."""
        self.hidden.build(input_shape)
        self.norm.build((input_shape[0], self.hidden.units))
        self.projection.build((input_shape[0], self.hidden.units))

    def call(self, representations: tf.Tensor) -> tf.Tensor:
        """Project representations: [B, D] -> [B, size]."""
        return l2_normalize(self.projection(tf.nn.relu(self.norm(self.hidden(representations)))))


def _number_norms_within_blocks(tcn: TCN) -> None:
    """Give the TCN's normalization weights paths that do not depend on what was built before; see `rename_variable`."""
    for block in tcn.residual_blocks:
        for index, norm in enumerate(block.layer_norm_layers):
            for variable in norm.weights:
                rename_variable(variable, variable.path.replace(f"/{norm.name}/", f"/norm_{index}/"))
