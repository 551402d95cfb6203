"""Where programs, configurations and trained models lie: beside the package in a checkout, inside of it once installed."""

import pathlib

PACKAGE = pathlib.Path(__file__).resolve().parent
HOME = (
    PACKAGE if (PACKAGE / "bin").is_dir() else PACKAGE.parent
)  # a wheel holds bin/, gin/ and models/ as ncl_tf/bin, ...
BIN, GIN, MODELS = HOME / "bin", HOME / "gin", HOME / "models"
