"""How many examples the laws over whole conversations try.

By default as many as a daily run can wait for. `OM_EXAMPLES=1` is what CI tries, 50 a soak.
"""

from __future__ import annotations

import os

EXAMPLES = int(os.environ.get("OM_EXAMPLES", "0"))
