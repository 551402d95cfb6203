"""A simulated ward, written in the files of a real dataset."""
