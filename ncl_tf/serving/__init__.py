"""Models that leave the project: SavedModels that anyone with TensorFlow can load."""
