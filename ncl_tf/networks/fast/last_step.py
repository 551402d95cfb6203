"""The last step of a keras-tcn layer, without the steps that it does not depend on.

A causal TCN whose last output alone is wanted needs few of its convolutions' outputs. Walking back from the last step,
a convolution of kernel size k and dilation d adds the taps t, t - d, ..., t - (k - 1) d of every step t needed above it;
with kernel size 2, dilations 1, 2, 4, 8, 16 and 48 input steps, 138 of 480 outputs remain.

The needed steps are kept as `range`s. Where the dilations leave gaps of several sizes, the range includes a few steps
that are not needed: strided slices and reshapes, whose gradients are fast, are worth more than the last skipped step.
"""

from math import gcd

import tensorflow as tf
from keras import layers
from tcn import TCN
from tcn.tcn import ResidualBlock

from ncl_tf.networks.fast.normalization import normalize


def last_step(tcn: TCN, inputs: tf.Tensor) -> tf.Tensor:
    """Return the layer's output at the last step, computed with the layer's own weights.

    Args:
        tcn: the layer, built, as `Encoder` makes it: causal, without skip connections, batch normalization or dropout.
        inputs: [B, T, C]; B may be unknown.

    Returns:
        [B, filters], equal to `tcn(inputs)[:, -1]`.
    """
    x, have = inputs, range(inputs.shape[1])
    for block, want in zip(tcn.residual_blocks, _needed_after_each_block(tcn, len(have)), strict=True):
        x, have = _residual_block(block, x, have, want), want
    return x[:, -1]


def _needed_after_each_block(tcn: TCN, length: int) -> list[range]:
    """Return the steps of every block's output on which the last step of the layer depends, first block first."""
    needed = [range(length - 1, length)]
    for block in tcn.residual_blocks[:0:-1]:
        first, second = _convolutions(block)
        needed.append(_taps(first, _taps(second, needed[-1])))
    return needed[::-1]


def _residual_block(block: ResidualBlock, x: tf.Tensor, have: range, want: range) -> tf.Tensor:
    """Compute one block: its input at the steps `have`, [B, len(have), C] -> its output at `want`, [B, len(want), filters]."""
    _, second = _convolutions(block)
    y, steps, following = x, have, iter((_taps(second, want), want))
    for layer in block.layers:
        if isinstance(layer, layers.Conv1D):
            after = next(following)
            y, steps = _convolve(layer, y, steps, after), after
        elif isinstance(layer, layers.LayerNormalization):
            y = normalize(layer, y)
        elif not isinstance(layer, layers.SpatialDropout1D):
            y = layer(y)
    residual, match = _select(x, have, want), block.shape_match_conv
    if isinstance(match, layers.Conv1D):
        residual = _convolve(match, residual, want, want)
    return block.final_activation(residual + y)


def _convolutions(block: ResidualBlock) -> list[layers.Conv1D]:
    """Return the two dilated convolutions of a block."""
    return [layer for layer in block.layers if isinstance(layer, layers.Conv1D)]


def _taps(convolution: layers.Conv1D, steps: range) -> range:
    """Return the input steps that a causal convolution needs for its outputs at `steps`, none before the beginning."""
    reach = (convolution.kernel_size[0] - 1) * convolution.dilation_rate[0]
    if not reach:
        return steps
    last = steps[-1]
    stride = gcd(convolution.dilation_rate[0], steps.step if len(steps) > 1 else 0)
    return range(max(steps[0] - reach, last % stride), last + 1, stride)


def _convolve(convolution: layers.Conv1D, x: tf.Tensor, have: range, want: range) -> tf.Tensor:
    """Compute a causal convolution at the steps `want` as one matrix product: [B, len(have), C] -> [B, len(want), filters]."""
    size, dilation = convolution.kernel_size[0], convolution.dilation_rate[0]
    back = [(size - 1 - tap) * dilation for tap in range(size)]
    if list(have) == [step - lag for step in want for lag in back]:
        windows = x  # Every input step is used once, in order: reshaping does it.
    else:
        shifted = [range(want.start - lag, want.stop - lag, want.step) for lag in back]
        windows = tf.concat([_select(x, have, steps) for steps in shifted], axis=-1)
    windows = tf.reshape(windows, [-1, size * x.shape[-1]])
    y = tf.nn.bias_add(windows @ tf.reshape(convolution.kernel, [-1, convolution.filters]), convolution.bias)
    return tf.reshape(y, [-1, len(want), convolution.filters])


def _select(x: tf.Tensor, have: range, want: range) -> tf.Tensor:
    """Select the steps `want` of `x` [B, len(have), C]; those before the beginning are zero, as in causal padding."""
    if want == have:
        return x
    inside = [step for step in want if step >= 0]
    if inside:
        x = x[:, have.index(inside[0]) : have.index(inside[-1]) + 1 : max(1, want.step // have.step)]
    else:
        x = x[:, :0]
    return tf.pad(x, [[0, 0], [len(want) - len(inside), 0], [0, 0]]) if len(inside) < len(want) else x
