"""Evaluation of representations: metrics, heads on frozen or fine-tuned encoders, limited labels."""
