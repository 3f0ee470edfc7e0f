"""Resource scope: one log over all threads of a resource."""
