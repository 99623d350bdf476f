"""Whole comparisons as clients of the commands, from data to a report page; the demos are the smallest."""
