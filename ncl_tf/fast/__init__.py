"""Exact fast forms: each computes what its readable counterpart does, and is tested equal to it."""

from ncl_tf.fast.encoder import last_step, supports
from ncl_tf.fast.objective import neighborhood_contrastive_loss

__all__ = ["last_step", "neighborhood_contrastive_loss", "supports"]
