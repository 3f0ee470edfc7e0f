"""The public API as its users write it: this file only has to pass the type checker."""
