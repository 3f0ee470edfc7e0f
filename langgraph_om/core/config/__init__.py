"""What a user sets, and what it comes to."""
