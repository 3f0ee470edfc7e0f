"""Search by words in SQL: the index, what is written into it, and how it is asked."""
