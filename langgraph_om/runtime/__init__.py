"""Everything that waits: the runner, drivers, hooks, executors, claims."""
