"""The trainer: schedules, early stopping, checkpoints, distribution and configuration."""
