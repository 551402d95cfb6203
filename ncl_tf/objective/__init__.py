"""Neighborhoods and the neighborhood contrastive objective, readable and in an exact fast form."""
