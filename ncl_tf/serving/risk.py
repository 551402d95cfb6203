"""Calibrated risks as a TensorFlow graph: what `ncl_tf.evaluation.calibration.Calibrator` computes, for exported models."""

import tensorflow as tf

from ncl_tf.evaluation.calibration import CLIP, Calibrator


def risk(calibrator: Calibrator, probabilities: tf.Tensor) -> tf.Tensor:
    """Compute the risks of probabilities [B] float32 of the positive class, [B] float32.

    In between, numbers are of double precision as in numpy: risks differ from the calibrator's by the rounding to float32.
    """
    p = tf.clip_by_value(tf.cast(probabilities, tf.float64), CLIP, 1 - CLIP)
    x = tf.math.log(p) - tf.math.log1p(-p)
    if calibrator.kind == "logistic":
        return tf.cast(tf.sigmoid(calibrator.slope * x + calibrator.intercept), tf.float32)
    return tf.cast(_interpolated(x, *(tf.constant(points, tf.float64) for points in _points(calibrator))), tf.float32)


def _points(calibrator: Calibrator) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the breakpoints of an isotonic calibrator, at least two."""
    if len(calibrator.log_odds) > 1:
        return calibrator.log_odds, calibrator.risks
    return (*calibrator.log_odds, calibrator.log_odds[0] + 1), calibrator.risks * 2


def _interpolated(x: tf.Tensor, breakpoints: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
    """Interpolate linearly between breakpoints [P], with constant values beyond the first and the last; x: [B]."""
    x = tf.clip_by_value(x, breakpoints[0], breakpoints[-1])
    right = tf.clip_by_value(tf.searchsorted(breakpoints, x), 1, tf.size(breakpoints) - 1)
    (x0, x1), (y0, y1) = ((tf.gather(table, right - 1), tf.gather(table, right)) for table in (breakpoints, values))
    return y0 + (y1 - y0) * ((x - x0) / (x1 - x0))
