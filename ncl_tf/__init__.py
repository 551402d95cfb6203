"""Neighborhood Contrastive Learning for online patient monitoring (Yeche et al., ICML 2021)."""

__version__ = "0.1.0"
