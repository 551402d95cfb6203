"""Packaging of ncl_tf; `make` installs it, editable, into `.venv` with the pinned versions of requirements.txt."""

import pathlib
import runpy

from setuptools import find_packages, setup

HERE = pathlib.Path(__file__).parent
PROGRAMS = [
    path.name for path in (HERE / "bin").iterdir() if path.is_file() and path.name != "benchmark"
]  # needs a checkout
FOLDERS = {
    "bin": PROGRAMS,
    "gin": ["**/*.gin"],
    **({"models": ["**/*"]} if (HERE / "models").is_dir() else {}),
}  # beside ncl_tf in a checkout; what of them a wheel holds, as ncl_tf/bin, ...
DOCS = ["mkdocs>=1.6,<2", "mkdocs-material>=9.6,<10", "mkdocstrings[python]>=1"]

setup(
    name="ncl_tf",
    version=runpy.run_path(HERE / "ncl_tf" / "version.py")["VERSION"],
    description="Neighborhood Contrastive Learning for online patient monitoring, in TensorFlow and Keras",
    long_description=(HERE / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="MIT",
    python_requires=">=3.11,<3.14",
    packages=[
        *find_packages(include=["ncl_tf", "ncl_tf.*", "data_prep", "data_prep.*"]),
        *(f"ncl_tf.{name}" for name in FOLDERS),
    ],
    package_dir={f"ncl_tf.{name}": name for name in FOLDERS},
    package_data={
        "ncl_tf.paper": ["*.toml", "tables/*.toml", "tables/any_task/*.toml"],
        "ncl_tf.reporting.report": ["*.html", "*.css", "*.js"],
        **{f"ncl_tf.{name}": patterns for name, patterns in FOLDERS.items()},
    },
    entry_points={"console_scripts": ["ncl_tf = ncl_tf.command:main"]},
    install_requires=[
        "absl-py>=2.1,<3",
        "gin-config>=0.5,<0.6",
        "h5py>=3.11,<4",
        "keras>=3.8,<4",
        # 3.5.7 requires a package that exists for macOS alone
        "keras-tcn>=3.5.6,!=3.5.7,<4",
        "matplotlib>=3.9,<4",
        "numpy>=2.0,<3",
        "pandas>=2.2,<4",
        "pyarrow>=17",
        "scikit-learn>=1.5,<2",
        "scipy>=1.13,<2",
        "tensorboard>=2.19,<3",
        "tensorflow>=2.19,<3",
        "threadpoolctl>=3.1,<4",
        "tqdm>=4.66,<5",
    ],
    extras_require={
        "cluster": ["grpcio>=1.60,<2", "ray>=2.40,<3"],
        "docs": DOCS,
        "test": [*DOCS, "import-linter>=2", "pytest>=8", "pytest-xdist>=3.6", "ray>=2.40,<3", "ruff>=0.6"],
    },
)
