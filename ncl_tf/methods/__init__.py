"""Ways to learn a representation; each is a Keras model with its own `train_step`."""
