"""What a run is worth, and which of two is better: episodes to numbers, reports, comparisons and their page.

`episodes` reads what numbers need of a file of trajectories, `measures` are those numbers, `report` is about
one run, `sources` says what a file or folder is and what two of them do not share, `comparison` compares them
task by task, `page` shows it. Nothing is played or graded here.
"""
