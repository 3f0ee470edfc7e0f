"""Which model is asked, with what, and how often."""
