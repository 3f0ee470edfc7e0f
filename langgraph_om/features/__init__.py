"""Optional parts of memory; `langgraph_om/options.py` says which of them are on."""
