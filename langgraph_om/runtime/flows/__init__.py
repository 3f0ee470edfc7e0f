"""Flows of a run: what they want, as requests that a driver fulfils."""
