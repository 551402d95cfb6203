"""The error that bad input of users raises; its message names the value, its place and what is allowed."""


class InputError(ValueError):
    """Input that cannot be used. Programs print its message and exit with code 1."""
