"""What of a conversation goes into the archive, and what may leave the checkpoint then."""
