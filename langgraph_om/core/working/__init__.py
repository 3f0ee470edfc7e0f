"""Working memory as a value: its form, how updates are merged into it, and how it is shown."""
