"""The Observer's question and answer."""
