"""`python -m langgraph_om`: the same as the command `langgraph-om`."""

from __future__ import annotations

import sys

from langgraph_om.tools.cli import main

if __name__ == "__main__":
    sys.exit(main())
