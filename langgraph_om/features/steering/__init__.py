"""Let a person change the log: remember, forget, correct, pin and undo."""
