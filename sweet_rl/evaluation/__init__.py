"""What a run is worth, and which of two is better: episodes to numbers, reports, comparisons and their page.

`episodes` reads what numbers need of a file of trajectories, `report` is about one run, `comparison` says what a path names and
compares runs task by task, `page` shows both. Nothing is played or graded here.
"""
