"""The host's options of a memory: each with its rule, and read as a whole."""

from langgraph_om.options.reading import Options, read_options
from langgraph_om.options.unknown import NoMiddleware, refuse_unknown_options

__all__ = ["NoMiddleware", "Options", "read_options", "refuse_unknown_options"]
