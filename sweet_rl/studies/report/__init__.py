"""The result of a study, to a page."""
