# The memories as pages of the server, at /memory: `langgraph.json` names this file under "http".
#
# A file of its own, because the server runs it by its path, and not as a module: a class with
# annotations that are read later, such as a graph's state, would not find its names.

from graphs import memory

from langgraph_om.tools.inspector import memory_app

app = memory_app(memory)  # under localhost alone; `authorize=` says who may see them elsewhere
