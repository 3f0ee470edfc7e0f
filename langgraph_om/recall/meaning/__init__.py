"""Search by meaning: what is put into the store of a run, and what is found there."""
