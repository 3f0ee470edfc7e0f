"""The conformance suite of archives."""
