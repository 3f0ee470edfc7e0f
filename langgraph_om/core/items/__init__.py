"""The log as items: where one stands, which one is meant, what a person does to it."""
