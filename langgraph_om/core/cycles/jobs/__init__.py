"""Background jobs that run elsewhere."""
