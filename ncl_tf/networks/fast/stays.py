"""The last step of a keras-tcn layer for the window of every hour of whole stays, with common parts computed once.

Windows of consecutive hours overlap. Far enough from a window's beginning, a layer's value depends on the hour alone, not on the
window: it is *shared*, and computed once per hour. Nearer to the beginning than the layer's reach, causal padding shows, and the
value belongs to the one window. With kernel size 2, dilations 1, 2, 4, 8, 16 and 48 hours, 22 outputs per window remain of the
138 that `ncl_tf.networks.fast.last_step.last_step` computes.

Hours before a stay began are zero in every window; their shared values are all the same and have index 0.
"""

import functools
from collections.abc import Callable

import tensorflow as tf
from keras import layers
from tcn import TCN


def last_steps(tcn: TCN, rows: tf.Tensor, hour: tf.Tensor, history: int) -> tf.Tensor:
    """Return the layer's output at the last step of each hour's window, computed with the layer's own weights.

    Returns [N, filters], equal to `last_step` of the windows [N, history, C], zero before the stay's first row. The rows [N, C]
    are the hours of any number of stays, stay after stay; `hour` [N] int32 counts from the stay's first row.
    """
    x = _Input(rows, _Hours(hour, history))
    for block in tcn.residual_blocks:
        y = x
        for layer in block.layers:
            if isinstance(layer, layers.Conv1D):
                y = _Convolution(layer, y)
            elif not isinstance(layer, layers.SpatialDropout1D):
                y = _Pointwise(layer, y)
        match = block.shape_match_conv
        residual = _Convolution(match, x) if isinstance(match, layers.Conv1D) else x
        x = _Pointwise(lambda a, b, last=block.final_activation: last(a + b), residual, y)
    return x.at(history - 1)


class _Hours:
    """Indices of earlier hours among the shared values; hours before the stay are at 0."""

    def __init__(self, hour: tf.Tensor, history: int) -> None:
        self.hour, self.history = hour, history
        self.row = tf.range(1, tf.shape(hour)[0] + 1)
        self._known: dict[int, tf.Tensor] = {}

    def before(self, lag: int) -> tf.Tensor:
        """Return the index of the hour `lag` hours before each hour, [N] int32."""
        if lag not in self._known:
            self._known[lag] = tf.where(self.hour >= lag, self.row - lag, 0)
        return self._known[lag]


class _Values:
    """Outputs of one layer, each computed once, when it is needed.

    Attributes:
        hours: of the stays.
        reach: positions of a window from this one on have shared values.
    """

    def __init__(self, hours: _Hours, reach: int) -> None:
        self.hours, self.reach = hours, reach
        self._known: dict[int, tf.Tensor] = {}

    @functools.cached_property
    def shared(self) -> tf.Tensor:
        """Values of an hour before the stay, then of each hour, [1 + N, F]."""
        return self._shared()

    def at(self, position: int) -> tf.Tensor:
        """Return the values at one position of each hour's window, [N, F]."""
        if position not in self._known:
            shared = position >= self.reach
            self._known[position] = self._place(self.shared, position) if shared else self._own(position)
        return self._known[position]

    def _place(self, shared: tf.Tensor, position: int) -> tf.Tensor:
        """Select the shared values at one position of each hour's window: [1 + N, F] -> [N, F]."""
        return tf.gather(shared, self.hours.before(self.hours.history - 1 - position))


class _Input(_Values):
    def __init__(self, rows: tf.Tensor, hours: _Hours) -> None:
        super().__init__(hours, reach=0)
        self.rows = rows

    def _shared(self) -> tf.Tensor:
        return tf.pad(self.rows, [[1, 0], [0, 0]])


class _Pointwise(_Values):
    """A layer whose output depends on the same step of each of its sources."""

    def __init__(self, function: Callable[..., tf.Tensor], *sources: _Values) -> None:
        super().__init__(sources[0].hours, max(source.reach for source in sources))
        self.sources = sources
        # Layers were built for [B, T, F].
        self.function = lambda *values: function(*(value[:, None] for value in values))[:, 0]

    def _shared(self) -> tf.Tensor:
        return self.function(*(source.shared for source in self.sources))

    def _own(self, position: int) -> tf.Tensor:
        return self.function(*(source.at(position) for source in self.sources))


class _Convolution(_Values):
    """A causal convolution; the product of a shared value with a tap's weights is shared, too."""

    def __init__(self, convolution: layers.Conv1D, source: _Values) -> None:
        size, dilation = convolution.kernel_size[0], convolution.dilation_rate[0]
        super().__init__(source.hours, source.reach + (size - 1) * dilation)
        self.source, self.bias = source, tf.convert_to_tensor(convolution.bias)
        self.taps = {(size - 1 - tap) * dilation: convolution.kernel[tap] for tap in range(size)}  # by lag

    @functools.cached_property
    def products(self) -> dict[int, tf.Tensor]:
        """Products of the shared values with each tap's weights, [1 + N, F] by lag."""
        return {lag: self.source.shared @ weights for lag, weights in self.taps.items()}

    def _shared(self) -> tf.Tensor:
        terms = [tf.gather(self.products[lag], tf.pad(self.hours.before(lag), [[1, 0]])) for lag in self.taps]
        return tf.add_n(terms) + self.bias

    def _own(self, position: int) -> tf.Tensor:
        terms = []
        for lag, weights in self.taps.items():
            before = position - lag
            if before >= self.source.reach:
                terms.append(self._place(self.products[lag], before))
            elif before >= 0:
                terms.append(self.source.at(before) @ weights)
        return tf.add_n(terms) + self.bias
