"""What each type of event does to the record: a reducer replaces values, and changes none in place.

The table of them is in `fold`, by way of which alone events take effect.
"""
