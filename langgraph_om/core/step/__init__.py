"""One step before a model call: inspect, archive, exchange, state the status."""
