"""Search by meaning: observations and messages, indexed in the run's LangGraph store."""
