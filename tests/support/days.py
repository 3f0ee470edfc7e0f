"""Days, and every way to write them."""

from __future__ import annotations

from datetime import date

from hypothesis import strategies as st

MONTHS = [
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
]  # fmt: skip

days = st.dates(date(1900, 1, 1), date(2200, 12, 31))
