"""For a LangGraph server."""
