"""The rooms of `examples/evaluate.py`: formats, rules, memories, the run, the report."""
