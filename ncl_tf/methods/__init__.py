"""Methods that learn a representation, each a Keras model; `base` has the `train_step` that they share."""
