"""What the quickstart plays: a story, its world, what is shown of it, and what it cost."""
