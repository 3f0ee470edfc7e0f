"""A memory as a page of HTML: pure functions, no script, everything escaped."""
