"""The pure core: every rule of the memory, and no I/O."""
