"""What a view of a window is made from, kept with the window from look to look."""
