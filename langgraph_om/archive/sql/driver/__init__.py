"""What connects to the database, and the statements that are given to it again and again."""
