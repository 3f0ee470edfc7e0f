"""Memories as pages of a web application; needs the extra `web`."""

from __future__ import annotations

from langgraph_om.web.app import memory_app

__all__ = ["memory_app"]
