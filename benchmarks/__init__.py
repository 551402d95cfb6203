"""Readable against fast forms, measured in one run; `bin/benchmark` is the program."""
