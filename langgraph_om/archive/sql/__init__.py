"""The archive in SQLite or PostgreSQL."""
