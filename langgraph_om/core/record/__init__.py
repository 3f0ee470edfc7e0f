"""The record as a value, and what changes it."""
