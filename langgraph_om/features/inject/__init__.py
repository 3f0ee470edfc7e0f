"""Earlier messages that may bear on what the user says, shown without being asked for."""
