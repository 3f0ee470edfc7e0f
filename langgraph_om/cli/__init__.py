"""The command `langgraph-om`: what an agent remembers, why, and how to change it."""
