"""What a cycle does where threads share a log: other threads read, and one at a time at work."""
