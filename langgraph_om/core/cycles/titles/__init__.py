"""The title that a model gives a thread after its first answer."""
