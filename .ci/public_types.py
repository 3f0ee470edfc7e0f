"""Hold that pyright knows the type of every public name.

    python .ci/public_types.py

The first `python` of the path is to have the package. A type that pyright infers counts as known,
because mypy holds annotations.
"""

from __future__ import annotations

import json
import subprocess
import sys

OF_LANGGRAPH = ("langgraph_om.integrations.channels.", "langgraph_om.integrations.nodes.")
"""Their names derive from LangGraph's, a namespace package that pyright finds untyped."""


def main() -> None:
    """Print the public names whose type is unknown; fail where there are any."""
    command = ["basedpyright", "--verifytypes", "langgraph_om", "--ignoreexternal", "--outputjson"]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stdout  # noqa: S603
    symbols = json.loads(said)["typeCompleteness"]["symbols"]
    public = [each for each in symbols if each["isExported"]]
    unknown = [
        f"{each['name']}: {'; '.join(told['message'] for told in each['diagnostics'])}\n"
        for each in public
        if not each["isTypeKnown"]
        and not each["isTypeAmbiguous"]
        and not each["name"].startswith((*OF_LANGGRAPH, "langgraph_om.MemoryTransformer"))
    ]
    sys.stdout.writelines(unknown[:20])
    sys.stdout.write(f"{len(public):,} public names, {len(unknown)} of an unknown type\n")
    if unknown or not public:
        sys.exit(1)


if __name__ == "__main__":
    main()
