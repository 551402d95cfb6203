"""Exact fast forms: each computes what its readable counterpart does, and is tested equal to it."""

from ncl_tf.fast.encoder import last_step, supports
from ncl_tf.fast.objective import neighborhood_contrastive_loss
from ncl_tf.fast.stays import last_steps

__all__ = ["last_step", "last_steps", "neighborhood_contrastive_loss", "supports"]
