"""Recall: the tool and its answers."""
