"""Readers of raw data: one module per source. `data_prep` has the programs that write cohorts with them."""
