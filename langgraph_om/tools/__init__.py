"""Ways for people and programs to look at memory: the command line, the inspector, and MCP."""
