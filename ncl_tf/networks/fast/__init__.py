"""Exact fast forms of the encoder: each computes what its readable counterpart does, and is tested equal to it."""
