"""One step before a model call: inspect, let features take part, state the status."""
