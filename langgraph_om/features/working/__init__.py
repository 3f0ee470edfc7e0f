"""Working memory: what is always known of a user, kept by the Actor with a tool."""
