"""The tool `recall`, with which the Actor reads the messages behind its observations."""
