"""Whole comparisons as clients of the commands, from nothing to a page; the demos are the smallest."""
