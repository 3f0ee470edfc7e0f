"""What a thread is called, and where that comes from."""
