"""The command `ncl_tf`, which installing the package provides: every program of bin/ as a subcommand."""

import runpy
import sys

from ncl_tf import cli, project

_DESCRIPTION = """Neighborhood Contrastive Learning for online patient monitoring.

Examples:
  # simulate a ward, prepare it, train on it
  bin/prepare simulate --stays=2000 --seed=1 --output=ward
  bin/prepare physionet2019 --source=ward --split=random --output=ward.h5
  bin/train --gin_file=quickstart.gin --gin_param="cohort = 'ward.h5'" --run_dir=ncl_w

Programs:
"""


def programs() -> dict[str, str]:
    """List the programs with the first line of what each does."""
    found = {}
    for path in sorted(project.BIN.iterdir()):
        if path.is_file() and not path.suffix:
            found[path.name] = path.read_text(encoding="utf-8").split('"""')[1].splitlines()[0]
    return found


def main() -> None:
    """Run a program of bin/ under the name that it has as a subcommand."""
    found = programs()
    listed = "\n".join(f"  {name:<12}{line}" for name, line in found.items())
    cli.installed_as, sys.argv[0] = "ncl_tf ", "ncl_tf"
    sys.modules["__main__"].__doc__ = f"{_DESCRIPTION}{listed}\n\n`ncl_tf PROGRAM --help` shows the flags of a program."
    program = project.BIN / cli.subcommand(list(found))
    sys.argv[0] = str(program)
    sys.path.insert(0, str(project.BIN))  # where Python finds what lies beside a program that it starts by itself
    runpy.run_path(str(program), run_name="__main__")


if __name__ == "__main__":
    main()
