"""Encoder, projector, decoder and heads."""

HEADS = ("linear", "mlp")  # kinds of heads, named where no TensorFlow is imported
