"""What waits: the runner, drivers, hooks, executors, claims."""
