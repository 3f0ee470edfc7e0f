"""The Reflector's question, and its answer as groups."""
