"""LangGraph and LangChain: state graphs, agents, middleware, channels, streams."""
