"""What the Actor sees."""
