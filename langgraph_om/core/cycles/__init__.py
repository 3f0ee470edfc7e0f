"""Flows that carry out a decision, a file for each operation."""
