"""Print the lowest version of each dependency that `pyproject.toml` allows, as constraints for pip.

    python .ci/lowest_versions.py [EXTRA ...]

An extra may need a newer version of what the package itself depends on.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

LOWER_BOUND = re.compile(r"(?P<name>[\w.-]+)(?:\[[^]]*\])?>=(?P<version>[\w.]+)")


def main() -> None:
    """Print a constraint for each lower bound; one of an extra replaces that of the package."""
    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    groups = [project["dependencies"]]
    groups += [project["optional-dependencies"][extra] for extra in sys.argv[1:]]
    bounds = [LOWER_BOUND.match(requirement) for group in groups for requirement in group]
    lowest = {bound["name"]: bound["version"] for bound in bounds if bound}
    sys.stdout.writelines(f"{name}=={version}\n" for name, version in lowest.items())


if __name__ == "__main__":
    main()
