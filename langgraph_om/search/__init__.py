"""Where earlier messages and observations are read and searched: the archive, or a state."""
