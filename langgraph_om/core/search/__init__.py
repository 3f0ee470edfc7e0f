"""Search by words: what of a text can be found, how well it matches, and where."""
