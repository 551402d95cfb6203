"""Decoder of the auto-encoders: the mirror image of the encoder, from a representation back to a window."""

from collections.abc import Sequence

import keras
import tensorflow as tf

from ncl_tf.errors import InputError
from ncl_tf.networks.encoder import Encoder


class TransposedConvolution(keras.layers.Conv1DTranspose):
    """Transposed dilated convolution over time with stride 1 and no padding: [B, T, C] -> [B, T + (k - 1) d, filters].

    y_t = b + sum_j W_j x_{t - j d}, where x is zero outside its T steps. Same weights and result as the layer of Keras, whose
    dilated form TensorFlow computes on CPUs only inside XLA.
    """

    def __init__(self, filters: int, kernel_size: int, dilation: int, name: str) -> None:
        super().__init__(filters, kernel_size, dilation_rate=dilation, name=name)

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Add up the taps, each shifted to the steps that it writes."""
        dilation = self.dilation_rate[0]
        reach = (self.kernel_size[0] - 1) * dilation
        taps = [
            tf.pad(tf.matmul(inputs, kernel, transpose_b=True), [[0, 0], [shift, reach - shift], [0, 0]])
            for kernel, shift in zip(tf.unstack(self.kernel), range(0, reach + 1, dilation), strict=True)
        ]
        return tf.add_n(taps) + self.bias


class Decoder(keras.Model):
    """Network from a representation to static values and a sequence.

    Dense -> static values, and a sequence of one step -> as many blocks as the encoder has, dilations in reverse order, of
    two (transposed convolution -> LayerNormalization -> ReLU) -> the last `hours` steps. The last convolution is the output.

    The last steps are kept, as the last one is the window's last hour: with the paper's settings, the encoder's causal
    convolutions bring 63 steps down to the last one, and of these the 48 hours of a window are the last.

    Args:
        static_columns, dynamic_columns: of a window, to be reconstructed.
        hours: of the sequence.
        filters, kernel_size, dilations: of the mirrored encoder; its `dilations` in their own order.
    """

    def __init__(
        self,
        static_columns: int,
        dynamic_columns: int,
        hours: int = 48,
        filters: int = 64,
        kernel_size: int = 2,
        dilations: Sequence[int] = (1, 2, 4, 8, 16),
    ) -> None:
        super().__init__(name="decoder")
        steps = 1 + 2 * (kernel_size - 1) * sum(dilations)
        if not 1 <= hours <= steps:
            raise InputError(
                f"{self.name}: hours must be 1 to {steps}, as far as kernel_size {kernel_size} and dilations {tuple(dilations)} "
                f"reach, got {hours}"
            )
        self.static_columns, self.dynamic_columns, self.hours = static_columns, dynamic_columns, hours
        self.expand = keras.layers.Dense(static_columns + filters, name="expand")
        layers = [(block, layer) for block in range(len(dilations)) for layer in range(2)]
        self.convolutions = [
            TransposedConvolution(
                dynamic_columns if (block, layer) == layers[-1] else filters,
                kernel_size,
                dilations[-1 - block],
                name=f"block_{block}_convolution_{layer}",
            )
            for block, layer in layers
        ]
        self.norms = [
            keras.layers.LayerNormalization(name=f"block_{block}_norm_{layer}") for block, layer in layers[:-1]
        ]

    def build(self, input_shape: Sequence[int | None]) -> None:
        """Create the weights for representations of shape [batch, size]; batch may be None."""
        self.expand.build(input_shape)
        channels = self.expand.units - self.static_columns
        for convolution in self.convolutions:
            convolution.build((None, None, channels))
            channels = convolution.filters
        for convolution, norm in zip(self.convolutions, self.norms, strict=False):  # the last has none
            norm.build((None, None, convolution.filters))

    def call(self, representations: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Reconstruct static values and sequence: [B, size] -> [B, static_columns], [B, hours, dynamic_columns]."""
        expanded = self.expand(representations)
        static, sequence = expanded[:, : self.static_columns], expanded[:, None, self.static_columns :]
        for index, convolution in enumerate(self.convolutions):
            # Counted from the end, a step depends on no step further back: cutting here leaves the result the same.
            sequence = convolution(sequence)[:, -self.hours :]
            if index < len(self.norms):
                sequence = tf.nn.relu(self.norms[index](sequence))
        return static, sequence


def mirror(encoder: Encoder, columns: int, kind: type[Decoder] = Decoder) -> Decoder:
    """Make a decoder with the encoder's history, filters, kernel and blocks, for windows of that many columns."""
    tcn = encoder.tcn
    return kind(
        encoder.static_columns,
        columns - encoder.static_columns,
        encoder.history,
        filters=tcn.nb_filters,
        kernel_size=tcn.kernel_size,
        dilations=tuple(tcn.dilations) * tcn.nb_stacks,
    )
