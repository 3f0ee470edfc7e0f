"""Values by schema out of what is observed."""
